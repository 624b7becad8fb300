"""Tests of controller/replica_state_machine.py."""

from dataclasses import replace
from itertools import product

import pytest

from odradek.controller.controller_context import PartitionAndReplica
from odradek.controller.leader_and_isr import (
    EPOCH_DURING_DELETE,
    NO_LEADER,
    LeaderIsrAndControllerEpoch,
)
from odradek.controller.metadata_writer import ControllerMoved
from odradek.controller.replica_assignment import ReplicaAssignment
from odradek.controller.replica_state import VALID_TRANSITIONS, ReplicaState
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
FIRST = LeaderIsrAndControllerEpoch(1, 0, (1, 2, 3), controller_epoch=EPOCH, partition_epoch=0)


async def online_scene(*leaderships, assignment=(1, 2, 3)):
    """A topic t with online replicas and these leaderships. None means no leadership yet."""
    store = CountedStore(await MemoryStores().open())
    scene = await controller_scene(store)
    partitions = await scene.add_topic("t", *[assignment] * len(leaderships))
    pairs = zip(partitions, leaderships, strict=True)
    await scene.add_leaders(
        {partition: leadership for partition, leadership in pairs if leadership}
    )
    for replica in scene.context.replicas_for_topic("t"):
        scene.context.replica_states[replica] = ONLINE
    store.forget()
    return scene, partitions


def sent(scene, kind):
    """Broker -> partition -> state in its request of this kind."""
    if scene.sent.requests == []:
        scene.batch.send_requests_to_brokers()
    return {
        broker: {
            TopicPartition(topic.topic_name, state.partition_index): state
            for topic in request.topic_states
            for state in topic.partition_states
        }
        for broker, request, _ in scene.sent.requests
        if isinstance(request, kind)
    }


def sent_partitions(scene, kind):
    return {broker: [*states] for broker, states in sent(scene, kind).items()}


# Transitions


@pytest.mark.parametrize(("state", "target"), list(product(ReplicaState, ReplicaState)))
async def test_only_valid_transitions_are_made(state, target, caplog):
    scene, (t0,) = await online_scene(FIRST)
    replica = PartitionAndReplica(t0, 2)
    scene.context.replica_states[replica] = state
    await scene.replicas.handle_state_changes([replica], target)
    if target in VALID_TRANSITIONS[state]:
        assert scene.context.replica_state(replica) is target
        assert not caplog.records
    else:
        assert scene.context.replica_state(replica) is state
        assert f"Failed to change replicas to {target.name}: illegal" in caplog.text
        assert scene.store.runs == []
        scene.batch.send_requests_to_brokers()
        assert scene.sent.requests == []


# Replicas that come online


async def test_new_replica_receives_leader_and_isr():
    scene, (t0, t1) = await online_scene(FIRST, None, assignment=(1, 2))
    replicas = [PartitionAndReplica(t0, 3), PartitionAndReplica(t1, 3)]
    await scene.replicas.handle_state_changes(replicas, NEW)
    assert [scene.context.replica_state(replica) for replica in replicas] == [NEW, NEW]
    states = sent(scene, LeaderAndIsrRequest)
    assert sent_partitions(scene, LeaderAndIsrRequest) == {3: [t0]}
    assert states[3][t0].is_new


async def test_leader_cannot_become_a_new_replica(caplog):
    scene, (t0,) = await online_scene(FIRST)
    del scene.context.replica_states[PartitionAndReplica(t0, 1)]
    await scene.replicas.handle_state_changes([PartitionAndReplica(t0, 1)], NEW)
    assert scene.context.replica_state(PartitionAndReplica(t0, 1)) is ReplicaState.NON_EXISTENT
    assert "it is the leader" in caplog.text


async def test_new_replica_that_comes_online_gets_no_second_leader_and_isr():
    scene, (t0,) = await online_scene(FIRST)
    scene.context.replica_states[PartitionAndReplica(t0, 2)] = NEW
    await scene.replicas.handle_state_changes([PartitionAndReplica(t0, 2)], ONLINE)
    assert sent(scene, LeaderAndIsrRequest) == {}
    assert scene.context.replica_state(PartitionAndReplica(t0, 2)) is ONLINE


async def test_online_replica_is_added_to_the_assignment(caplog):
    scene, (t0,) = await online_scene(FIRST, assignment=(1, 2))
    scene.context.replica_states[PartitionAndReplica(t0, 3)] = NEW
    await scene.replicas.handle_state_changes([PartitionAndReplica(t0, 3)], ONLINE)
    assert scene.context.assignment(t0) == ReplicaAssignment((1, 2, 3))
    assert "which does not contain it" in caplog.text


