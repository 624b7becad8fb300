"""Tests of controller/reassignment.py: reassignments by request."""

import pytest

from odradek.controller.controller_context import PartitionAndReplica
from odradek.controller.leader_and_isr import NO_LEADER
from odradek.controller.replica_assignment import ReplicaAssignment
from odradek.controller.replica_state import ReplicaState
from odradek.controller.store import paths
from odradek.controller.store.base import SetData
from odradek.controller.store.payloads.topic import TopicAssignment
from odradek.protocol.errors import (
    InvalidReplicaAssignment,
    KafkaError,
    UnknownTopicOrPartition,
)
from odradek.protocol.types import TopicPartition
from tests.support.counted_store import CountedStore
from tests.support.moving_scene import T0, T1, T2, moving_bench
from tests.support.stores import MemoryStores

# Start


async def test_reassignment_is_written_and_sent_with_a_new_leader_epoch():
    bench = await moving_bench([1, 2])
    assert await bench.reassignments.alter_partition_reassignments({T0: (3, 2)}) == {T0: None}
    reassigning = ReplicaAssignment((3, 2, 1), adding_replicas=(3,), removing_replicas=(1,))
    assert (await bench.topic()).partitions == {0: reassigning}
    leadership = await bench.leadership()
    assert (leadership.leader, leadership.leader_epoch, leadership.isr) == (1, 1, (1, 2))
    sent = bench.sent()
    assert sent.leads(1) == sent.leads(2) == {T0: (1, [3, 2, 1], False)}
    assert sent.leads(3) == {T0: (1, [3, 2, 1], True)}
    assert sent.metadata(4) == {T0: 1}
    assert bench.state(T0, 3) is ReplicaState.NEW
    assert bench.reassignments.list_partition_reassignments(None) == {T0: reassigning}


async def test_reassignment_waits_until_all_target_replicas_are_in_isr():
    bench = await moving_bench([1, 2])
    await bench.reassignments.alter_partition_reassignments({T0: (3, 4)})
    before = await bench.topic()
    await bench.in_sync(T0, 1, 2, 3)
    assert await bench.topic() == before
    assert (await bench.leadership()).leader_epoch == 1


async def test_partitions_and_fields_added_by_other_tools_are_preserved():
    bench = await moving_bench([1])
    topic = await bench.topic()
    expanded = TopicAssignment(
        {**topic.partitions, 1: ReplicaAssignment((2,))}, topic.topic_id, {"k": 1}
    )
    await bench.store.set(paths.topic("t"), expanded.encode())
    await bench.reassignments.alter_partition_reassignments({T0: (1, 2)})
    node = TopicAssignment.decode((await bench.store.get(paths.topic("t"))).value)
    assert node.partitions == {
        0: ReplicaAssignment((1, 2), adding_replicas=(2,)),
        1: ReplicaAssignment((2,)),
    }
    assert node.extra == {"k": 1}


async def test_concurrent_write_of_the_topic_is_merged():
    bench = await moving_bench([1])
    other = TopicAssignment({0: ReplicaAssignment((1,)), 1: ReplicaAssignment((2,))}).encode()

    class InterferingStore(CountedStore):
        async def run(self, operations, *, fence=None):
            if not self.runs and isinstance(operations[0], SetData):
                await self._store.set(paths.topic("t"), other)
                self.runs.append(operations)
            return await self._store.run(operations, fence=fence)

    bench.scene.writes._store = InterferingStore(bench.store)
    assert await bench.scene.writes.update_assignments({T0: ReplicaAssignment((3,))}) == {}
    node = TopicAssignment.decode((await bench.store.get(paths.topic("t"))).value)
    assert node.partitions == {0: ReplicaAssignment((3,)), 1: ReplicaAssignment((2,))}


async def test_deleted_topic_does_not_fail_other_reassignments():
    bench = await moving_bench([1])
    await bench.add_topic("u", [1])
    await bench.store.delete(paths.partition_state(T0))
    for path in (paths.partition(T0), paths.topic_partitions("t"), paths.topic("t")):
        await bench.store.delete(path)
    u0 = TopicPartition("u", 0)
    outcomes = await bench.reassignments.alter_partition_reassignments({T0: (2,), u0: (2,)})
    assert outcomes[u0] is None
    assert outcomes[T0] is not None
    assert set(bench.reassignments.list_partition_reassignments(None)) == {u0}


async def test_partition_without_leader_gets_one_of_the_target_replicas():
    bench = await moving_bench([9])
    await bench.reassignments.alter_partition_reassignments({T0: (2, 3)})
    assert (await bench.topic()).partitions == {0: ReplicaAssignment((2, 3))}
    leadership = await bench.leadership()
    assert (leadership.leader, leadership.isr) == (2, (2, 3))
    assert bench.sent().leads(3) == {T0: (2, [2, 3], True)}


