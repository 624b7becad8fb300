"""Tests of tests/support/simulated_brokers.py: they reject the requests that Kafka rejects."""

import asyncio

import pytest

from odradek.controller.controller_channel import ChannelEnvironment, ControllerChannelManager
from odradek.controller.controller_context import PartitionAndReplica
from odradek.controller.metadata_version import LATEST, MetadataVersion
from odradek.controller.partition_state import PartitionState
from odradek.controller.replica_state import ReplicaState
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.types import TopicPartition, Uuid
from tests.support.controller_scene import controller_scene
from tests.support.simulated_brokers import SimulatedBrokers
from tests.support.stores import MemoryStores

T0 = TopicPartition("t", 0)


class Cluster:
    """A controller scene that sends its batches directly to simulated brokers."""

    def __init__(self, scene, brokers):
        self.scene = scene
        self.brokers = brokers
        self.responses = []

    async def send(self):
        scene, before = self.scene, len(self.responses)
        scene.sent.requests.clear()
        scene.batch.send_requests_to_brokers()
        for broker, request, version in scene.sent.requests:
            connection = self.brokers.connect(scene.context.brokers[broker])
            self.responses.append(await connection.send(request, version=version))
        return self.responses[before:]


async def start_cluster(metadata_version=LATEST):
    """One partition on brokers 1 and 2, known to all brokers."""
    scene = await controller_scene(await MemoryStores().open(), spoken=metadata_version)
    brokers = SimulatedBrokers()
    for broker in scene.context.brokers.values():
        brokers.start(broker.id, epoch=broker.epoch)
    await scene.add_topic("t", (1, 2))
    await scene.partitions.handle_state_changes([T0], PartitionState.NEW)
    await scene.replicas.handle_state_changes(
        scene.context.replicas_for_partition(T0), ReplicaState.NEW
    )
    await scene.partitions.handle_state_changes([T0], PartitionState.ONLINE)
    await scene.replicas.handle_state_changes(
        scene.context.replicas_for_partition(T0), ReplicaState.ONLINE
    )
    cluster = Cluster(scene, brokers)
    assert {response.error_code for response in await cluster.send()} == {0}
    return cluster


def codes(response):
    errors = [
        partition_error for topic in response.topics for partition_error in topic.partition_errors
    ]
    return [partition_error.error_code for partition_error in (*errors, *response.partition_errors)]


@pytest.mark.parametrize("metadata_version", ["0.8.2", "2.2", "2.6", "3.9"])
async def test_brokers_apply_requests_of_every_version(metadata_version):
    cluster = await start_cluster(MetadataVersion.parse(metadata_version))
    assert cluster.brokers[1].leads == {T0}
    assert cluster.brokers[2].replicas[T0].leader == 1
    assert [cluster.brokers[broker].metadata[T0].leader for broker in (1, 2, 3)] == [1, 1, 1]
    assert [*cluster.brokers[3].live_brokers] == [1, 2, 3]
    await cluster.scene.replicas.handle_state_changes(
        [PartitionAndReplica(T0, 2)], ReplicaState.OFFLINE
    )
    await cluster.scene.replicas.handle_state_changes(
        [PartitionAndReplica(T0, 2)], ReplicaState.DELETION_STARTED
    )
    await cluster.send()
    assert T0 not in cluster.brokers[2].replicas
    assert T0 not in cluster.brokers[2].logs
    assert cluster.brokers[1].replicas[T0].isr == [1]


async def test_request_with_stale_broker_epoch_is_rejected():
    cluster = await start_cluster()
    cluster.brokers.start(1, epoch=500)
    cluster.scene.batch.add_leader_and_isr_request([1], T0)
    cluster.scene.batch.add_stop_replica_request(PartitionAndReplica(T0, 1), delete_partition=True)
    first, metadata, *_, last = await cluster.send()
    stale = ErrorCode.STALE_BROKER_EPOCH.code
    assert [response.error_code for response in (first, metadata, last)] == [stale] * 3
    assert cluster.brokers[1].replicas == cluster.brokers[1].metadata == {}
    assert T0 in cluster.brokers[1].logs, "a log outlives its broker"


