"""Tests of controller/reassignment.py: what is asked by requests."""

import pytest

from odradek.controller.assignment import Assignment
from odradek.controller.context import Replica
from odradek.controller.leadership import NO_LEADER
from odradek.controller.replica_state import ReplicaState
from odradek.controller.store import paths
from odradek.controller.store.base import Set
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

# Begun


async def test_what_is_added_and_removed_is_written_and_told_in_a_new_epoch():
    bench = await moving_bench([1, 2])
    assert await bench.reassignments.alter({T0: (3, 2)}) == {T0: None}
    moving = Assignment((3, 2, 1), adding=(3,), removing=(1,))
    assert (await bench.topic()).partitions == {0: moving}
    leadership = await bench.leadership()
    assert (leadership.leader, leadership.leader_epoch, leadership.isr) == (1, 1, (1, 2))
    told = bench.sent()
    assert told.leads(1) == told.leads(2) == {T0: (1, [3, 2, 1], False)}
    assert told.leads(3) == {T0: (1, [3, 2, 1], True)}
    assert told.metadata(4) == {T0: 1}
    assert bench.state(T0, 3) is ReplicaState.NEW
    assert bench.reassignments.listed(None) == {T0: moving}


async def test_it_is_not_complete_before_all_of_the_target_are_in_sync():
    bench = await moving_bench([1, 2])
    await bench.reassignments.alter({T0: (3, 4)})
    before = await bench.topic()
    await bench.in_sync(T0, 1, 2, 3)
    assert await bench.topic() == before
    assert (await bench.leadership()).leader_epoch == 1


async def test_what_other_tools_have_added_to_the_topic_stays():
    bench = await moving_bench([1])
    found = await bench.topic()
    grown = TopicAssignment({**found.partitions, 1: Assignment((2,))}, found.topic_id, {"k": 1})
    await bench.store.set(paths.topic("t"), grown.encode())
    await bench.reassignments.alter({T0: (1, 2)})
    node = TopicAssignment.decode((await bench.store.get(paths.topic("t"))).value)
    assert node.partitions == {0: Assignment((1, 2), adding=(2,)), 1: Assignment((2,))}
    assert node.extra == {"k": 1}


async def test_a_topic_that_somebody_else_writes_at_the_same_time_is_read_again():
    bench = await moving_bench([1])
    other = TopicAssignment({0: Assignment((1,)), 1: Assignment((2,))}).encode()

    class Interfering(CountedStore):
        async def run(self, operations, *, fence=None):
            if not self.runs and isinstance(operations[0], Set):
                await self._store.set(paths.topic("t"), other)
                self.runs.append(operations)
            return await self._store.run(operations, fence=fence)

    bench.scene.writes._store = Interfering(bench.store)
    assert await bench.scene.writes.assign({T0: Assignment((3,))}) == {}
    node = TopicAssignment.decode((await bench.store.get(paths.topic("t"))).value)
    assert node.partitions == {0: Assignment((3,)), 1: Assignment((2,))}


async def test_a_topic_that_is_gone_fails_alone():
    bench = await moving_bench([1])
    await bench.add_topic("u", [1])
    await bench.store.delete(paths.partition_state(T0))
    for path in (paths.partition(T0), paths.topic_partitions("t"), paths.topic("t")):
        await bench.store.delete(path)
    u0 = TopicPartition("u", 0)
    outcomes = await bench.reassignments.alter({T0: (2,), u0: (2,)})
    assert outcomes[u0] is None
    assert outcomes[T0] is not None
    assert set(bench.reassignments.listed(None)) == {u0}


async def test_a_partition_that_never_had_a_leader_has_one_among_its_new_replicas():
    bench = await moving_bench([9])
    await bench.reassignments.alter({T0: (2, 3)})
    assert (await bench.topic()).partitions == {0: Assignment((2, 3))}
    leadership = await bench.leadership()
    assert (leadership.leader, leadership.isr) == (2, (2, 3))
    assert bench.sent().leads(3) == {T0: (2, [2, 3], True)}