@pytest.mark.parametrize("state", [ONLINE, OFFLINE, ReplicaState.DELETION_INELIGIBLE])
async def test_returning_replica_receives_leader_and_isr(state):
    scene, (t0, t1) = await online_scene(FIRST, None)
    for partition in (t0, t1):
        scene.context.replica_states[PartitionAndReplica(partition, 2)] = state
    await scene.replicas.handle_state_changes(
        [PartitionAndReplica(t0, 2), PartitionAndReplica(t1, 2)], ONLINE
    )
    assert sent_partitions(scene, LeaderAndIsrRequest) == {2: [t0]}
    assert not sent(scene, LeaderAndIsrRequest)[2][t0].is_new


# Replicas that go offline


async def test_offline_follower_leaves_the_isr_and_others_are_notified():
    scene, (t0,) = await online_scene(FIRST)
    await scene.replicas.handle_state_changes([PartitionAndReplica(t0, 3)], OFFLINE)
    expected = LeaderIsrAndControllerEpoch(1, 1, (1, 2), controller_epoch=EPOCH, partition_epoch=1)
    assert scene.context.partition_leadership_info[t0] == expected
    assert await scene.reads.get_topic_partition_states([t0]) == {t0: expected}
    assert scene.context.replica_state(PartitionAndReplica(t0, 3)) is OFFLINE
    assert sent_partitions(scene, LeaderAndIsrRequest) == {1: [t0], 2: [t0]}
    assert sent_partitions(scene, StopReplicaRequest) == {3: [t0]}
    assert not sent(scene, StopReplicaRequest)[3][t0].delete_partition


async def test_offline_leader_leaves_the_partition_without_leader():
    scene, (t0,) = await online_scene(FIRST)
    await scene.replicas.handle_state_changes([PartitionAndReplica(t0, 1)], OFFLINE)
    assert scene.context.partition_leadership_info[t0] == LeaderIsrAndControllerEpoch(
        NO_LEADER, 1, (2, 3), EPOCH, 1
    )


async def test_last_isr_member_stays_in_isr_when_offline():
    scene, (t0,) = await online_scene(replace(FIRST, isr=(1,)))
    await scene.replicas.handle_state_changes([PartitionAndReplica(t0, 1)], OFFLINE)
    assert scene.context.partition_leadership_info[t0] == LeaderIsrAndControllerEpoch(
        NO_LEADER, 1, (1,), EPOCH, 1
    )
    await scene.replicas.handle_state_changes([PartitionAndReplica(t0, 1)], OFFLINE)
    assert scene.context.partition_leadership_info[t0] == LeaderIsrAndControllerEpoch(
        NO_LEADER, 2, (1,), EPOCH, 2
    )


async def test_when_all_replicas_go_offline_one_stays_in_isr():
    scene, (t0, t1) = await online_scene(
        replace(FIRST, leader=2), replace(FIRST, leader=NO_LEADER, isr=(3, 1))
    )
    await scene.replicas.handle_state_changes(scene.context.replicas_for_topic("t"), OFFLINE)
    assert scene.context.partition_leadership_info[t0] == LeaderIsrAndControllerEpoch(
        NO_LEADER, 1, (2,), EPOCH, 1
    )
    assert scene.context.partition_leadership_info[t1] == LeaderIsrAndControllerEpoch(
        NO_LEADER, 1, (3,), EPOCH, 1
    )


async def test_replica_outside_the_isr_goes_offline_without_a_write():
    scene, (t0,) = await online_scene(replace(FIRST, isr=(1, 2)))
    await scene.replicas.handle_state_changes([PartitionAndReplica(t0, 3)], OFFLINE)
    assert scene.store.runs == []
    assert scene.context.replica_state(PartitionAndReplica(t0, 3)) is OFFLINE
    assert sent_partitions(scene, LeaderAndIsrRequest) == {1: [t0], 2: [t0]}


async def test_concurrent_isr_change_is_kept():
    scene, (t0,) = await online_scene(FIRST)
    await scene.store.set(paths.partition_state(t0), LeaderAndIsr(1, 0, (1, 3), EPOCH).encode())
    await scene.replicas.handle_state_changes([PartitionAndReplica(t0, 3)], OFFLINE)
    assert scene.context.partition_leadership_info[t0] == LeaderIsrAndControllerEpoch(
        1, 1, (1,), EPOCH, 2
    )


