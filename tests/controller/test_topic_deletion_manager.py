"""Tests of controller/topic_deletion.py, on the memory store."""

import logging

import pytest

from odradek.controller.context import Replica
from odradek.controller.leadership import LEADER_DURING_DELETE, NO_LEADER
from odradek.controller.partition_state import PartitionState
from odradek.controller.replica_state import ReplicaState
from odradek.controller.store import paths
from odradek.controller.store.base import Delete, MetadataStore
from odradek.controller.topic_deletion import TopicDeletion
from odradek.protocol.types import TopicPartition
from tests.support.controller_parts import machinery_of
from tests.support.counted_store import CountedStore
from tests.support.moving_scene import T0, T1, MovingBench, moving_bench
from tests.support.stores import MemoryStores


async def request(bench: MovingBench, *topics: str) -> None:
    """As a tool does, and what follows from it."""
    for topic in topics:
        await bench.store.create(paths.topic_to_delete(topic))
    await bench.deletion.request(topics)


async def nodes(store: MetadataStore, topic: str = "t") -> list[bool]:
    """Whether there are its own, its configuration's and that of the request."""
    each = (paths.topic(topic), paths.topic_config(topic).path, paths.topic_to_delete(topic))
    return [await store.exists(path) is not None for path in each]


def deleted(*places: tuple[TopicPartition, int]) -> list[Replica]:
    return [Replica(partition, broker) for partition, broker in places]


# The course of it


async def test_brokers_hear_that_a_topic_goes_and_are_told_to_delete_it():
    bench = await moving_bench([1, 2], [2])
    await request(bench, "t")
    told = bench.sent()
    assert told.stops(1) == {T0: True}
    assert told.stops(2) == {T0: True, T1: True}
    assert told.stops(3) == {}
    gone = {T0: LEADER_DURING_DELETE, T1: LEADER_DURING_DELETE}
    assert [told.metadata(each) for each in (1, 2, 3, 4)] == [gone] * 4
    assert told.leads(1) == told.leads(2) == {}
    assert bench.deletion.is_queued("t")
    assert (await bench.leadership(T0)).leader == NO_LEADER
    assert bench.scene.context.partition_state(T0) is PartitionState.NON_EXISTENT


async def test_nothing_is_left_when_all_replicas_are_deleted():
    bench = await moving_bench([1, 2], [2])
    await bench.store.create(paths.topic_config("t").path)
    await request(bench, "t")
    await bench.deletion.replicas_deleted(deleted((T0, 2), (T1, 2)))
    assert await nodes(bench.store) == [True, True, True]
    await bench.deletion.replicas_deleted(deleted((T0, 1)))
    assert await nodes(bench.store) == [False, False, False]
    assert "t" not in bench.scene.context
    assert not bench.deletion.is_queued("t")
    assert bench.scene.context.replica_states == {}


async def test_nodes_go_in_kafkas_order():
    store = CountedStore(await MemoryStores().open())
    bench = await moving_bench([1], store=store)
    await request(bench, "t")
    store.forget()
    await bench.deletion.replicas_deleted(deleted((T0, 1)))
    writes = [each for run in store.runs for each in run if isinstance(each, Delete)]
    assert [each.path for each in writes] == [
        "/brokers/topics/t/partitions/0/state",
        "/brokers/topics/t/partitions/0",
        "/brokers/topics/t/partitions",
        "/brokers/topics/t",
        "/config/topics/t",
        "/admin/delete_topics/t",
    ]


async def test_in_sync_replicas_leave_one_broker_after_the_other():
    bench = await moving_bench([1, 2, 3])
    await request(bench, "t")
    leadership = await bench.leadership()
    assert (leadership.leader_epoch, leadership.isr) == (3, (3,))


async def test_topics_that_go_together_take_no_more_steps_than_one():
    costs = []
    for count in (1, 20):
        store = CountedStore(await MemoryStores().open())
        bench = await moving_bench([1, 2], store=store)
        names = ["t", *(f"t{number}" for number in range(1, count))]
        for name in names[1:]:
            await bench.add_topic(name, [1, 2])
        store.forget()
        await bench.deletion.request(names)
        for broker in (1, 2):
            each = deleted(*((TopicPartition(name, 0), broker) for name in names))
            await bench.deletion.replicas_deleted(each)
        assert not [*bench.scene.context.topics]
        costs.append(len(store.runs))
    assert costs[0] == costs[1]


async def test_a_topic_without_replicas_is_gone_at_once():
    bench = await moving_bench()
    await request(bench, "t")
    assert await nodes(bench.store) == [False, False, False]


async def test_a_request_for_what_is_going_changes_nothing():
    bench = await moving_bench([1, 2])
    await request(bench, "t")
    before = await bench.leadership()
    bench.sent()
    await bench.deletion.request(["t"])
    assert await bench.leadership() == before
    assert bench.sent().stops(1) == {}


async def test_a_topic_that_could_not_be_taken_from_the_store_is_tried_again(caplog):
    bench = await moving_bench([1])
    await bench.store.create(f"{paths.topic_config('t').path}")
    await bench.store.create(f"{paths.topic_config('t').path}/in-the-way")
    await request(bench, "t")
    with caplog.at_level(logging.ERROR):
        await bench.deletion.replicas_deleted(deleted((T0, 1)))
    assert "not from the store" in caplog.text
    assert bench.deletion.is_queued("t")
    await bench.store.delete(f"{paths.topic_config('t').path}/in-the-way")
    await bench.deletion.resume(["t"])
    assert await nodes(bench.store) == [False, False, False]


# What keeps it, and lets it go on