async def test_many_partitions_need_as_many_store_runs_as_one():
    costs = []
    for count in (1, 50):
        store = CountedStore(await MemoryStores().open())
        bench = await moving_bench(*[[1, 2]] * count, store=store)
        partitions = [TopicPartition("t", number) for number in range(count)]
        store.forget()
        await bench.reassignments.alter_partition_reassignments(dict.fromkeys(partitions, (3, 4)))
        for partition in partitions:
            leadership = bench.scene.context.partition_leadership_info[partition]
            result = await bench.scene.writes.update_leader_and_isr(
                {partition: leadership.with_isr((1, 3, 4))}
            )
            bench.scene.context.partition_leadership_info |= result.finished
        await bench.reassignments.process_partition_reassignment_isr_change(partitions)
        assert bench.reassignments.list_partition_reassignments(None) == {}
        costs.append(len(store.runs) - count)
    assert costs[0] == costs[1]


# Completion


async def test_completed_reassignment_leaves_only_the_target_replicas():
    bench = await moving_bench([1, 2])
    await bench.reassignments.alter_partition_reassignments({T0: (3, 4)})
    bench.sent()
    await bench.in_sync(T0, 1, 2, 3, 4)
    assert (await bench.topic()).partitions == {0: ReplicaAssignment((3, 4))}
    leadership = await bench.leadership()
    assert (leadership.leader, leadership.isr) == (3, (3, 4))
    sent = bench.sent()
    assert sent.leads(3) == sent.leads(4) == {T0: (3, [3, 4], False)}
    assert sent.stops(1) == sent.stops(2) == {T0: True}
    assert sent.leads(1) == sent.leads(2) == {}
    assert sent.metadata(1) == {T0: 3}
    assert bench.state(T0, 3) is bench.state(T0, 4) is ReplicaState.ONLINE
    assert bench.state(T0, 1) is bench.state(T0, 2) is ReplicaState.NON_EXISTENT
    assert bench.reassignments.list_partition_reassignments(None) == {}
    assert bench.scene.context.replicas_on_broker(1) == []


async def test_leader_in_the_target_keeps_leading_in_a_new_epoch():
    bench = await moving_bench([1, 2])
    await bench.reassignments.alter_partition_reassignments({T0: (1, 3)})
    await bench.in_sync(T0, 1, 2, 3)
    leadership = await bench.leadership()
    assert (leadership.leader, leadership.leader_epoch, leadership.isr) == (1, 3, (1, 3))
    assert bench.sent().leads(3) == {T0: (1, [1, 3], True)}


async def test_removed_replicas_leave_the_isr_one_after_the_other():
    bench = await moving_bench([3, 2, 1])
    await bench.reassignments.alter_partition_reassignments({T0: (1,)})
    leadership = await bench.leadership()
    # Each of these increments the epoch: the election, the removal of 2, the removal of 3.
    assert (leadership.leader, leadership.leader_epoch, leadership.isr) == (1, 3, (1,))


@pytest.mark.parametrize("target", [(2, 1), (2,), (1, 2)])
async def test_reassignment_without_new_replicas_completes_at_once(target):
    bench = await moving_bench([1, 2])
    assert await bench.reassignments.alter_partition_reassignments({T0: target}) == {T0: None}
    assert (await bench.topic()).partitions == {0: ReplicaAssignment(target)}
    assert set((await bench.leadership()).isr) == set(target)
    assert (await bench.leadership()).leader == (1 if 1 in target else 2)
    assert bench.reassignments.list_partition_reassignments(None) == {}


async def test_reassignment_waits_for_an_offline_target_replica_in_isr():
    bench = await moving_bench([1, 2])
    await bench.reassignments.alter_partition_reassignments({T0: (3,)})
    await bench.lose(1, 2)
    bench.scene.context.remove_broker(3)
    await bench.in_sync(T0, 3)
    assert (await bench.topic()).partitions[0].is_being_reassigned
    await bench.join(3)
    assert (await bench.topic()).partitions == {0: ReplicaAssignment((3,))}
    assert (await bench.leadership()).leader == 3


async def test_partitions_complete_independently():
    bench = await moving_bench([1], [1], [1])
    await bench.reassignments.alter_partition_reassignments({T0: (2,), T1: (2,), T2: (2,)})
    await bench.in_sync(T1, 1, 2)
    assert set(bench.reassignments.list_partition_reassignments(None)) == {T0, T2}
    assert set(
        bench.reassignments.list_partition_reassignments([T1, T2, TopicPartition("u", 0)])
    ) == {T2}
    await bench.in_sync(T0, 1, 2)
    await bench.in_sync(T2, 1, 2)
    assert (await bench.topic()).partitions == dict.fromkeys(range(3), ReplicaAssignment((2,)))


