"""Tests of tests/support/simulated_brokers.py: brokers must refuse what Kafka's refuse."""

import asyncio

import pytest

from odradek.controller.broker_link import BrokerChannels, LinkWorld
from odradek.controller.context import Replica
from odradek.controller.partition_state import PartitionState
from odradek.controller.replica_state import ReplicaState
from odradek.controller.request_versions import LATEST, InterBrokerVersion
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.types import TopicPartition, Uuid
from tests.support.controller_scene import controller_scene
from tests.support.simulated_brokers import SimulatedBrokers
from tests.support.stores import MemoryStores

T0 = TopicPartition("t", 0)


class Told:
    """A scene whose batches go to simulated brokers, at once."""

    def __init__(self, scene, brokers):
        self.scene = scene
        self.brokers = brokers
        self.answers = []

    async def send(self):
        scene, before = self.scene, len(self.answers)
        scene.sent.requests.clear()
        scene.batch.send()
        for broker, request, version in scene.sent.requests:
            link = self.brokers.connect(scene.context.brokers[broker])
            self.answers.append(await link.send(request, version=version))
        return self.answers[before:]


async def told(spoken=LATEST):
    """One partition, on brokers 1 and 2, of which everyone has been told."""
    scene = await controller_scene(await MemoryStores().open(), spoken=spoken)
    brokers = SimulatedBrokers()
    for broker in scene.context.brokers.values():
        brokers.start(broker.id, epoch=broker.epoch)
    await scene.add_topic("t", (1, 2))
    await scene.partitions.move([T0], PartitionState.NEW)
    await scene.replicas.move(scene.context.replicas_of(T0), ReplicaState.NEW)
    await scene.partitions.move([T0], PartitionState.ONLINE)
    await scene.replicas.move(scene.context.replicas_of(T0), ReplicaState.ONLINE)
    it = Told(scene, brokers)
    assert {each.error_code for each in await it.send()} == {0}
    return it


def codes(response):
    errors = [each for topic in response.topics for each in topic.partition_errors]
    return [each.error_code for each in (*errors, *response.partition_errors)]


@pytest.mark.parametrize("spoken", ["0.8.2", "2.2", "2.6", "3.9"])
async def test_brokers_do_what_they_are_told_in_every_version(spoken):
    it = await told(InterBrokerVersion.parse(spoken))
    assert it.brokers[1].leads == {T0}
    assert it.brokers[2].replicas[T0].leader == 1
    assert [it.brokers[each].metadata[T0].leader for each in (1, 2, 3)] == [1, 1, 1]
    assert [*it.brokers[3].live_brokers] == [1, 2, 3]
    await it.scene.replicas.move([Replica(T0, 2)], ReplicaState.OFFLINE)
    await it.scene.replicas.move([Replica(T0, 2)], ReplicaState.DELETION_STARTED)
    await it.send()
    assert T0 not in it.brokers[2].replicas
    assert T0 not in it.brokers[2].logs
    assert it.brokers[1].replicas[T0].isr == [1]


async def test_a_request_for_an_earlier_registration_is_refused():
    it = await told()
    it.brokers.start(1, epoch=500)
    it.scene.batch.leader_and_isr([1], T0)
    it.scene.batch.stop_replica(Replica(T0, 1), deletes=True)
    first, metadata, *_, last = await it.send()
    stale = ErrorCode.STALE_BROKER_EPOCH.code
    assert [each.error_code for each in (first, metadata, last)] == [stale] * 3
    assert it.brokers[1].replicas == it.brokers[1].metadata == {}
    assert T0 in it.brokers[1].logs, "a log outlives its broker"


async def test_a_request_from_an_earlier_controller_is_refused():
    it = await told()
    it.scene.context.epoch -= 1
    it.scene.batch.leader_and_isr([1], T0)
    responses = await it.send()
    assert {each.error_code for each in responses} == {ErrorCode.STALE_CONTROLLER_EPOCH.code}


async def test_an_earlier_or_equal_leader_epoch_changes_nothing():
    it = await told()
    it.scene.batch.leader_and_isr([1], T0)
    first, *_ = await it.send()
    assert codes(first) == [ErrorCode.STALE_CONTROLLER_EPOCH.code]
    it.brokers[1].replicas[T0].leader_epoch = 5
    it.scene.batch.stop_replica(Replica(T0, 1), deletes=False)
    (stop,) = await it.send()
    assert stop.partition_errors[0].error_code == ErrorCode.FENCED_LEADER_EPOCH.code
    assert T0 in it.brokers[1].replicas


async def test_what_is_in_a_failed_directory_is_refused():
    it = await told()
    it.brokers[1].offline.add(T0)
    it.scene.batch.leader_and_isr([1], T0)
    it.scene.batch.stop_replica(Replica(T0, 1), deletes=True)
    first, *_, last = await it.send()
    assert codes(first) == [ErrorCode.KAFKA_STORAGE_ERROR.code]
    assert last.partition_errors[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR.code


async def test_a_replica_of_another_topic_of_that_name_is_refused():
    it = await told()
    it.scene.context.topic_ids["t"] = Uuid(b"x" * 16)
    it.scene.batch.leader_and_isr([1], T0)
    first, *_ = await it.send()
    assert codes(first) == [ErrorCode.INCONSISTENT_TOPIC_ID.code]


async def test_a_broker_without_the_replica_does_not_know_it():
    it = await told()
    it.scene.batch.leader_and_isr([3], T0)
    first, *_ = await it.send()
    assert codes(first) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.code]


async def test_a_topic_that_is_going_goes_from_every_picture():
    it = await told()
    it.scene.context.to_delete.add("t")
    it.scene.batch.update_metadata([T0])
    await it.send()
    assert [it.brokers[each].metadata for each in (1, 2, 3)] == [{}, {}, {}]


async def test_channels_bring_every_broker_the_last_picture_whatever_is_lost():
    it = await told()
    scene, losses = it.scene, [True, False, True, True, False] * 4

    async def lose(broker, request):
        await asyncio.sleep(0)
        if losses and losses.pop():
            raise ConnectionResetError(f"lost on the way to {broker}")

    it.brokers.on_the_way = it.brokers.on_the_way_back = lose
    all_answered = asyncio.Event()

    def answered(answer):
        if not channels.queued:
            all_answered.set()

    async with asyncio.TaskGroup() as tasks:
        world = LinkWorld(
            connect=it.brokers.connect,
            start_task=tasks.create_task,
            sleep=lambda _: asyncio.sleep(0),
            answered=answered,
        )
        channels = BrokerChannels(world)
        for broker in scene.context.brokers.values():
            channels.add(broker)
        scene.sent.send = channels.send
        await scene.replicas.move([Replica(T0, 1)], ReplicaState.OFFLINE)
        scene.batch.send()
        await scene.partitions.move([T0], PartitionState.OFFLINE)
        scene.context.shutting_down.add(1)
        await scene.partitions.elect_missing()
        scene.batch.send()
        await all_answered.wait()
        channels.close()
    assert it.brokers[2].leads == {T0}
    assert it.brokers[1].replicas == {}
    assert [it.brokers[each].metadata[T0].leader for each in (1, 2, 3)] == [2, 2, 2]
    assert losses == []