async def test_steps_cost_the_same_for_many_partitions_as_for_one():
    costs = []
    for count in (1, 50):
        store = CountedStore(await MemoryStores().open())
        bench = await moving_bench(*[[1, 2]] * count, store=store)
        partitions = [TopicPartition("t", number) for number in range(count)]
        store.forget()
        await bench.reassignments.alter(dict.fromkeys(partitions, (3, 4)))
        for each in partitions:
            now = bench.scene.context.leaderships[each]
            written = await bench.scene.writes.update_leaderships({each: now.with_isr((1, 3, 4))})
            bench.scene.context.leaderships |= written.done
        await bench.reassignments.isr_changed(partitions)
        assert bench.reassignments.listed(None) == {}
        costs.append(len(store.runs) - count)
    assert costs[0] == costs[1]


# Complete


async def test_when_all_of_the_target_are_in_sync_they_alone_are_the_replicas():
    bench = await moving_bench([1, 2])
    await bench.reassignments.alter({T0: (3, 4)})
    bench.sent()
    await bench.in_sync(T0, 1, 2, 3, 4)
    assert (await bench.topic()).partitions == {0: Assignment((3, 4))}
    leadership = await bench.leadership()
    assert (leadership.leader, leadership.isr) == (3, (3, 4))
    told = bench.sent()
    assert told.leads(3) == told.leads(4) == {T0: (3, [3, 4], False)}
    assert told.stops(1) == told.stops(2) == {T0: True}
    assert told.leads(1) == told.leads(2) == {}
    assert told.metadata(1) == {T0: 3}
    assert bench.state(T0, 3) is bench.state(T0, 4) is ReplicaState.ONLINE
    assert bench.state(T0, 1) is bench.state(T0, 2) is ReplicaState.NON_EXISTENT
    assert bench.reassignments.listed(None) == {}
    assert bench.scene.context.replicas_on(1) == []


async def test_a_leader_that_stays_leads_on_in_a_new_epoch():
    bench = await moving_bench([1, 2])
    await bench.reassignments.alter({T0: (1, 3)})
    await bench.in_sync(T0, 1, 2, 3)
    leadership = await bench.leadership()
    assert (leadership.leader, leadership.leader_epoch, leadership.isr) == (1, 3, (1, 3))
    assert bench.sent().leads(3) == {T0: (1, [1, 3], True)}


async def test_replicas_leave_one_broker_after_the_other():
    bench = await moving_bench([3, 2, 1])
    await bench.reassignments.alter({T0: (1,)})
    leadership = await bench.leadership()
    # Elected, then without 2, then without 3.
    assert (leadership.leader, leadership.leader_epoch, leadership.isr) == (1, 3, (1,))


@pytest.mark.parametrize("target", [(2, 1), (2,), (1, 2)])
async def test_what_adds_nothing_is_complete_at_once(target):
    bench = await moving_bench([1, 2])
    assert await bench.reassignments.alter({T0: target}) == {T0: None}
    assert (await bench.topic()).partitions == {0: Assignment(target)}
    assert set((await bench.leadership()).isr) == set(target)
    assert (await bench.leadership()).leader == (1 if 1 in target else 2)
    assert bench.reassignments.listed(None) == {}


async def test_a_target_that_is_in_sync_but_gone_is_waited_for():
    bench = await moving_bench([1, 2])
    await bench.reassignments.alter({T0: (3,)})
    await bench.lose(1, 2)
    bench.scene.context.forget_broker(3)
    await bench.in_sync(T0, 3)
    assert (await bench.topic()).partitions[0].is_being_reassigned
    await bench.join(3)
    assert (await bench.topic()).partitions == {0: Assignment((3,))}
    assert (await bench.leadership()).leader == 3


async def test_partitions_finish_one_by_one():
    bench = await moving_bench([1], [1], [1])
    await bench.reassignments.alter({T0: (2,), T1: (2,), T2: (2,)})
    await bench.in_sync(T1, 1, 2)
    assert set(bench.reassignments.listed(None)) == {T0, T2}
    assert set(bench.reassignments.listed([T1, T2, TopicPartition("u", 0)])) == {T2}
    await bench.in_sync(T0, 1, 2)
    await bench.in_sync(T2, 1, 2)
    assert (await bench.topic()).partitions == dict.fromkeys(range(3), Assignment((2,)))


