"""Tests of controller/request_batch.py and controller/control_request_builder.py."""

import pytest

from odradek.controller.control_request_builder import deletion_error_codes
from odradek.controller.controller_context import NO_EPOCH, PartitionAndReplica
from odradek.controller.leader_and_isr import (
    EPOCH_DURING_DELETE,
    LEADER_DURING_DELETE,
    LeaderIsrAndControllerEpoch,
)
from odradek.controller.metadata_version import MetadataVersion
from odradek.controller.replica_assignment import ReplicaAssignment
from odradek.protocol.api.leader_and_isr import LeaderAndIsrPartitionState, LeaderAndIsrRequest
from odradek.protocol.api.stop_replica import StopReplicaRequest, StopReplicaResponse
from odradek.protocol.api.update_metadata import (
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
)
from odradek.protocol.codec import decode, encode_bytes
from odradek.protocol.types import TopicPartition
from tests.support.controller_scene import CONTROLLER, EPOCH, LISTENER, controller_scene, topic_id
from tests.support.stores import MemoryStores

LiveLeader = LeaderAndIsrRequest.LiveLeader
LiveBroker = UpdateMetadataRequest.LiveBroker
EVERY_VERSION = ["0.8.2", "0.9.0", "0.10.0", "0.10.2", "1.0", "2.2", "2.4-IV0", "2.4", "2.6", "2.8"]
EVERY_VERSION += ["3.2", "3.9"]


def leadership_of(leader, *isr, epoch=3, version=5, recovering=False):
    return LeaderIsrAndControllerEpoch(leader, epoch, isr or (leader,), EPOCH, version, recovering)


async def scene_with(leaderships, metadata_version="3.9"):
    """A topic t with these leaderships. All partitions are on brokers 1 and 2."""
    metadata_version = MetadataVersion.parse(metadata_version)
    scene = await controller_scene(await MemoryStores().open(), spoken=metadata_version)
    partitions = await scene.add_topic("t", *[(1, 2)] * len(leaderships))
    for partition, leadership in zip(partitions, leaderships, strict=True):
        if leadership is not None:
            scene.context.partition_leadership_info[partition] = leadership
    return scene, partitions


def send_batch(scene):
    """Send the batch and return (broker, kind) in the order of sending."""
    scene.sent.requests.clear()
    scene.batch.send_requests_to_brokers()
    return [(broker, type(request).__name__[:-7]) for broker, request, _ in scene.sent.requests]


def states(request):
    if request is None:
        return {}
    return {
        TopicPartition(topic.topic_name, state.partition_index): state
        for topic in request.topic_states
        for state in topic.partition_states
    }


# Recipients


async def test_broker_receives_one_request_of_each_kind_in_order():
    scene, (t0, t1, t2) = await scene_with([leadership_of(1), leadership_of(2), leadership_of(1)])
    scene.batch.add_stop_replica_request(PartitionAndReplica(t2, 1), delete_partition=False)
    scene.batch.add_leader_and_isr_request([1, 2], t0)
    scene.batch.add_leader_and_isr_request([2], t1)
    assert send_batch(scene) == [
        (1, "LeaderAndIsr"),
        (2, "LeaderAndIsr"),
        (1, "UpdateMetadata"),
        (2, "UpdateMetadata"),
        (3, "UpdateMetadata"),
        (1, "StopReplica"),
    ]
    assert [*states(scene.sent.to(1, LeaderAndIsrRequest))] == [t0]
    assert [*states(scene.sent.to(2, LeaderAndIsrRequest))] == [t0, t1]
    assert [*states(scene.sent.to(3, UpdateMetadataRequest))] == [t0, t1]


async def test_batch_is_empty_after_it_is_sent():
    scene, (t0,) = await scene_with([leadership_of(1)])
    assert send_batch(scene) == []
    scene.batch.add_leader_and_isr_request([1], t0)
    scene.batch.add_stop_replica_request(PartitionAndReplica(t0, 2), delete_partition=True)
    assert send_batch(scene)
    assert send_batch(scene) == []


