"""Tests of controller/replica_machine.py."""

from dataclasses import replace
from itertools import product

import pytest

from odradek.controller.assignment import Assignment
from odradek.controller.context import Replica
from odradek.controller.leadership import EPOCH_DURING_DELETE, NO_LEADER, Leadership
from odradek.controller.metadata_writes import ControllerMoved
from odradek.controller.replica_state import MOVES, ReplicaState
from odradek.controller.store import paths
from odradek.controller.store.payloads.topic import LeaderAndIsr
from odradek.protocol.api.leader_and_isr import LeaderAndIsrRequest
from odradek.protocol.api.stop_replica import StopReplicaRequest
from odradek.protocol.api.update_metadata import UpdateMetadataRequest
from odradek.protocol.types import TopicPartition
from tests.support.controller_scene import EPOCH, controller_scene
from tests.support.counted_store import CountedStore
from tests.support.stores import MemoryStores

NEW, ONLINE, OFFLINE = ReplicaState.NEW, ReplicaState.ONLINE, ReplicaState.OFFLINE
FIRST = Leadership(1, 0, (1, 2, 3), controller_epoch=EPOCH, partition_epoch=0)


async def led_scene(*leaderships, assignment=(1, 2, 3)):
    """A topic t with these leaderships, whose replicas are online; None: it has none yet."""
    store = CountedStore(await MemoryStores().open())
    scene = await controller_scene(store)
    partitions = await scene.add_topic("t", *[assignment] * len(leaderships))
    led = zip(partitions, leaderships, strict=True)
    await scene.add_leaders({each: leadership for each, leadership in led if leadership})
    for replica in scene.context.replicas_of_topic("t"):
        scene.context.replica_states[replica] = ONLINE
    store.forget()
    return scene, partitions


def sent(scene, kind):
    """Broker -> partition -> what it is told of it."""
    if scene.sent.requests == []:
        scene.batch.send()
    return {
        broker: {
            TopicPartition(topic.topic_name, state.partition_index): state
            for topic in request.topic_states
            for state in topic.partition_states
        }
        for broker, request, _ in scene.sent.requests
        if isinstance(request, kind)
    }


def whom(scene, kind):
    return {broker: [*states] for broker, states in sent(scene, kind).items()}


# The table


@pytest.mark.parametrize(("state", "target"), list(product(ReplicaState, ReplicaState)))
async def test_every_move_is_made_or_refused_as_the_table_says(state, target, caplog):
    scene, (t0,) = await led_scene(FIRST)
    replica = Replica(t0, 2)
    scene.context.replica_states[replica] = state
    await scene.replicas.move([replica], target)
    if target in MOVES[state]:
        assert scene.context.replica_state(replica) is target
        assert not caplog.records
    else:
        assert scene.context.replica_state(replica) is state
        assert f"Replicas do not become {target.name}: illegal" in caplog.text
        assert scene.store.runs == []
        scene.batch.send()
        assert scene.sent.requests == []


# Coming


async def test_a_new_replica_is_told_whom_to_follow():
    scene, (t0, t1) = await led_scene(FIRST, None, assignment=(1, 2))
    replicas = [Replica(t0, 3), Replica(t1, 3)]
    await scene.replicas.move(replicas, NEW)
    assert [scene.context.replica_state(each) for each in replicas] == [NEW, NEW]
    told = sent(scene, LeaderAndIsrRequest)
    assert whom(scene, LeaderAndIsrRequest) == {3: [t0]}
    assert told[3][t0].is_new


async def test_who_leads_cannot_be_new(caplog):
    scene, (t0,) = await led_scene(FIRST)
    del scene.context.replica_states[Replica(t0, 1)]
    await scene.replicas.move([Replica(t0, 1)], NEW)
    assert scene.context.replica_state(Replica(t0, 1)) is ReplicaState.NON_EXISTENT
    assert "it leads" in caplog.text


async def test_a_new_replica_that_comes_online_has_been_told_already():
    scene, (t0,) = await led_scene(FIRST)
    scene.context.replica_states[Replica(t0, 2)] = NEW
    await scene.replicas.move([Replica(t0, 2)], ONLINE)
    assert sent(scene, LeaderAndIsrRequest) == {}
    assert scene.context.replica_state(Replica(t0, 2)) is ONLINE