async def test_thousand_replicas_of_a_broker_go_offline_in_one_run():
    scene, partitions = await online_scene(*[FIRST] * 1_000)
    await scene.replicas.handle_state_changes(
        [PartitionAndReplica(partition, 3) for partition in partitions], OFFLINE
    )
    assert [len(run) for run in scene.store.runs] == [1_000]


async def test_offline_replica_without_leadership_sends_update_metadata_to_all():
    scene, (t0,) = await online_scene(None)
    await scene.replicas.handle_state_changes([PartitionAndReplica(t0, 3)], OFFLINE)
    assert scene.context.replica_state(PartitionAndReplica(t0, 3)) is OFFLINE
    assert scene.store.runs == []
    assert [*sent_partitions(scene, UpdateMetadataRequest)] == [1, 2, 3]


async def test_replica_whose_state_znode_is_gone_keeps_its_state(caplog):
    scene, (t0, t1) = await online_scene(FIRST, FIRST)
    await scene.store.delete(paths.partition_state(t0))
    await scene.replicas.handle_state_changes(
        [PartitionAndReplica(t0, 3), PartitionAndReplica(t1, 3)], OFFLINE
    )
    assert scene.context.replica_state(PartitionAndReplica(t0, 3)) is ONLINE
    assert scene.context.replica_state(PartitionAndReplica(t1, 3)) is OFFLINE
    assert "NoNode" in caplog.text


# Deletion


async def test_offline_replica_of_deleted_topic_sends_only_stop_replica():
    scene, (t0, t1) = await online_scene(FIRST, FIRST)
    await scene.store.delete(paths.partition_state(t1))
    scene.context.topics_to_be_deleted.add("t")
    replicas = [PartitionAndReplica(t0, 3), PartitionAndReplica(t1, 3)]
    await scene.replicas.handle_state_changes(replicas, OFFLINE)
    assert [scene.context.replica_state(replica) for replica in replicas] == [OFFLINE, OFFLINE]
    assert sent(scene, LeaderAndIsrRequest) == sent(scene, UpdateMetadataRequest) == {}
    state = sent(scene, StopReplicaRequest)[3][t0]
    assert (state.leader_epoch, state.delete_partition) == (EPOCH_DURING_DELETE, False)


async def test_deleted_replica_is_removed_from_the_context():
    scene, (t0,) = await online_scene(FIRST)
    replica = PartitionAndReplica(t0, 3)
    await scene.replicas.handle_state_changes([replica], OFFLINE)
    await scene.replicas.handle_state_changes([replica], ReplicaState.DELETION_STARTED)
    assert sent(scene, StopReplicaRequest)[3][t0].delete_partition
    await scene.replicas.handle_state_changes([replica], ReplicaState.DELETION_SUCCESSFUL)
    await scene.replicas.handle_state_changes([replica], ReplicaState.NON_EXISTENT)
    assert scene.context.assignment(t0) == ReplicaAssignment((1, 2))
    assert replica not in scene.context.replica_states
    assert scene.context.replicas_on_broker(3) == []


# Start-up and fencing


async def test_start_sets_replicas_online_or_offline():
    scene, (t0, t1) = await online_scene(FIRST, replace(FIRST, leader=3, isr=(3,)))
    scene.context.replica_states.clear()
    scene.context.remove_broker(3)
    await scene.replicas.start()
    online = {
        PartitionAndReplica(partition, broker): ONLINE
        for partition in (t0, t1)
        for broker in (1, 2)
    }
    offline = {PartitionAndReplica(partition, 3): OFFLINE for partition in (t0, t1)}
    assert scene.context.replica_states == online | offline
    assert scene.context.partition_leadership_info == {
        t0: LeaderIsrAndControllerEpoch(1, 1, (1, 2), EPOCH, 1),
        t1: LeaderIsrAndControllerEpoch(NO_LEADER, 1, (3,), EPOCH, 1),
    }
    assert sent_partitions(scene, LeaderAndIsrRequest) == {1: [t0, t1], 2: [t0, t1]}
    assert len(scene.store.runs) == 1


async def test_fenced_controller_changes_no_state():
    scene, (t0,) = await online_scene(FIRST)
    await scene.store.set(paths.CONTROLLER_EPOCH, b"8")
    with pytest.raises(ControllerMoved):
        await scene.replicas.handle_state_changes([PartitionAndReplica(t0, 3)], OFFLINE)
    assert scene.context.partition_leadership_info[t0] == FIRST
    assert scene.context.replica_state(PartitionAndReplica(t0, 3)) is ONLINE