async def test_only_registered_brokers_receive_requests():
    scene, (t0,) = await scene_with([leadership_of(1)])
    scene.batch.add_leader_and_isr_request([1, 9, -1], t0)
    scene.batch.add_stop_replica_request(PartitionAndReplica(t0, 9), delete_partition=True)
    scene.batch.add_full_update_metadata_request([2, 9])
    scene.context.remove_broker(1)
    assert send_batch(scene) == [(2, "UpdateMetadata"), (3, "UpdateMetadata")]


async def test_request_added_while_a_broker_was_offline_is_not_sent_to_its_next_epoch():
    scene, (t0,) = await scene_with([leadership_of(1)])
    scene.context.remove_broker(2)
    scene.batch.add_stop_replica_request(PartitionAndReplica(t0, 2), delete_partition=False)
    scene.add_brokers([2], epoch=200)
    scene.batch.add_leader_and_isr_request([2], t0)
    assert (2, "StopReplica") not in send_batch(scene)
    assert scene.sent.to(2, LeaderAndIsrRequest).broker_epoch == 202


async def test_new_broker_receives_all_metadata_and_others_only_changes():
    scene, (t0, t1) = await scene_with([leadership_of(1), leadership_of(2)])
    scene.batch.add_leader_and_isr_request([1], t0)
    scene.batch.add_full_update_metadata_request([3])
    send_batch(scene)
    assert [*states(scene.sent.to(1, UpdateMetadataRequest))] == [t0]
    assert [*states(scene.sent.to(3, UpdateMetadataRequest))] == [t0, t1]


async def test_update_metadata_can_contain_only_the_live_brokers():
    scene, _ = await scene_with([leadership_of(1)])
    scene.batch.add_update_metadata_request()
    assert send_batch(scene) == [(broker, "UpdateMetadata") for broker in (1, 2, 3)]
    request = scene.sent.to(2, UpdateMetadataRequest)
    assert request.topic_states == []
    assert [broker.id for broker in request.live_brokers] == [1, 2, 3]


# Contents


async def test_leader_and_isr_request_contains_the_full_partition_state():
    scene, (t0,) = await scene_with([leadership_of(1, 2, 1, recovering=True)])
    scene.context.update_assignment(t0, ReplicaAssignment((1, 2)).reassign_to((3, 1)))
    scene.batch.add_leader_and_isr_request([1], t0, is_new=True)
    send_batch(scene)
    expected = LeaderAndIsrPartitionState(
        topic_name="t",
        partition_index=0,
        controller_epoch=EPOCH,
        leader=1,
        leader_epoch=3,
        isr=[2, 1],
        partition_epoch=5,
        replicas=[3, 1, 2],
        adding_replicas=[3],
        removing_replicas=[2],
        is_new=True,
        leader_recovery_state=1,
    )
    assert scene.sent.to(1, LeaderAndIsrRequest) == LeaderAndIsrRequest(
        controller_id=CONTROLLER,
        controller_epoch=EPOCH,
        broker_epoch=101,
        topic_states=[
            LeaderAndIsrRequest.TopicState(
                topic_name="t", topic_id=topic_id("t"), partition_states=[expected]
            )
        ],
        live_leaders=[LiveLeader(broker_id=1, host_name="host1", port=9092)],
    )


async def test_update_metadata_request_contains_leader_and_offline_replicas():
    scene, (t0,) = await scene_with([leadership_of(1, 1, 2)])
    scene.context.shutting_down_broker_ids.add(2)
    scene.batch.add_update_metadata_request([t0])
    send_batch(scene)
    request = scene.sent.to(3, UpdateMetadataRequest)
    assert (request.controller_id, request.controller_epoch) == (CONTROLLER, EPOCH)
    assert request.broker_epoch == 103
    assert request.topic_states[0].topic_id == topic_id("t")
    assert states(request)[t0] == UpdateMetadataPartitionState(
        topic_name="t",
        partition_index=0,
        controller_epoch=EPOCH,
        leader=1,
        leader_epoch=3,
        isr=[1, 2],
        zk_version=5,
        replicas=[1, 2],
        offline_replicas=[2],
    )
    internal_endpoint = LiveBroker.Endpoint(
        port=9092, host="host1", listener=LISTENER, security_protocol=0
    )
    external_endpoint = LiveBroker.Endpoint(
        port=9093, host="world1", listener="OUTSIDE", security_protocol=3
    )
    assert request.live_brokers[0] == LiveBroker(
        id=1, endpoints=[internal_endpoint, external_endpoint], rack=None
    )


