"""Tests of controller/topic_deletion_manager.py, on the memory store."""

import logging

import pytest

from odradek.controller.controller_context import PartitionAndReplica
from odradek.controller.leader_and_isr import LEADER_DURING_DELETE, NO_LEADER
from odradek.controller.partition_state import PartitionState
from odradek.controller.replica_state import ReplicaState
from odradek.controller.store import paths
from odradek.controller.store.base import Delete, MetadataStore
from odradek.controller.topic_deletion_manager import TopicDeletionManager
from odradek.protocol.types import TopicPartition
from tests.support.controller_parts import machinery_of
from tests.support.counted_store import CountedStore
from tests.support.moving_scene import T0, T1, MovingBench, moving_bench
from tests.support.stores import MemoryStores


async def request_deletion(bench: MovingBench, *topics: str) -> None:
    """Create the deletion znodes as a tool does, then enqueue the topics."""
    for topic in topics:
        await bench.store.create(paths.topic_to_delete(topic))
    await bench.deletion.enqueue_topics_for_deletion(topics)


async def existing_znodes(store: MetadataStore, topic: str = "t") -> list[bool]:
    """Whether the topic, config and deletion znodes exist."""
    znode_paths = (paths.topic(topic), paths.topic_config(topic).path, paths.topic_to_delete(topic))
    return [await store.exists(path) is not None for path in znode_paths]


def replicas_of(*replicas: tuple[TopicPartition, int]) -> list[PartitionAndReplica]:
    return [PartitionAndReplica(partition, broker) for partition, broker in replicas]


# Deletion


async def test_topic_deletion_sends_update_metadata_and_stop_replica():
    bench = await moving_bench([1, 2], [2])
    await request_deletion(bench, "t")
    sent = bench.sent()
    assert sent.stops(1) == {T0: True}
    assert sent.stops(2) == {T0: True, T1: True}
    assert sent.stops(3) == {}
    deleted_leaders = {T0: LEADER_DURING_DELETE, T1: LEADER_DURING_DELETE}
    assert [sent.metadata(broker) for broker in (1, 2, 3, 4)] == [deleted_leaders] * 4
    assert sent.leads(1) == sent.leads(2) == {}
    assert bench.deletion.is_queued("t")
    assert (await bench.leadership(T0)).leader == NO_LEADER
    assert bench.scene.context.partition_state(T0) is PartitionState.NON_EXISTENT


async def test_topic_is_removed_when_all_replicas_are_deleted():
    bench = await moving_bench([1, 2], [2])
    await bench.store.create(paths.topic_config("t").path)
    await request_deletion(bench, "t")
    await bench.deletion.complete_replica_deletion(replicas_of((T0, 2), (T1, 2)))
    assert await existing_znodes(bench.store) == [True, True, True]
    await bench.deletion.complete_replica_deletion(replicas_of((T0, 1)))
    assert await existing_znodes(bench.store) == [False, False, False]
    assert "t" not in bench.scene.context
    assert not bench.deletion.is_queued("t")
    assert bench.scene.context.replica_states == {}


async def test_znodes_are_deleted_in_kafkas_order():
    store = CountedStore(await MemoryStores().open())
    bench = await moving_bench([1], store=store)
    await request_deletion(bench, "t")
    store.forget()
    await bench.deletion.complete_replica_deletion(replicas_of((T0, 1)))
    writes = [operation for run in store.runs for operation in run if isinstance(operation, Delete)]
    assert [operation.path for operation in writes] == [
        "/brokers/topics/t/partitions/0/state",
        "/brokers/topics/t/partitions/0",
        "/brokers/topics/t/partitions",
        "/brokers/topics/t",
        "/config/topics/t",
        "/admin/delete_topics/t",
    ]


async def test_replicas_leave_the_isr_one_after_the_other():
    bench = await moving_bench([1, 2, 3])
    await request_deletion(bench, "t")
    leadership = await bench.leadership()
    assert (leadership.leader_epoch, leadership.isr) == (3, (3,))


