"""The metadata cache: updates, lookups, and waiting for leaders, deletions and elections."""

import asyncio

import pytest

from odradek.broker.metadata.metadata_snapshot import Node
from odradek.protocol.types import ZERO_UUID, TopicPartition
from tests.support.metadata_updates import (
    GOING,
    INSIDE,
    OUTSIDE,
    cluster,
    live_broker,
    state,
    topic_id,
    update,
)

LONG_S = 30.0
NO_TIME_S = 0.0


async def start_waiting(coroutine):
    """Starts a task and lets it run until it waits."""
    task = asyncio.get_running_loop().create_task(coroutine)
    await asyncio.sleep(0)
    return task


# Full updates


def test_topic_deleted_while_the_broker_was_disconnected_is_dropped_by_a_full_update():
    metadata_cache = cluster(update({"t": [state()], "u": [state(0), state(1)]}, broker_epoch=5))
    assert metadata_cache.update(update({"v": [state()]}, broker_epoch=5)) == ()
    assert metadata_cache.update(update(broker_epoch=9, controller_epoch=2)) == ()
    assert all(map(metadata_cache.has_topic, "tuv"))  # until a full update arrives
    # Topics are dropped, but not reported as deleted.
    assert metadata_cache.update(update({"u": [state(0)]}, broker_epoch=9)) == ()
    assert metadata_cache.partitions() == [TopicPartition("u", 0)]
    assert metadata_cache.topic_name(topic_id("t")) is None
    metadata_cache.update(update({"v": [state()]}, broker_epoch=9))
    assert metadata_cache.partitions() == [TopicPartition("u", 0), TopicPartition("v", 0)]


def test_deletion_during_a_full_update_is_reported():
    metadata_cache = cluster(update({"t": [state()], "u": [state()]}, broker_epoch=5))
    deleted = metadata_cache.update(update({"t": [state(leader=GOING)]}, broker_epoch=9))
    assert deleted == (TopicPartition("t", 0),)
    assert metadata_cache.partitions() == []


def test_update_without_broker_epoch_is_never_full():
    metadata_cache = cluster(update({"t": [state()]}), update({"u": [state()]}))
    assert all(map(metadata_cache.has_topic, "tu"))


async def test_full_update_completes_the_wait_for_a_deletion():
    metadata_cache = cluster(update({"t": [state()], "u": [state()]}, broker_epoch=5))
    waiting = await start_waiting(metadata_cache.wait_until_deleted(["t"], timeout_s=LONG_S))
    metadata_cache.update(update({"u": [state()]}, broker_epoch=9))
    assert await waiting == set()


# Lookups


def test_cache_is_empty_at_first():
    metadata_cache = cluster()
    assert not metadata_cache.has_topic("t")
    assert metadata_cache.topic("t") is None
    assert metadata_cache.partition("t", 0) is None
    assert metadata_cache.partitions() == []
    assert metadata_cache.controller_id == -1
    assert not metadata_cache.nodes(INSIDE)


def test_topics_are_found_by_name_and_by_id():
    metadata_cache = cluster(update({"t": [state()]}))
    assert metadata_cache.has_topic("t")
    assert metadata_cache.topic("t").id == topic_id("t")
    assert metadata_cache.topic_name(topic_id("t")) == "t"
    assert metadata_cache.topic_id("t") == topic_id("t")
    assert metadata_cache.topic_name(topic_id("u")) is None
    assert metadata_cache.topic_id("u") == ZERO_UUID


def test_partitions_are_found():
    metadata_cache = cluster(update({"t": [state(0), state(2, leader=2)]}))
    assert metadata_cache.has_partition("t", 2)
    assert not metadata_cache.has_partition("t", 1)
    assert not metadata_cache.has_partition("u", 0)
    assert metadata_cache.partition("t", 2).leader == 2
    assert metadata_cache.partitions() == [TopicPartition("t", 0), TopicPartition("t", 2)]


def test_leader_is_found_by_listener():
    brokers = [live_broker(1), live_broker(2, listeners=[INSIDE, OUTSIDE])]
    metadata_cache = cluster(
        update({"t": [state(0), state(1, leader=2), state(2, leader=3)]}, brokers=brokers)
    )
    assert metadata_cache.leader_node("t", 0, listener=INSIDE) == Node(1, "inside1", 9092, None)
    assert metadata_cache.leader_node("t", 0, listener=OUTSIDE) is None
    assert metadata_cache.leader_node("t", 1, listener=OUTSIDE) == Node(2, "outside2", 9092, None)
    assert metadata_cache.leader_node("t", 2, listener=INSIDE) is None
    assert metadata_cache.leader_node("t", 3, listener=INSIDE) is None


def test_brokers_are_alive_if_the_controller_says_so():
    metadata_cache = cluster(update(brokers=[live_broker(2)], controller_id=2))
    assert metadata_cache.is_alive(2)
    assert not metadata_cache.is_alive(1)
    assert metadata_cache.controller_id == 2