# Cancelled and replaced


async def test_what_is_cancelled_is_as_it_was():
    bench = await moving_bench([1, 2])
    await bench.reassignments.alter({T0: (3, 4)})
    await bench.in_sync(T0, 1, 2, 3)
    bench.sent()
    assert await bench.reassignments.alter({T0: None}) == {T0: None}
    assert (await bench.topic()).partitions == {0: Assignment((1, 2))}
    leadership = await bench.leadership()
    assert (leadership.leader, leadership.isr) == (1, (1, 2))
    told = bench.sent()
    assert told.stops(3) == told.stops(4) == {T0: True}
    assert told.leads(1) == told.leads(2) == {T0: (1, [1, 2], False)}
    assert told.leads(3) == told.leads(4) == {}
    assert bench.state(T0, 3) is bench.state(T0, 4) is ReplicaState.NON_EXISTENT


async def test_a_new_replica_that_leads_does_not_after_it_is_cancelled():
    bench = await moving_bench([1, 2])
    await bench.reassignments.alter({T0: (3, 4)})
    await bench.in_sync(T0, 1, 2, 3)
    now = bench.scene.context.leaderships[T0]
    led = now.led_by(3, now.isr, is_recovering=False)
    bench.scene.context.leaderships |= (await bench.scene.writes.update_leaderships({T0: led})).done
    await bench.reassignments.alter({T0: None})
    leadership = await bench.leadership()
    assert (leadership.leader, leadership.isr) == (1, (1, 2))


async def test_the_tree_says_that_one_is_cancelled_when_there_is_nothing_left_to_do():
    store = CountedStore(await MemoryStores().open())
    bench = await moving_bench([1, 2], store=store)
    await bench.reassignments.alter({T0: (3, 4)})
    store.forget()
    await bench.reassignments.alter({T0: None})
    written = [each.path for run in store.runs for each in run if isinstance(each, Set)]
    assert written == [paths.partition_state(T0), paths.topic("t")]


async def test_what_cannot_be_written_is_not_cancelled():
    bench = await moving_bench([1, 2])
    await bench.reassignments.alter({T0: (3, 4)})
    await bench.scene.writes.delete_topics(["t"])
    outcomes = await bench.reassignments.alter({T0: None})
    assert isinstance(outcomes[T0], KafkaError)


async def led_by_a_new_replica():
    bench = await moving_bench([1, 2])
    await bench.reassignments.alter({T0: (3, 2)})
    await bench.in_sync(T0, 1, 2)
    now = bench.scene.context.leaderships[T0]
    led = now.led_by(3, (1, 2, 3), is_recovering=False)
    bench.scene.context.leaderships |= (await bench.scene.writes.update_leaderships({T0: led})).done
    bench.sent()
    return bench


async def test_a_new_replica_that_leads_does_not_after_it_is_replaced():
    bench = await led_by_a_new_replica()
    await bench.reassignments.alter({T0: (4, 2)})
    leadership = await bench.leadership()
    assert (leadership.leader, leadership.isr) == (2, (1, 2))
    assert bench.sent().leads(1) == {T0: (2, [4, 2, 1], False)}


async def test_a_replaced_one_that_nobody_can_lead_waits_for_a_leader():
    bench = await led_by_a_new_replica()
    bench.scene.context.shutting_down |= {1, 2}
    await bench.reassignments.alter({T0: (4, 2)})
    assert (await bench.leadership()).leader == NO_LEADER
    bench.scene.context.shutting_down.clear()
    await bench.scene.partitions.elect_missing()
    assert (await bench.leadership()).leader == 2


async def test_another_target_replaces_the_first():
    bench = await moving_bench([1, 2])
    await bench.reassignments.alter({T0: (3, 2)})
    await bench.in_sync(T0, 1, 2)
    bench.sent()
    await bench.reassignments.alter({T0: (4, 2)})
    moving = Assignment((4, 2, 1), adding=(4,), removing=(1,))
    assert (await bench.topic()).partitions == {0: moving}
    told = bench.sent()
    assert told.stops(3) == {T0: True}
    assert told.leads(4) == {T0: (1, [4, 2, 1], True)}
    await bench.in_sync(T0, 1, 2, 4)
    assert (await bench.topic()).partitions == {0: Assignment((4, 2))}