async def test_deleting_many_topics_needs_as_many_store_runs_as_one():
    costs = []
    for count in (1, 20):
        store = CountedStore(await MemoryStores().open())
        bench = await moving_bench([1, 2], store=store)
        names = ["t", *(f"t{number}" for number in range(1, count))]
        for name in names[1:]:
            await bench.add_topic(name, [1, 2])
        store.forget()
        await bench.deletion.enqueue_topics_for_deletion(names)
        for broker in (1, 2):
            completed = replicas_of(*((TopicPartition(name, 0), broker) for name in names))
            await bench.deletion.complete_replica_deletion(completed)
        assert not [*bench.scene.context.topics]
        costs.append(len(store.runs))
    assert costs[0] == costs[1]


async def test_topic_without_replicas_is_deleted_at_once():
    bench = await moving_bench()
    await request_deletion(bench, "t")
    assert await existing_znodes(bench.store) == [False, False, False]


async def test_second_deletion_of_a_topic_changes_nothing():
    bench = await moving_bench([1, 2])
    await request_deletion(bench, "t")
    before = await bench.leadership()
    bench.sent()
    await bench.deletion.enqueue_topics_for_deletion(["t"])
    assert await bench.leadership() == before
    assert bench.sent().stops(1) == {}


async def test_failed_deletion_of_znodes_is_retried(caplog):
    bench = await moving_bench([1])
    await bench.store.create(f"{paths.topic_config('t').path}")
    await bench.store.create(f"{paths.topic_config('t').path}/in-the-way")
    await request_deletion(bench, "t")
    with caplog.at_level(logging.ERROR):
        await bench.deletion.complete_replica_deletion(replicas_of((T0, 1)))
    assert "Failed to delete topic t from the store" in caplog.text
    assert bench.deletion.is_queued("t")
    await bench.store.delete(f"{paths.topic_config('t').path}/in-the-way")
    await bench.deletion.resume_deletion_for_topics(["t"])
    assert await existing_znodes(bench.store) == [False, False, False]


# Ineligible topics and retries


async def test_topic_with_offline_replica_waits_while_other_replicas_are_deleted():
    bench = await moving_bench([1, 2])
    await bench.lose(2)
    await request_deletion(bench, "t")
    sent = bench.sent()
    assert (sent.stops(1), sent.stops(2)) == ({T0: True}, {})
    assert bench.scene.context.topics_ineligible_for_deletion == {"t"}
    await bench.deletion.complete_replica_deletion(replicas_of((T0, 1)))
    assert await existing_znodes(bench.store) == [True, False, True]
    bench.sent()
    await bench.join(2)
    sent = bench.sent()
    assert (sent.stops(1), sent.stops(2)) == ({}, {T0: True})
    await bench.deletion.complete_replica_deletion(replicas_of((T0, 2)))
    assert await existing_znodes(bench.store) == [False, False, False]


async def test_stop_replica_is_resent_to_a_broker_that_failed_before_its_response():
    bench = await moving_bench([1, 2])
    await request_deletion(bench, "t")
    await bench.deletion.complete_replica_deletion(replicas_of((T0, 1)))
    await bench.lose(2)
    assert bench.scene.context.topics_ineligible_for_deletion == {"t"}
    await bench.join(2)
    assert bench.sent().stops(2) == {T0: True}
    await bench.deletion.complete_replica_deletion(replicas_of((T0, 2)))
    assert await existing_znodes(bench.store) == [False, False, False]


async def test_broker_that_fails_after_its_response_does_not_delay_the_deletion():
    bench = await moving_bench([1, 2])
    await request_deletion(bench, "t")
    await bench.deletion.complete_replica_deletion(replicas_of((T0, 2)))
    await bench.lose(2)
    assert bench.scene.context.topics_ineligible_for_deletion == set()
    await bench.deletion.complete_replica_deletion(replicas_of((T0, 1)))
    assert await existing_znodes(bench.store) == [False, False, False]


async def test_failed_replica_deletion_is_retried_when_the_broker_restarts():
    bench = await moving_bench([1, 2])
    await request_deletion(bench, "t")
    await bench.deletion.fail_replica_deletion(replicas_of((T0, 2)))
    await bench.deletion.complete_replica_deletion(replicas_of((T0, 1)))
    assert await existing_znodes(bench.store) == [True, False, True]
    assert bench.state(T0, 2) is ReplicaState.OFFLINE
    bench.sent()
    await bench.lose(2)
    await bench.join(2)
    assert bench.sent().stops(2) == {T0: True}
    await bench.deletion.complete_replica_deletion(replicas_of((T0, 2)))
    assert await existing_znodes(bench.store) == [False, False, False]


