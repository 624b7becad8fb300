"""Tests of broker/metadata/metadata_cache.py and topic_waiting.py."""

import asyncio

import pytest

from odradek.broker.metadata.picture import Node
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


async def begun(waiting):
    """A task that has come as far as it can."""
    task = asyncio.get_running_loop().create_task(waiting)
    await asyncio.sleep(0)
    return task


# What is the whole


def test_a_topic_deleted_while_the_broker_was_away_is_gone_when_it_is_told_of_all():
    known = cluster(update({"t": [state()], "u": [state(0), state(1)]}, broker_epoch=5))
    assert known.update(update({"v": [state()]}, broker_epoch=5)) == ()
    assert known.update(update(broker_epoch=9, controller_epoch=2)) == ()
    assert all(map(known.has_topic, "tuv"))  # until there is something better
    # It is not known to be deleted, but not known to be there.
    assert known.update(update({"u": [state(0)]}, broker_epoch=9)) == ()
    assert known.partitions() == [TopicPartition("u", 0)]
    assert known.name_of(topic_id("t")) is None
    known.update(update({"v": [state()]}, broker_epoch=9))
    assert known.partitions() == [TopicPartition("u", 0), TopicPartition("v", 0)]


def test_what_is_said_to_be_deleted_is_then_told_as_ever():
    known = cluster(update({"t": [state()], "u": [state()]}, broker_epoch=5))
    gone = known.update(update({"t": [state(leader=GOING)]}, broker_epoch=9))
    assert gone == (TopicPartition("t", 0),)
    assert known.partitions() == []


def test_nothing_is_the_whole_where_lives_are_not_told():
    known = cluster(update({"t": [state()]}), update({"u": [state()]}))
    assert all(map(known.has_topic, "tu"))


async def test_who_waits_until_a_topic_is_gone_learns_of_it_so_too():
    known = cluster(update({"t": [state()], "u": [state()]}, broker_epoch=5))
    waiting = await begun(known.wait_until_gone(["t"], timeout_s=LONG_S))
    known.update(update({"u": [state()]}, broker_epoch=9))
    assert await waiting == set()


# Look-ups


def test_nothing_is_known_at_first():
    known = cluster()
    assert not known.has_topic("t")
    assert known.topic("t") is None
    assert known.partition("t", 0) is None
    assert known.partitions() == []
    assert known.controller_id == -1
    assert not known.nodes(INSIDE)


def test_topics_are_found_by_name_and_by_id():
    known = cluster(update({"t": [state()]}))
    assert known.has_topic("t")
    assert known.topic("t").id == topic_id("t")
    assert known.name_of(topic_id("t")) == "t"
    assert known.id_of("t") == topic_id("t")
    assert known.name_of(topic_id("u")) is None
    assert known.id_of("u") == ZERO_UUID


def test_partitions_are_found():
    known = cluster(update({"t": [state(0), state(2, leader=2)]}))
    assert known.has_partition("t", 2)
    assert not known.has_partition("t", 1)
    assert not known.has_partition("u", 0)
    assert known.partition("t", 2).leader == 2
    assert known.partitions() == [TopicPartition("t", 0), TopicPartition("t", 2)]


def test_a_leader_is_found_where_it_listens():
    brokers = [live_broker(1), live_broker(2, listeners=[INSIDE, OUTSIDE])]
    known = cluster(
        update({"t": [state(0), state(1, leader=2), state(2, leader=3)]}, brokers=brokers)
    )
    assert known.leader_node("t", 0, listener=INSIDE) == Node(1, "inside1", 9092, None)
    assert known.leader_node("t", 0, listener=OUTSIDE) is None
    assert known.leader_node("t", 1, listener=OUTSIDE) == Node(2, "outside2", 9092, None)
    assert known.leader_node("t", 2, listener=INSIDE) is None
    assert known.leader_node("t", 3, listener=INSIDE) is None


def test_brokers_are_alive_if_the_controller_says_so():
    known = cluster(update(brokers=[live_broker(2)], controller_id=2))
    assert known.is_alive(2)
    assert not known.is_alive(1)
    assert known.controller_id == 2


def test_an_update_tells_what_is_gone():
    known = cluster(update({"t": [state()]}))
    assert known.update(update({"t": [state(leader=GOING)]})) == (TopicPartition("t", 0),)