async def test_the_same_again_changes_nothing_but_the_epoch():
    bench = await moving_bench([1, 2])
    await bench.reassignments.alter({T0: (3, 2)})
    before = await bench.topic()
    assert await bench.reassignments.alter({T0: (3, 2)}) == {T0: None}
    assert await bench.topic() == before
    assert (await bench.leadership()).leader_epoch == 2


async def test_what_would_lose_all_that_are_in_sync_is_not_cancelled():
    bench = await moving_bench([1])
    await bench.reassignments.alter({T0: (2, 3)})
    await bench.in_sync(T0, 1, 2)
    await bench.lose(1)
    await bench.in_sync(T0, 2)
    outcomes = await bench.reassignments.alter({T0: None})
    assert isinstance(outcomes[T0], InvalidReplicaAssignment)
    assert (await bench.leadership()).isr == (2,)
    await bench.in_sync(T0, 2, 3)
    assert (await bench.topic()).partitions == {0: Assignment((2, 3))}


# Interrupted, and resumed


async def test_a_broker_that_joins_is_told_what_it_has_missed():
    bench = await moving_bench([1])
    await bench.reassignments.alter({T0: (2, 3)})
    await bench.lose(3)
    await bench.in_sync(T0, 1, 2)
    epoch = (await bench.leadership()).leader_epoch
    await bench.join(3)
    assert (await bench.leadership()).leader_epoch == epoch + 1
    assert bench.sent().leads(3) == {T0: (1, [2, 3, 1], True)}


async def test_a_broker_that_joins_matters_only_to_what_waits_for_it():
    bench = await moving_bench([1])
    await bench.reassignments.alter({T0: (2,)})
    epoch = (await bench.leadership()).leader_epoch
    await bench.join(4)
    assert (await bench.leadership()).leader_epoch == epoch


async def test_the_next_controller_goes_on_with_what_it_finds():
    bench = await moving_bench([1, 2])
    await bench.add_topic("u", Assignment((3, 1), adding=(3,), removing=(1,)))
    u0 = TopicPartition("u", 0)
    bench.scene.context.reassigning.add(u0)
    await bench.reassignments.start()
    assert (await bench.topic("u")).partitions == {0: Assignment((3,))}
    assert (await bench.leadership(u0)).leader == 3
    assert bench.sent().stops(1) == {u0: True}


# Topics that shall be deleted


async def test_what_is_to_be_deleted_is_not_reassigned():
    bench = await moving_bench([1])
    bench.scene.context.to_delete.add("t")
    outcomes = await bench.reassignments.alter({T0: (2,)})
    assert isinstance(outcomes[T0], UnknownTopicOrPartition)


async def test_a_deletion_waits_for_the_last_of_the_topics_reassignments():
    bench = await moving_bench([1], [1])
    await bench.reassignments.alter({T0: (2,), T1: (2,)})
    await bench.deletion.request(["t"])
    assert bench.scene.context.deleting == set()
    await bench.in_sync(T0, 1, 2)
    assert bench.scene.context.deleting == set()
    bench.sent()
    await bench.in_sync(T1, 1, 2)
    assert bench.scene.context.deleting == {"t"}
    assert bench.sent().stops(2) == {T0: True, T1: True}


async def test_one_without_leader_gets_one_though_its_topic_shall_go():
    bench = await moving_bench([1])
    await bench.reassignments.alter({T0: (2,)})
    await bench.lose(1)
    assert (await bench.leadership()).leader == NO_LEADER
    await bench.deletion.request(["t"])
    await bench.join(1)
    assert (await bench.leadership()).leader == 1
    await bench.in_sync(T0, 1, 2)
    bench.sent()
    await bench.deletion.replicas_deleted([Replica(T0, 2)])
    assert "t" not in bench.scene.context