# Cancellation and replacement


async def test_cancelled_reassignment_restores_the_original_replicas():
    bench = await moving_bench([1, 2])
    await bench.reassignments.alter_partition_reassignments({T0: (3, 4)})
    await bench.in_sync(T0, 1, 2, 3)
    bench.sent()
    assert await bench.reassignments.alter_partition_reassignments({T0: None}) == {T0: None}
    assert (await bench.topic()).partitions == {0: ReplicaAssignment((1, 2))}
    leadership = await bench.leadership()
    assert (leadership.leader, leadership.isr) == (1, (1, 2))
    sent = bench.sent()
    assert sent.stops(3) == sent.stops(4) == {T0: True}
    assert sent.leads(1) == sent.leads(2) == {T0: (1, [1, 2], False)}
    assert sent.leads(3) == sent.leads(4) == {}
    assert bench.state(T0, 3) is bench.state(T0, 4) is ReplicaState.NON_EXISTENT


async def test_adding_replica_loses_leadership_when_cancelled():
    bench = await moving_bench([1, 2])
    await bench.reassignments.alter_partition_reassignments({T0: (3, 4)})
    await bench.in_sync(T0, 1, 2, 3)
    before = bench.scene.context.partition_leadership_info[T0]
    changed = before.new_leader_and_isr(3, before.isr, is_recovering=False)
    bench.scene.context.partition_leadership_info |= (
        await bench.scene.writes.update_leader_and_isr({T0: changed})
    ).finished
    await bench.reassignments.alter_partition_reassignments({T0: None})
    leadership = await bench.leadership()
    assert (leadership.leader, leadership.isr) == (1, (1, 2))


async def test_cancellation_writes_the_partition_state_before_the_topic():
    store = CountedStore(await MemoryStores().open())
    bench = await moving_bench([1, 2], store=store)
    await bench.reassignments.alter_partition_reassignments({T0: (3, 4)})
    store.forget()
    await bench.reassignments.alter_partition_reassignments({T0: None})
    written_paths = [
        operation.path for run in store.runs for operation in run if isinstance(operation, SetData)
    ]
    assert written_paths == [paths.partition_state(T0), paths.topic("t")]


async def test_cancellation_that_cannot_be_written_fails():
    bench = await moving_bench([1, 2])
    await bench.reassignments.alter_partition_reassignments({T0: (3, 4)})
    await bench.scene.writes.delete_topics(["t"])
    outcomes = await bench.reassignments.alter_partition_reassignments({T0: None})
    assert isinstance(outcomes[T0], KafkaError)


async def reassignment_led_by_adding_replica():
    bench = await moving_bench([1, 2])
    await bench.reassignments.alter_partition_reassignments({T0: (3, 2)})
    await bench.in_sync(T0, 1, 2)
    before = bench.scene.context.partition_leadership_info[T0]
    changed = before.new_leader_and_isr(3, (1, 2, 3), is_recovering=False)
    bench.scene.context.partition_leadership_info |= (
        await bench.scene.writes.update_leader_and_isr({T0: changed})
    ).finished
    bench.sent()
    return bench


async def test_adding_replica_loses_leadership_when_its_target_is_replaced():
    bench = await reassignment_led_by_adding_replica()
    await bench.reassignments.alter_partition_reassignments({T0: (4, 2)})
    leadership = await bench.leadership()
    assert (leadership.leader, leadership.isr) == (2, (1, 2))
    assert bench.sent().leads(1) == {T0: (2, [4, 2, 1], False)}


async def test_replaced_reassignment_without_eligible_leader_waits_for_one():
    bench = await reassignment_led_by_adding_replica()
    bench.scene.context.shutting_down_broker_ids |= {1, 2}
    await bench.reassignments.alter_partition_reassignments({T0: (4, 2)})
    assert (await bench.leadership()).leader == NO_LEADER
    bench.scene.context.shutting_down_broker_ids.clear()
    await bench.scene.partitions.trigger_online_partition_state_change()
    assert (await bench.leadership()).leader == 2