# Waiting for leaders


async def test_leaders_that_are_there_are_not_waited_for():
    known = cluster(update({"t": [state(0), state(1)]}))
    assert await known.wait_for_leaders({"t": [0, 1]}, timeout_s=NO_TIME_S) == set()


async def test_whoever_waits_for_leaders_is_woken_by_the_last_of_them():
    known = cluster()
    waiting = await begun(known.wait_for_leaders({"t": [0, 1], "u": [0]}, timeout_s=LONG_S))
    known.update(update({"t": [state(0), state(1, leader=-1)]}))
    known.update(update({"u": [state(0)]}))
    await asyncio.sleep(0)
    assert not waiting.done()
    known.update(update({"t": [state(1)]}))
    assert await waiting == set()


async def test_what_lasts_for_a_moment_is_noticed():
    known = cluster()
    waiting = await begun(known.wait_for_leaders({"t": [0]}, timeout_s=LONG_S))
    known.update(update({"t": [state()]}))
    known.update(update({"t": [state(leader=GOING)]}))
    assert await waiting == set()


async def test_those_without_leaders_are_named_when_the_time_is_over():
    known = cluster(update({"t": [state()], "u": [state(0), state(1, leader=-1)]}))
    wanted = {"t": [0], "u": [0, 1], "v": [0]}
    assert await known.wait_for_leaders(wanted, timeout_s=NO_TIME_S) == {"u", "v"}


# Waiting for the end


async def test_whoever_waits_for_the_end_is_woken_by_it():
    known = cluster(update({"t": [state(0), state(1)], "u": [state()]}))
    waiting = await begun(known.wait_until_gone({"t"}, timeout_s=LONG_S))
    known.update(update({"t": [state(0, leader=GOING)]}))
    await asyncio.sleep(0)
    assert not waiting.done()
    known.update(update({"t": [state(1, leader=GOING)]}))
    assert await waiting == set()


async def test_those_that_stay_are_named_when_the_time_is_over():
    known = cluster(update({"t": [state()]}))
    assert await known.wait_until_gone({"t", "u"}, timeout_s=NO_TIME_S) == {"t"}


# Waiting for those who were elected


async def test_whoever_waits_for_a_leader_is_not_content_with_another():
    known = cluster(update({"t": [state(leader=1)]}))
    partition = TopicPartition("t", 0)
    waiting = await begun(known.wait_for_elected({partition: 2}, timeout_s=LONG_S))
    known.update(update({"t": [state(leader=-1)]}))
    await asyncio.sleep(0)
    assert not waiting.done()
    known.update(update({"t": [state(leader=2)]}))
    assert await waiting == set()


async def test_partitions_led_by_others_are_named_when_the_time_is_over():
    known = cluster(update({"t": [state(0, leader=1), state(1, leader=2)]}))
    elected = {TopicPartition("t", 0): 2, TopicPartition("t", 1): 2, TopicPartition("u", 0): 1}
    late = await known.wait_for_elected(elected, timeout_s=NO_TIME_S)
    assert late == {TopicPartition("t", 0), TopicPartition("u", 0)}


# All waiting


async def test_other_topics_wake_nobody():
    looked = []
    known = cluster()

    def is_reached():
        looked.append(True)
        return False

    waiting = await begun(known._waiting.wait_until(is_reached, {"t"}, timeout_s=LONG_S))
    known.update(update({"u": [state()]}))
    assert len(looked) == 1
    known.update(update({"t": [state()]}))
    assert len(looked) == 2
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


@pytest.mark.parametrize("how", ["reached", "too late", "cancelled"])
async def test_nobody_is_remembered_who_waits_no_more(how):
    known = cluster()
    timeout_s = 0.001 if how == "too late" else LONG_S
    waiting = await begun(known.wait_for_leaders({"t": [0], "u": [0]}, timeout_s=timeout_s))
    assert known._waiting._waiters.keys() == {"t", "u"}
    if how == "reached":
        known.update(update({"t": [state()], "u": [state()]}))
    elif how == "cancelled":
        waiting.cancel()
    await asyncio.wait([waiting])
    assert not known._waiting._waiters