async def test_request_with_stale_controller_epoch_is_rejected():
    cluster = await start_cluster()
    cluster.scene.context.epoch -= 1
    cluster.scene.batch.add_leader_and_isr_request([1], T0)
    responses = await cluster.send()
    assert {response.error_code for response in responses} == {
        ErrorCode.STALE_CONTROLLER_EPOCH.code
    }


async def test_request_with_old_or_equal_leader_epoch_is_rejected():
    cluster = await start_cluster()
    cluster.scene.batch.add_leader_and_isr_request([1], T0)
    first, *_ = await cluster.send()
    assert codes(first) == [ErrorCode.STALE_CONTROLLER_EPOCH.code]
    cluster.brokers[1].replicas[T0].leader_epoch = 5
    cluster.scene.batch.add_stop_replica_request(PartitionAndReplica(T0, 1), delete_partition=False)
    (stop_response,) = await cluster.send()
    assert stop_response.partition_errors[0].error_code == ErrorCode.FENCED_LEADER_EPOCH.code
    assert T0 in cluster.brokers[1].replicas


async def test_request_for_replica_in_offline_log_dir_is_rejected():
    cluster = await start_cluster()
    cluster.brokers[1].offline.add(T0)
    cluster.scene.batch.add_leader_and_isr_request([1], T0)
    cluster.scene.batch.add_stop_replica_request(PartitionAndReplica(T0, 1), delete_partition=True)
    first, *_, last = await cluster.send()
    assert codes(first) == [ErrorCode.KAFKA_STORAGE_ERROR.code]
    assert last.partition_errors[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR.code


async def test_request_with_inconsistent_topic_id_is_rejected():
    cluster = await start_cluster()
    cluster.scene.context.topic_ids["t"] = Uuid(b"x" * 16)
    cluster.scene.batch.add_leader_and_isr_request([1], T0)
    first, *_ = await cluster.send()
    assert codes(first) == [ErrorCode.INCONSISTENT_TOPIC_ID.code]


async def test_request_for_unassigned_replica_is_rejected():
    cluster = await start_cluster()
    cluster.scene.batch.add_leader_and_isr_request([3], T0)
    first, *_ = await cluster.send()
    assert codes(first) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.code]


async def test_topic_being_deleted_is_removed_from_the_metadata():
    cluster = await start_cluster()
    cluster.scene.context.topics_to_be_deleted.add("t")
    cluster.scene.batch.add_update_metadata_request([T0])
    await cluster.send()
    assert [cluster.brokers[broker].metadata for broker in (1, 2, 3)] == [{}, {}, {}]


async def test_channels_deliver_the_last_state_despite_lost_messages():
    cluster = await start_cluster()
    scene, losses = cluster.scene, [True, False, True, True, False] * 4

    async def lose_some(broker, request):
        await asyncio.sleep(0)
        if losses and losses.pop():
            raise ConnectionResetError(f"lost on the way to {broker}")

    cluster.brokers.on_the_way = cluster.brokers.on_the_way_back = lose_some
    all_responded = asyncio.Event()

    def on_response(response):
        if not channels.queue_size:
            all_responded.set()

    async with asyncio.TaskGroup() as tasks:
        environment = ChannelEnvironment(
            connect=cluster.brokers.connect,
            start_task=tasks.create_task,
            sleep=lambda _: asyncio.sleep(0),
            on_response=on_response,
        )
        channels = ControllerChannelManager(environment)
        for broker in scene.context.brokers.values():
            channels.add_broker(broker)
        scene.sent.send = channels.send
        await scene.replicas.handle_state_changes(
            [PartitionAndReplica(T0, 1)], ReplicaState.OFFLINE
        )
        scene.batch.send_requests_to_brokers()
        await scene.partitions.handle_state_changes([T0], PartitionState.OFFLINE)
        scene.context.shutting_down_broker_ids.add(1)
        await scene.partitions.trigger_online_partition_state_change()
        scene.batch.send_requests_to_brokers()
        await all_responded.wait()
        channels.close()
    assert cluster.brokers[2].leads == {T0}
    assert cluster.brokers[1].replicas == {}
    assert [cluster.brokers[broker].metadata[T0].leader for broker in (1, 2, 3)] == [2, 2, 2]
    assert losses == []
