"""Tests of controller/request_batch.py and controller/control_requests.py."""

import pytest

from odradek.controller.assignment import Assignment
from odradek.controller.context import NO_EPOCH, Replica
from odradek.controller.control_requests import deletions_answered
from odradek.controller.leadership import EPOCH_DURING_DELETE, LEADER_DURING_DELETE, Leadership
from odradek.controller.request_versions import InterBrokerVersion
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


def led(leader, *isr, epoch=3, version=5, recovering=False):
    return Leadership(leader, epoch, isr or (leader,), EPOCH, version, recovering)


async def scene_with(leaderships, spoken="3.9"):
    """A topic t of these leaderships, whose partitions are all on brokers 1 and 2."""
    spoken = InterBrokerVersion.parse(spoken)
    scene = await controller_scene(await MemoryStores().open(), spoken=spoken)
    partitions = await scene.add_topic("t", *[(1, 2)] * len(leaderships))
    for partition, leadership in zip(partitions, leaderships, strict=True):
        if leadership is not None:
            scene.context.leaderships[partition] = leadership
    return scene, partitions


def sent(scene):
    """(broker, kind) in the order of sending; the batch is sent."""
    scene.sent.requests.clear()
    scene.batch.send()
    return [(broker, type(each).__name__[:-7]) for broker, each, _ in scene.sent.requests]


def states(request):
    if request is None:
        return {}
    return {
        TopicPartition(topic.topic_name, each.partition_index): each
        for topic in request.topic_states
        for each in topic.partition_states
    }


# What is sent to whom