async def test_topic_being_deleted_is_sent_with_leader_during_delete():
    scene, (t0,) = await scene_with([leadership_of(1, 1, 2)])
    scene.context.topics_to_be_deleted.add("t")
    scene.batch.add_update_metadata_request([t0])
    scene.batch.add_stop_replica_request(PartitionAndReplica(t0, 1), delete_partition=True)
    send_batch(scene)
    state = states(scene.sent.to(2, UpdateMetadataRequest))[t0]
    assert (state.leader, state.leader_epoch, state.zk_version) == (LEADER_DURING_DELETE, 0, 0)
    assert state.isr == [1, 2]
    stop_state = states(scene.sent.to(1, StopReplicaRequest))[t0]
    assert (stop_state.leader_epoch, stop_state.delete_partition) == (EPOCH_DURING_DELETE, True)


async def test_deleted_topic_without_leadership_is_sent_with_leader_during_delete():
    scene, (t0,) = await scene_with([None])
    scene.context.topics_to_be_deleted.add("t")
    scene.batch.add_update_metadata_request([t0])
    send_batch(scene)
    state = states(scene.sent.to(2, UpdateMetadataRequest))[t0]
    assert (state.leader, state.controller_epoch, state.isr) == (LEADER_DURING_DELETE, EPOCH, [])


async def test_partition_without_leadership_is_not_sent():
    scene, (t0,) = await scene_with([None])
    scene.batch.add_leader_and_isr_request([1], t0)
    assert send_batch(scene) == [(broker, "UpdateMetadata") for broker in (1, 2, 3)]
    assert scene.sent.to(1, UpdateMetadataRequest).topic_states == []
    scene.batch.add_stop_replica_request(PartitionAndReplica(t0, 1), delete_partition=False)
    send_batch(scene)
    assert states(scene.sent.to(1, StopReplicaRequest))[t0].leader_epoch == NO_EPOCH


# Merging


async def test_partition_is_sent_once_in_its_last_state_and_stays_new():
    scene, (t0,) = await scene_with([leadership_of(1)])
    scene.batch.add_leader_and_isr_request([1, 2], t0, is_new=True)
    scene.context.partition_leadership_info[t0] = leadership_of(2, epoch=4)
    scene.batch.add_leader_and_isr_request([2], t0)
    send_batch(scene)
    for broker in (1, 2):
        state = states(scene.sent.to(broker, LeaderAndIsrRequest))[t0]
        assert (state.leader, state.leader_epoch, state.is_new) == (2, 4, True)


async def test_is_new_is_kept_per_broker():
    scene, (t0,) = await scene_with([leadership_of(1)])
    scene.batch.add_leader_and_isr_request([1], t0)
    scene.batch.add_leader_and_isr_request([2], t0, is_new=True)
    send_batch(scene)
    assert [states(scene.sent.to(broker, LeaderAndIsrRequest))[t0].is_new for broker in (1, 2)] == [
        False,
        True,
    ]


async def test_delete_partition_flag_is_not_cleared():
    scene, (t0,) = await scene_with([leadership_of(1)])
    scene.batch.add_stop_replica_request(PartitionAndReplica(t0, 1), delete_partition=True)
    scene.batch.add_stop_replica_request(PartitionAndReplica(t0, 1), delete_partition=False)
    send_batch(scene)
    assert states(scene.sent.to(1, StopReplicaRequest))[t0].delete_partition