async def test_a_replica_that_was_not_assigned_is(caplog):
    scene, (t0,) = await led_scene(FIRST, assignment=(1, 2))
    scene.context.replica_states[Replica(t0, 3)] = NEW
    await scene.replicas.move([Replica(t0, 3)], ONLINE)
    assert scene.context.assignment(t0) == Assignment((1, 2, 3))
    assert "not one of its assignment" in caplog.text


@pytest.mark.parametrize("state", [ONLINE, OFFLINE, ReplicaState.DELETION_INELIGIBLE])
async def test_a_replica_that_comes_back_is_told_who_leads(state):
    scene, (t0, t1) = await led_scene(FIRST, None)
    for partition in (t0, t1):
        scene.context.replica_states[Replica(partition, 2)] = state
    await scene.replicas.move([Replica(t0, 2), Replica(t1, 2)], ONLINE)
    assert whom(scene, LeaderAndIsrRequest) == {2: [t0]}
    assert not sent(scene, LeaderAndIsrRequest)[2][t0].is_new


# Going


async def test_a_follower_that_goes_is_out_of_sync_and_the_others_are_told():
    scene, (t0,) = await led_scene(FIRST)
    await scene.replicas.move([Replica(t0, 3)], OFFLINE)
    then = Leadership(1, 1, (1, 2), controller_epoch=EPOCH, partition_epoch=1)
    assert scene.context.leaderships[t0] == then
    assert await scene.reads.leaderships([t0]) == {t0: then}
    assert scene.context.replica_state(Replica(t0, 3)) is OFFLINE
    assert whom(scene, LeaderAndIsrRequest) == {1: [t0], 2: [t0]}
    assert whom(scene, StopReplicaRequest) == {3: [t0]}
    assert not sent(scene, StopReplicaRequest)[3][t0].delete_partition


async def test_a_leader_that_goes_leaves_the_partition_without_one():
    scene, (t0,) = await led_scene(FIRST)
    await scene.replicas.move([Replica(t0, 1)], OFFLINE)
    assert scene.context.leaderships[t0] == Leadership(NO_LEADER, 1, (2, 3), EPOCH, 1)


async def test_the_last_in_sync_stays_so():
    scene, (t0,) = await led_scene(replace(FIRST, isr=(1,)))
    await scene.replicas.move([Replica(t0, 1)], OFFLINE)
    assert scene.context.leaderships[t0] == Leadership(NO_LEADER, 1, (1,), EPOCH, 1)
    await scene.replicas.move([Replica(t0, 1)], OFFLINE)
    assert scene.context.leaderships[t0] == Leadership(NO_LEADER, 2, (1,), EPOCH, 2)


async def test_of_all_that_go_together_the_leader_stays_in_sync():
    scene, (t0, t1) = await led_scene(
        replace(FIRST, leader=2), replace(FIRST, leader=NO_LEADER, isr=(3, 1))
    )
    await scene.replicas.move(scene.context.replicas_of_topic("t"), OFFLINE)
    assert scene.context.leaderships[t0] == Leadership(NO_LEADER, 1, (2,), EPOCH, 1)
    assert scene.context.leaderships[t1] == Leadership(NO_LEADER, 1, (3,), EPOCH, 1)


async def test_who_was_not_in_sync_goes_without_a_write():
    scene, (t0,) = await led_scene(replace(FIRST, isr=(1, 2)))
    await scene.replicas.move([Replica(t0, 3)], OFFLINE)
    assert scene.store.runs == []
    assert scene.context.replica_state(Replica(t0, 3)) is OFFLINE
    assert whom(scene, LeaderAndIsrRequest) == {1: [t0], 2: [t0]}


async def test_where_a_leader_was_faster_its_change_is_kept():
    scene, (t0,) = await led_scene(FIRST)
    await scene.store.set(paths.partition_state(t0), LeaderAndIsr(1, 0, (1, 3), EPOCH).encode())
    await scene.replicas.move([Replica(t0, 3)], OFFLINE)
    assert scene.context.leaderships[t0] == Leadership(1, 1, (1,), EPOCH, 2)