async def test_a_topic_with_a_replica_offline_waits_and_the_others_are_deleted():
    bench = await moving_bench([1, 2])
    await bench.lose(2)
    await request(bench, "t")
    told = bench.sent()
    assert (told.stops(1), told.stops(2)) == ({T0: True}, {})
    assert bench.scene.context.ineligible == {"t"}
    await bench.deletion.replicas_deleted(deleted((T0, 1)))
    assert await nodes(bench.store) == [True, False, True]
    bench.sent()
    await bench.join(2)
    told = bench.sent()
    assert (told.stops(1), told.stops(2)) == ({}, {T0: True})
    await bench.deletion.replicas_deleted(deleted((T0, 2)))
    assert await nodes(bench.store) == [False, False, False]


async def test_a_broker_that_goes_before_it_has_answered_is_told_again():
    bench = await moving_bench([1, 2])
    await request(bench, "t")
    await bench.deletion.replicas_deleted(deleted((T0, 1)))
    await bench.lose(2)
    assert bench.scene.context.ineligible == {"t"}
    await bench.join(2)
    assert bench.sent().stops(2) == {T0: True}
    await bench.deletion.replicas_deleted(deleted((T0, 2)))
    assert await nodes(bench.store) == [False, False, False]


async def test_a_broker_that_goes_after_it_has_answered_is_not_waited_for():
    bench = await moving_bench([1, 2])
    await request(bench, "t")
    await bench.deletion.replicas_deleted(deleted((T0, 2)))
    await bench.lose(2)
    assert bench.scene.context.ineligible == set()
    await bench.deletion.replicas_deleted(deleted((T0, 1)))
    assert await nodes(bench.store) == [False, False, False]


async def test_a_replica_that_cannot_be_deleted_keeps_the_topic_until_its_broker_is_back():
    bench = await moving_bench([1, 2])
    await request(bench, "t")
    await bench.deletion.failed(deleted((T0, 2)))
    await bench.deletion.replicas_deleted(deleted((T0, 1)))
    assert await nodes(bench.store) == [True, False, True]
    assert bench.state(T0, 2) is ReplicaState.OFFLINE
    bench.sent()
    await bench.lose(2)
    await bench.join(2)
    assert bench.sent().stops(2) == {T0: True}
    await bench.deletion.replicas_deleted(deleted((T0, 2)))
    assert await nodes(bench.store) == [False, False, False]


async def test_topics_do_not_wait_for_each_other():
    bench = await moving_bench([1])
    await bench.add_topic("u", [2])
    await bench.lose(2)
    await request(bench, "t", "u")
    await bench.deletion.replicas_deleted(deleted((T0, 1)))
    assert await nodes(bench.store, "t") == [False, False, False]
    assert await nodes(bench.store, "u") == [True, False, True]


async def test_a_topic_that_was_never_led_goes_when_its_brokers_come():
    bench = await moving_bench([9])
    await request(bench, "t")
    assert bench.scene.context.ineligible == {"t"}
    await bench.join(9)
    assert bench.sent().stops(9) == {T0: True}
    await bench.deletion.replicas_deleted(deleted((T0, 9)))
    assert await nodes(bench.store) == [False, False, False]


async def test_a_topic_that_is_being_reassigned_does_not_go():
    bench = await moving_bench([1])
    await bench.reassignments.alter({T0: (2,)})
    await request(bench, "t")
    await bench.deletion.resume(["t"])
    assert bench.scene.context.deleting == set()
    assert bench.sent().stops(1) == {}


async def test_answers_that_are_not_about_a_deletion_mean_nothing():
    bench = await moving_bench([1], [1])
    await bench.deletion.replicas_deleted(deleted((T0, 1)))
    await bench.deletion.failed(deleted((T1, 1)))
    await request(bench, "t")
    await bench.deletion.replicas_deleted(deleted((T0, 3)))
    await bench.deletion.replicas_deleted(deleted((T0, 1), (T0, 1)))
    assert bench.state(T0, 1) is ReplicaState.DELETION_SUCCESSFUL
    assert bench.state(T1, 1) is ReplicaState.DELETION_STARTED


# The next controller


async def test_nothing_goes_before_the_states_of_replicas_are_known():
    bench = await moving_bench([1, 2])
    deletion = TopicDeletion(machinery_of(bench.scene))
    await deletion.request(["t"])
    assert bench.sent().stops(1) == {}
    assert bench.scene.context.ineligible == set()
    await deletion.start()
    assert bench.sent().stops(1) == {T0: True}


async def test_what_has_replicas_offline_is_not_begun_with():
    bench = await moving_bench([1, 2])
    await bench.lose(2)
    deletion = TopicDeletion(machinery_of(bench.scene))
    await deletion.request(["t"])
    await deletion.start()
    assert bench.scene.context.ineligible == {"t"}
    assert bench.sent().stops(1) == {}
    await deletion.resume(["t"])
    assert bench.sent().stops(1) == {T0: True}


async def test_what_is_left_of_a_topic_that_is_gone_is_cleared_away():
    bench = await moving_bench([1])
    for path in (paths.topic_config("u").path, paths.topic_to_delete("u")):
        await bench.store.create(path)
    await bench.store.create(paths.topic_to_delete("t"))
    deletion = TopicDeletion(machinery_of(bench.scene))
    await deletion.clear_away(["t", "u"])
    assert await nodes(bench.store, "u") == [False, False, False]
    assert await nodes(bench.store, "t") == [True, False, False]


@pytest.mark.parametrize("has_config", [True, False])
async def test_later_only_the_request_for_an_unknown_topic_is_taken_away(has_config):
    bench = await moving_bench([1])
    if has_config:
        await bench.store.create(paths.topic_config("u").path)
    await bench.store.create(paths.topic_to_delete("u"))
    await bench.deletion.clear_away(["u"])
    assert await nodes(bench.store, "u") == [False, has_config, False]