async def test_leader_and_isr_cancels_an_earlier_stop_replica():
    scene, (t0, t1) = await scene_with([leadership_of(1), leadership_of(1)])
    for partition in (t0, t1):
        scene.batch.add_stop_replica_request(
            PartitionAndReplica(partition, 1), delete_partition=False
        )
    scene.batch.add_leader_and_isr_request([1], t0)
    send_batch(scene)
    assert [*states(scene.sent.to(1, StopReplicaRequest))] == [t1]
    scene.batch.add_stop_replica_request(PartitionAndReplica(t0, 1), delete_partition=False)
    scene.batch.add_leader_and_isr_request([1], t0)
    assert (1, "StopReplica") not in send_batch(scene)


# Versions


@pytest.mark.parametrize("metadata_version", EVERY_VERSION)
async def test_requests_of_every_version_have_the_same_content(metadata_version):
    scene, (t0, t1) = await scene_with([leadership_of(1), leadership_of(2)], metadata_version)
    scene.batch.add_leader_and_isr_request([1], t0)
    scene.batch.add_stop_replica_request(PartitionAndReplica(t0, 2), delete_partition=False)
    scene.batch.add_stop_replica_request(PartitionAndReplica(t1, 2), delete_partition=True)
    scene.batch.send_requests_to_brokers()
    received, stopped, deleted = set(), set(), set()
    for broker, request, version in scene.sent.requests:
        decoded = decode(type(request), version, encode_bytes(request, version))
        if isinstance(decoded, StopReplicaRequest):
            response = StopReplicaResponse(error_code=0, partition_errors=[])
            stopped |= set(states(decoded))
            stopped |= {
                ("t", partition.partition_index) for partition in decoded.ungrouped_partitions
            }
            stopped |= {
                ("t", index) for topic in decoded.topics for index in topic.partition_indexes
            }
            deleted |= deletion_error_codes(decoded, response).keys()
        else:
            ungrouped = [
                (state.topic_name, state.partition_index)
                for state in decoded.ungrouped_partition_states
            ]
            received |= {
                (broker, type(decoded).__name__[:-7], partition)
                for partition in (*ungrouped, *states(decoded))
            }
    assert received == {
        (1, "LeaderAndIsr", t0),
        *((broker, "UpdateMetadata", t0) for broker in (1, 2, 3)),
    }
    assert (stopped, deleted) == ({t0, t1}, {t1})


async def test_update_metadata_version_0_has_one_address_per_broker():
    scene, _ = await scene_with([leadership_of(1)], "0.8.2")
    scene.batch.add_update_metadata_request()
    send_batch(scene)
    (first, *_) = scene.sent.to(1, UpdateMetadataRequest).live_brokers
    assert (first.v0_host, first.v0_port, first.endpoints) == ("host1", 9092, [])


# Responses


def deletion_codes(request, error_code=0, **codes):
    errors = [
        StopReplicaResponse.PartitionError(
            topic_name=name[0], partition_index=int(name[1:]), error_code=code
        )
        for name, code in codes.items()
    ]
    return deletion_error_codes(
        request, StopReplicaResponse(error_code=error_code, partition_errors=errors)
    )


async def test_deletion_error_codes_cover_only_partitions_to_be_deleted():
    scene, (t0, t1, t2) = await scene_with([leadership_of(1), leadership_of(1), leadership_of(1)])
    scene.batch.add_stop_replica_request(PartitionAndReplica(t0, 1), delete_partition=True)
    scene.batch.add_stop_replica_request(PartitionAndReplica(t1, 1), delete_partition=True)
    scene.batch.add_stop_replica_request(PartitionAndReplica(t2, 1), delete_partition=False)
    send_batch(scene)
    request = scene.sent.to(1, StopReplicaRequest)
    assert deletion_codes(request, t0=0, t1=56, t2=0) == {t0: 0, t1: 56}
    assert deletion_codes(request, error_code=77) == {t0: 77, t1: 77}
    assert deletion_codes(request, t0=0) == {t0: 0, t1: -1}