async def test_a_broker_with_a_thousand_replicas_goes_in_one_run():
    scene, partitions = await led_scene(*[FIRST] * 1_000)
    await scene.replicas.move([Replica(each, 3) for each in partitions], OFFLINE)
    assert [len(run) for run in scene.store.runs] == [1_000]


async def test_of_a_partition_that_never_had_a_leader_all_are_told():
    scene, (t0,) = await led_scene(None)
    await scene.replicas.move([Replica(t0, 3)], OFFLINE)
    assert scene.context.replica_state(Replica(t0, 3)) is OFFLINE
    assert scene.store.runs == []
    assert [*whom(scene, UpdateMetadataRequest)] == [1, 2, 3]


async def test_what_the_store_has_lost_stays_where_it_is(caplog):
    scene, (t0, t1) = await led_scene(FIRST, FIRST)
    await scene.store.delete(paths.partition_state(t0))
    await scene.replicas.move([Replica(t0, 3), Replica(t1, 3)], OFFLINE)
    assert scene.context.replica_state(Replica(t0, 3)) is ONLINE
    assert scene.context.replica_state(Replica(t1, 3)) is OFFLINE
    assert "NoNode" in caplog.text


# Being deleted


async def test_of_a_topic_that_is_going_only_its_brokers_hear():
    scene, (t0, t1) = await led_scene(FIRST, FIRST)
    await scene.store.delete(paths.partition_state(t1))
    scene.context.to_delete.add("t")
    replicas = [Replica(t0, 3), Replica(t1, 3)]
    await scene.replicas.move(replicas, OFFLINE)
    assert [scene.context.replica_state(each) for each in replicas] == [OFFLINE, OFFLINE]
    assert sent(scene, LeaderAndIsrRequest) == sent(scene, UpdateMetadataRequest) == {}
    told = sent(scene, StopReplicaRequest)[3][t0]
    assert (told.leader_epoch, told.delete_partition) == (EPOCH_DURING_DELETE, False)


async def test_a_replica_is_deleted_step_by_step_and_forgotten():
    scene, (t0,) = await led_scene(FIRST)
    replica = Replica(t0, 3)
    await scene.replicas.move([replica], OFFLINE)
    await scene.replicas.move([replica], ReplicaState.DELETION_STARTED)
    assert sent(scene, StopReplicaRequest)[3][t0].delete_partition
    await scene.replicas.move([replica], ReplicaState.DELETION_SUCCESSFUL)
    await scene.replicas.move([replica], ReplicaState.NON_EXISTENT)
    assert scene.context.assignment(t0) == Assignment((1, 2))
    assert replica not in scene.context.replica_states
    assert scene.context.replicas_on(3) == []


# The start and the end


async def test_a_controller_finds_out_which_replicas_are_there():
    scene, (t0, t1) = await led_scene(FIRST, replace(FIRST, leader=3, isr=(3,)))
    scene.context.replica_states.clear()
    scene.context.forget_broker(3)
    await scene.replicas.start()
    there = {Replica(each, broker): ONLINE for each in (t0, t1) for broker in (1, 2)}
    gone = {Replica(each, 3): OFFLINE for each in (t0, t1)}
    assert scene.context.replica_states == there | gone
    assert scene.context.leaderships == {
        t0: Leadership(1, 1, (1, 2), EPOCH, 1),
        t1: Leadership(NO_LEADER, 1, (3,), EPOCH, 1),
    }
    assert whom(scene, LeaderAndIsrRequest) == {1: [t0, t1], 2: [t0, t1]}
    assert len(scene.store.runs) == 1


async def test_whoever_has_been_replaced_moves_nothing():
    scene, (t0,) = await led_scene(FIRST)
    await scene.store.set(paths.CONTROLLER_EPOCH, b"8")
    with pytest.raises(ControllerMoved):
        await scene.replicas.move([Replica(t0, 3)], OFFLINE)
    assert scene.context.leaderships[t0] == FIRST
    assert scene.context.replica_state(Replica(t0, 3)) is ONLINE