async def test_second_target_replaces_the_first():
    bench = await moving_bench([1, 2])
    await bench.reassignments.alter_partition_reassignments({T0: (3, 2)})
    await bench.in_sync(T0, 1, 2)
    bench.sent()
    await bench.reassignments.alter_partition_reassignments({T0: (4, 2)})
    reassigning = ReplicaAssignment((4, 2, 1), adding_replicas=(4,), removing_replicas=(1,))
    assert (await bench.topic()).partitions == {0: reassigning}
    sent = bench.sent()
    assert sent.stops(3) == {T0: True}
    assert sent.leads(4) == {T0: (1, [4, 2, 1], True)}
    await bench.in_sync(T0, 1, 2, 4)
    assert (await bench.topic()).partitions == {0: ReplicaAssignment((4, 2))}


async def test_repeated_reassignment_changes_only_the_leader_epoch():
    bench = await moving_bench([1, 2])
    await bench.reassignments.alter_partition_reassignments({T0: (3, 2)})
    before = await bench.topic()
    assert await bench.reassignments.alter_partition_reassignments({T0: (3, 2)}) == {T0: None}
    assert await bench.topic() == before
    assert (await bench.leadership()).leader_epoch == 2


async def test_cancellation_that_would_lose_the_whole_isr_is_rejected():
    bench = await moving_bench([1])
    await bench.reassignments.alter_partition_reassignments({T0: (2, 3)})
    await bench.in_sync(T0, 1, 2)
    await bench.lose(1)
    await bench.in_sync(T0, 2)
    outcomes = await bench.reassignments.alter_partition_reassignments({T0: None})
    assert isinstance(outcomes[T0], InvalidReplicaAssignment)
    assert (await bench.leadership()).isr == (2,)
    await bench.in_sync(T0, 2, 3)
    assert (await bench.topic()).partitions == {0: ReplicaAssignment((2, 3))}


# Broker restarts and controller failover


async def test_restarted_target_broker_receives_the_reassignment():
    bench = await moving_bench([1])
    await bench.reassignments.alter_partition_reassignments({T0: (2, 3)})
    await bench.lose(3)
    await bench.in_sync(T0, 1, 2)
    epoch = (await bench.leadership()).leader_epoch
    await bench.join(3)
    assert (await bench.leadership()).leader_epoch == epoch + 1
    assert bench.sent().leads(3) == {T0: (1, [2, 3, 1], True)}


async def test_other_restarted_broker_does_not_change_the_reassignment():
    bench = await moving_bench([1])
    await bench.reassignments.alter_partition_reassignments({T0: (2,)})
    epoch = (await bench.leadership()).leader_epoch
    await bench.join(4)
    assert (await bench.leadership()).leader_epoch == epoch


async def test_next_controller_completes_the_reassignment():
    bench = await moving_bench([1, 2])
    await bench.add_topic(
        "u", ReplicaAssignment((3, 1), adding_replicas=(3,), removing_replicas=(1,))
    )
    u0 = TopicPartition("u", 0)
    bench.scene.context.partitions_being_reassigned.add(u0)
    await bench.reassignments.start()
    assert (await bench.topic("u")).partitions == {0: ReplicaAssignment((3,))}
    assert (await bench.leadership(u0)).leader == 3
    assert bench.sent().stops(1) == {u0: True}


# Topics to be deleted


async def test_topic_to_be_deleted_is_not_reassigned():
    bench = await moving_bench([1])
    bench.scene.context.topics_to_be_deleted.add("t")
    outcomes = await bench.reassignments.alter_partition_reassignments({T0: (2,)})
    assert isinstance(outcomes[T0], UnknownTopicOrPartition)


async def test_topic_deletion_waits_for_its_last_reassignment():
    bench = await moving_bench([1], [1])
    await bench.reassignments.alter_partition_reassignments({T0: (2,), T1: (2,)})
    await bench.deletion.enqueue_topics_for_deletion(["t"])
    assert bench.scene.context.topics_with_deletion_started == set()
    await bench.in_sync(T0, 1, 2)
    assert bench.scene.context.topics_with_deletion_started == set()
    bench.sent()
    await bench.in_sync(T1, 1, 2)
    assert bench.scene.context.topics_with_deletion_started == {"t"}
    assert bench.sent().stops(2) == {T0: True, T1: True}


async def test_reassigned_partition_gets_a_leader_although_its_topic_is_to_be_deleted():
    bench = await moving_bench([1])
    await bench.reassignments.alter_partition_reassignments({T0: (2,)})
    await bench.lose(1)
    assert (await bench.leadership()).leader == NO_LEADER
    await bench.deletion.enqueue_topics_for_deletion(["t"])
    await bench.join(1)
    assert (await bench.leadership()).leader == 1
    await bench.in_sync(T0, 1, 2)
    bench.sent()
    await bench.deletion.complete_replica_deletion([PartitionAndReplica(T0, 2)])
    assert "t" not in bench.scene.context