async def test_ineligible_topic_does_not_delay_other_topics():
    bench = await moving_bench([1])
    await bench.add_topic("u", [2])
    await bench.lose(2)
    await request_deletion(bench, "t", "u")
    await bench.deletion.complete_replica_deletion(replicas_of((T0, 1)))
    assert await existing_znodes(bench.store, "t") == [False, False, False]
    assert await existing_znodes(bench.store, "u") == [True, False, True]


async def test_topic_without_leader_is_deleted_when_its_brokers_start():
    bench = await moving_bench([9])
    await request_deletion(bench, "t")
    assert bench.scene.context.topics_ineligible_for_deletion == {"t"}
    await bench.join(9)
    assert bench.sent().stops(9) == {T0: True}
    await bench.deletion.complete_replica_deletion(replicas_of((T0, 9)))
    assert await existing_znodes(bench.store) == [False, False, False]


async def test_topic_being_reassigned_is_not_deleted():
    bench = await moving_bench([1])
    await bench.reassignments.alter_partition_reassignments({T0: (2,)})
    await request_deletion(bench, "t")
    await bench.deletion.resume_deletion_for_topics(["t"])
    assert bench.scene.context.topics_with_deletion_started == set()
    assert bench.sent().stops(1) == {}


async def test_results_for_replicas_not_being_deleted_are_ignored():
    bench = await moving_bench([1], [1])
    await bench.deletion.complete_replica_deletion(replicas_of((T0, 1)))
    await bench.deletion.fail_replica_deletion(replicas_of((T1, 1)))
    await request_deletion(bench, "t")
    await bench.deletion.complete_replica_deletion(replicas_of((T0, 3)))
    await bench.deletion.complete_replica_deletion(replicas_of((T0, 1), (T0, 1)))
    assert bench.state(T0, 1) is ReplicaState.DELETION_SUCCESSFUL
    assert bench.state(T1, 1) is ReplicaState.DELETION_STARTED


# Controller failover


async def test_no_topic_is_deleted_before_start():
    bench = await moving_bench([1, 2])
    deletion = TopicDeletionManager(machinery_of(bench.scene))
    await deletion.enqueue_topics_for_deletion(["t"])
    assert bench.sent().stops(1) == {}
    assert bench.scene.context.topics_ineligible_for_deletion == set()
    await deletion.start()
    assert bench.sent().stops(1) == {T0: True}


async def test_start_does_not_delete_topics_with_offline_replicas():
    bench = await moving_bench([1, 2])
    await bench.lose(2)
    deletion = TopicDeletionManager(machinery_of(bench.scene))
    await deletion.enqueue_topics_for_deletion(["t"])
    await deletion.start()
    assert bench.scene.context.topics_ineligible_for_deletion == {"t"}
    assert bench.sent().stops(1) == {}
    await deletion.resume_deletion_for_topics(["t"])
    assert bench.sent().stops(1) == {T0: True}


async def test_before_start_all_znodes_of_nonexistent_topics_are_deleted():
    bench = await moving_bench([1])
    for path in (paths.topic_config("u").path, paths.topic_to_delete("u")):
        await bench.store.create(path)
    await bench.store.create(paths.topic_to_delete("t"))
    deletion = TopicDeletionManager(machinery_of(bench.scene))
    await deletion.discard_nonexistent_topics(["t", "u"])
    assert await existing_znodes(bench.store, "u") == [False, False, False]
    assert await existing_znodes(bench.store, "t") == [True, False, False]


@pytest.mark.parametrize("has_config", [True, False])
async def test_after_start_only_the_deletion_znode_of_unknown_topics_is_deleted(has_config):
    bench = await moving_bench([1])
    if has_config:
        await bench.store.create(paths.topic_config("u").path)
    await bench.store.create(paths.topic_to_delete("u"))
    await bench.deletion.discard_nonexistent_topics(["u"])
    assert await existing_znodes(bench.store, "u") == [False, has_config, False]