async def test_of_each_kind_a_broker_gets_one_and_in_order():
    scene, (t0, t1, t2) = await scene_with([led(1), led(2), led(1)])
    scene.batch.stop_replica(Replica(t2, 1), deletes=False)
    scene.batch.leader_and_isr([1, 2], t0)
    scene.batch.leader_and_isr([2], t1)
    assert sent(scene) == [
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


async def test_a_batch_is_empty_once_it_is_sent():
    scene, (t0,) = await scene_with([led(1)])
    assert sent(scene) == []
    scene.batch.leader_and_isr([1], t0)
    scene.batch.stop_replica(Replica(t0, 2), deletes=True)
    assert sent(scene)
    assert sent(scene) == []


async def test_only_registered_brokers_are_told():
    scene, (t0,) = await scene_with([led(1)])
    scene.batch.leader_and_isr([1, 9, -1], t0)
    scene.batch.stop_replica(Replica(t0, 9), deletes=True)
    scene.batch.all_metadata([2, 9])
    scene.context.forget_broker(1)
    assert sent(scene) == [(2, "UpdateMetadata"), (3, "UpdateMetadata")]


async def test_what_was_said_of_a_broker_that_was_gone_is_not_told_to_its_successor():
    scene, (t0,) = await scene_with([led(1)])
    scene.context.forget_broker(2)
    scene.batch.stop_replica(Replica(t0, 2), deletes=False)
    scene.add_brokers([2], epoch=200)
    scene.batch.leader_and_isr([2], t0)
    assert (2, "StopReplica") not in sent(scene)
    assert scene.sent.to(2, LeaderAndIsrRequest).broker_epoch == 202


async def test_a_newcomer_is_told_everything_and_the_others_what_changed():
    scene, (t0, t1) = await scene_with([led(1), led(2)])
    scene.batch.leader_and_isr([1], t0)
    scene.batch.all_metadata([3])
    sent(scene)
    assert [*states(scene.sent.to(1, UpdateMetadataRequest))] == [t0]
    assert [*states(scene.sent.to(3, UpdateMetadataRequest))] == [t0, t1]


async def test_everyone_may_be_told_only_which_brokers_there_are():
    scene, _ = await scene_with([led(1)])
    scene.batch.update_metadata()
    assert sent(scene) == [(broker, "UpdateMetadata") for broker in (1, 2, 3)]
    request = scene.sent.to(2, UpdateMetadataRequest)
    assert request.topic_states == []
    assert [each.id for each in request.live_brokers] == [1, 2, 3]


# What it says


async def test_a_replica_is_told_all_about_its_partition():
    scene, (t0,) = await scene_with([led(1, 2, 1, recovering=True)])
    scene.context.assign(t0, Assignment((1, 2)).reassigned_to((3, 1)))
    scene.batch.leader_and_isr([1], t0, is_new=True)
    sent(scene)
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


async def test_everyone_is_told_who_leads_what_and_which_replicas_are_offline():
    scene, (t0,) = await scene_with([led(1, 1, 2)])
    scene.context.shutting_down.add(2)
    scene.batch.update_metadata([t0])
    sent(scene)
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
    inside = LiveBroker.Endpoint(port=9092, host="host1", listener=LISTENER, security_protocol=0)
    outside = LiveBroker.Endpoint(port=9093, host="world1", listener="OUTSIDE", security_protocol=3)
    assert request.live_brokers[0] == LiveBroker(id=1, endpoints=[inside, outside], rack=None)


async def test_a_topic_that_is_going_has_no_leader_for_anyone():
    scene, (t0,) = await scene_with([led(1, 1, 2)])
    scene.context.to_delete.add("t")
    scene.batch.update_metadata([t0])
    scene.batch.stop_replica(Replica(t0, 1), deletes=True)
    sent(scene)
    told = states(scene.sent.to(2, UpdateMetadataRequest))[t0]
    assert (told.leader, told.leader_epoch, told.zk_version) == (LEADER_DURING_DELETE, 0, 0)
    assert told.isr == [1, 2]
    stopped = states(scene.sent.to(1, StopReplicaRequest))[t0]
    assert (stopped.leader_epoch, stopped.delete_partition) == (EPOCH_DURING_DELETE, True)


async def test_everyone_is_told_that_a_topic_is_going_whose_leaders_are_gone_already():
    scene, (t0,) = await scene_with([None])
    scene.context.to_delete.add("t")
    scene.batch.update_metadata([t0])
    sent(scene)
    told = states(scene.sent.to(2, UpdateMetadataRequest))[t0]
    assert (told.leader, told.controller_epoch, told.isr) == (LEADER_DURING_DELETE, EPOCH, [])


async def test_of_a_partition_without_leader_nothing_is_said():
    scene, (t0,) = await scene_with([None])
    scene.batch.leader_and_isr([1], t0)
    assert sent(scene) == [(broker, "UpdateMetadata") for broker in (1, 2, 3)]
    assert scene.sent.to(1, UpdateMetadataRequest).topic_states == []
    scene.batch.stop_replica(Replica(t0, 1), deletes=False)
    sent(scene)
    assert states(scene.sent.to(1, StopReplicaRequest))[t0].leader_epoch == NO_EPOCH


# What is merged


async def test_a_partition_is_told_once_in_its_last_state_and_stays_new():
    scene, (t0,) = await scene_with([led(1)])
    scene.batch.leader_and_isr([1, 2], t0, is_new=True)
    scene.context.leaderships[t0] = led(2, epoch=4)
    scene.batch.leader_and_isr([2], t0)
    sent(scene)
    for broker in (1, 2):
        state = states(scene.sent.to(broker, LeaderAndIsrRequest))[t0]
        assert (state.leader, state.leader_epoch, state.is_new) == (2, 4, True)


async def test_what_is_new_for_one_broker_is_not_for_another():
    scene, (t0,) = await scene_with([led(1)])
    scene.batch.leader_and_isr([1], t0)
    scene.batch.leader_and_isr([2], t0, is_new=True)
    sent(scene)
    assert [states(scene.sent.to(broker, LeaderAndIsrRequest))[t0].is_new for broker in (1, 2)] == [
        False,
        True,
    ]


async def test_what_is_to_be_deleted_stays_to_be_deleted():
    scene, (t0,) = await scene_with([led(1)])
    scene.batch.stop_replica(Replica(t0, 1), deletes=True)
    scene.batch.stop_replica(Replica(t0, 1), deletes=False)
    sent(scene)
    assert states(scene.sent.to(1, StopReplicaRequest))[t0].delete_partition


async def test_whoever_serves_a_replica_after_all_is_not_told_to_stop_it():
    scene, (t0, t1) = await scene_with([led(1), led(1)])
    for partition in (t0, t1):
        scene.batch.stop_replica(Replica(partition, 1), deletes=False)
    scene.batch.leader_and_isr([1], t0)
    sent(scene)
    assert [*states(scene.sent.to(1, StopReplicaRequest))] == [t1]
    scene.batch.stop_replica(Replica(t0, 1), deletes=False)
    scene.batch.leader_and_isr([1], t0)
    assert (1, "StopReplica") not in sent(scene)


# Versions


@pytest.mark.parametrize("spoken", EVERY_VERSION)
async def test_every_version_can_be_written_and_says_the_same(spoken):
    scene, (t0, t1) = await scene_with([led(1), led(2)], spoken)
    scene.batch.leader_and_isr([1], t0)
    scene.batch.stop_replica(Replica(t0, 2), deletes=False)
    scene.batch.stop_replica(Replica(t1, 2), deletes=True)
    scene.batch.send()
    told, stopped, deleted = set(), set(), set()
    for broker, request, version in scene.sent.requests:
        got = decode(type(request), version, encode_bytes(request, version))
        if isinstance(got, StopReplicaRequest):
            answer = StopReplicaResponse(error_code=0, partition_errors=[])
            stopped |= set(states(got))
            stopped |= {("t", each.partition_index) for each in got.ungrouped_partitions}
            stopped |= {("t", each) for topic in got.topics for each in topic.partition_indexes}
            deleted |= deletions_answered(got, answer).keys()
        else:
            flat = [
                (each.topic_name, each.partition_index) for each in got.ungrouped_partition_states
            ]
            told |= {(broker, type(got).__name__[:-7], each) for each in (*flat, *states(got))}
    assert told == {
        (1, "LeaderAndIsr", t0),
        *((broker, "UpdateMetadata", t0) for broker in (1, 2, 3)),
    }
    assert (stopped, deleted) == ({t0, t1}, {t1})


async def test_the_oldest_brokers_are_told_one_address():
    scene, _ = await scene_with([led(1)], "0.8.2")
    scene.batch.update_metadata()
    sent(scene)
    (first, *_) = scene.sent.to(1, UpdateMetadataRequest).live_brokers
    assert (first.v0_host, first.v0_port, first.endpoints) == ("host1", 9092, [])


# Answers


def answer(request, error_code=0, **codes):
    errors = [
        StopReplicaResponse.PartitionError(
            topic_name=name[0], partition_index=int(name[1:]), error_code=code
        )
        for name, code in codes.items()
    ]
    return deletions_answered(
        request, StopReplicaResponse(error_code=error_code, partition_errors=errors)
    )


async def test_only_what_was_to_be_deleted_is_told_to_be_deleted():
    scene, (t0, t1, t2) = await scene_with([led(1), led(1), led(1)])
    scene.batch.stop_replica(Replica(t0, 1), deletes=True)
    scene.batch.stop_replica(Replica(t1, 1), deletes=True)
    scene.batch.stop_replica(Replica(t2, 1), deletes=False)
    sent(scene)
    request = scene.sent.to(1, StopReplicaRequest)
    assert answer(request, t0=0, t1=56, t2=0) == {t0: 0, t1: 56}
    assert answer(request, error_code=77) == {t0: 77, t1: 77}
    assert answer(request, t0=0) == {t0: 0, t1: -1}