def test_update_returns_deleted_partitions():
    metadata_cache = cluster(update({"t": [state()]}))
    assert metadata_cache.update(update({"t": [state(leader=GOING)]})) == (TopicPartition("t", 0),)


# Waiting for leaders


async def test_known_leaders_are_not_waited_for():
    metadata_cache = cluster(update({"t": [state(0), state(1)]}))
    assert await metadata_cache.wait_for_leaders({"t": [0, 1]}, timeout_s=NO_TIME_S) == set()


async def test_wait_for_leaders_completes_with_the_last_leader():
    metadata_cache = cluster()
    waiting = await start_waiting(
        metadata_cache.wait_for_leaders({"t": [0, 1], "u": [0]}, timeout_s=LONG_S)
    )
    metadata_cache.update(update({"t": [state(0), state(1, leader=-1)]}))
    metadata_cache.update(update({"u": [state(0)]}))
    await asyncio.sleep(0)
    assert not waiting.done()
    metadata_cache.update(update({"t": [state(1)]}))
    assert await waiting == set()


async def test_short_lived_leader_completes_the_wait():
    metadata_cache = cluster()
    waiting = await start_waiting(metadata_cache.wait_for_leaders({"t": [0]}, timeout_s=LONG_S))
    metadata_cache.update(update({"t": [state()]}))
    metadata_cache.update(update({"t": [state(leader=GOING)]}))
    assert await waiting == set()


async def test_topics_without_leaders_are_returned_at_the_timeout():
    metadata_cache = cluster(update({"t": [state()], "u": [state(0), state(1, leader=-1)]}))
    partitions = {"t": [0], "u": [0, 1], "v": [0]}
    assert await metadata_cache.wait_for_leaders(partitions, timeout_s=NO_TIME_S) == {"u", "v"}


# Waiting for deletions


async def test_wait_until_deleted_completes_with_the_deletion():
    metadata_cache = cluster(update({"t": [state(0), state(1)], "u": [state()]}))
    waiting = await start_waiting(metadata_cache.wait_until_deleted({"t"}, timeout_s=LONG_S))
    metadata_cache.update(update({"t": [state(0, leader=GOING)]}))
    await asyncio.sleep(0)
    assert not waiting.done()
    metadata_cache.update(update({"t": [state(1, leader=GOING)]}))
    assert await waiting == set()


async def test_remaining_topics_are_returned_at_the_timeout():
    metadata_cache = cluster(update({"t": [state()]}))
    assert await metadata_cache.wait_until_deleted({"t", "u"}, timeout_s=NO_TIME_S) == {"t"}


# Waiting for elected leaders


async def test_wait_for_an_election_completes_with_the_elected_leader_only():
    metadata_cache = cluster(update({"t": [state(leader=1)]}))
    partition = TopicPartition("t", 0)
    waiting = await start_waiting(
        metadata_cache.wait_for_elections({partition: 2}, timeout_s=LONG_S)
    )
    metadata_cache.update(update({"t": [state(leader=-1)]}))
    await asyncio.sleep(0)
    assert not waiting.done()
    metadata_cache.update(update({"t": [state(leader=2)]}))
    assert await waiting == set()


async def test_partitions_with_other_leaders_are_returned_at_the_timeout():
    metadata_cache = cluster(update({"t": [state(0, leader=1), state(1, leader=2)]}))
    elected = {TopicPartition("t", 0): 2, TopicPartition("t", 1): 2, TopicPartition("u", 0): 1}
    late = await metadata_cache.wait_for_elections(elected, timeout_s=NO_TIME_S)
    assert late == {TopicPartition("t", 0), TopicPartition("u", 0)}


# All waiters


async def test_waiters_are_not_checked_for_other_topics():
    checks = []
    metadata_cache = cluster()

    def is_reached():
        checks.append(True)
        return False

    waiting = await start_waiting(
        metadata_cache._topic_waiters.wait_until(is_reached, {"t"}, timeout_s=LONG_S)
    )
    metadata_cache.update(update({"u": [state()]}))
    assert len(checks) == 1
    metadata_cache.update(update({"t": [state()]}))
    assert len(checks) == 2
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


@pytest.mark.parametrize("outcome", ["reached", "too late", "cancelled"])
async def test_waiter_is_removed_when_it_ends(outcome):
    metadata_cache = cluster()
    timeout_s = 0.001 if outcome == "too late" else LONG_S
    waiting = await start_waiting(
        metadata_cache.wait_for_leaders({"t": [0], "u": [0]}, timeout_s=timeout_s)
    )
    assert metadata_cache._topic_waiters._waiters.keys() == {"t", "u"}
    if outcome == "reached":
        metadata_cache.update(update({"t": [state()], "u": [state()]}))
    elif outcome == "cancelled":
        waiting.cancel()
    await asyncio.wait([waiting])
    assert not metadata_cache._topic_waiters._waiters
