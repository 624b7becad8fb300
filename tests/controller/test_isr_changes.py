"""Tests of controller/isr_changes.py and controller/alter_partition.py, on the memory store."""

from dataclasses import replace

import pytest

from odradek.controller import alter_partition
from odradek.controller.isr_changes import UNKNOWN_BROKER_EPOCH, IsrChanges, ProposedLeaderAndIsr
from odradek.controller.leader_and_isr import LeaderIsrAndControllerEpoch
from odradek.controller.store import paths
from odradek.controller.store.payloads.notifications import IsrChange
from odradek.controller.store.payloads.topic import LeaderAndIsr
from odradek.protocol.api.alter_partition import AlterPartitionRequest
from odradek.protocol.api.update_metadata import UpdateMetadataRequest
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import KafkaError, StaleBrokerEpoch
from odradek.protocol.types import TopicPartition, Uuid
from tests.support.controller_parts import Events, machinery_of
from tests.support.controller_scene import EPOCH, controller_scene, topic_id
from tests.support.stores import MemoryStores

PROPOSAL = ProposedLeaderAndIsr(
    leader=1,
    leader_epoch=0,
    isr=(1, 2, 3),
    partition_epoch=0,
    is_recovering=False,
    supports_ineligible_replica=True,
)
T0 = TopicPartition("t", 0)


class IsrScene:
    """Partition t-0 on brokers 1, 2 and 3 with ISR 1 and 2."""

    async def begin(self, **leadership):
        self.store = await MemoryStores().open()
        self.scene = await controller_scene(self.store)
        await self.scene.add_topic("t", [1, 2, 3])
        first = LeaderIsrAndControllerEpoch(1, 0, (1, 2), controller_epoch=EPOCH, partition_epoch=0)
        await self.scene.add_leaders({T0: replace(first, **leadership)})
        self.context = self.scene.context
        self.events = Events()
        self.isr = IsrChanges(
            machinery_of(self.scene), self.events.watches.on_isr_change_notification
        )
        return self

    async def propose(self, **proposal):
        return (await self.isr.process_alter_partition({T0: replace(PROPOSAL, **proposal)}))[T0]

    async def stored(self):
        return (await self.scene.reads.get_topic_partition_states([T0]))[T0]

    def sent_isrs(self):
        self.scene.batch.send_requests_to_brokers()
        return {
            broker: [
                state.isr for topic in request.topic_states for state in topic.partition_states
            ]
            for broker, request, _ in self.scene.sent.requests
            if isinstance(request, UpdateMetadataRequest)
        }


async def test_isr_change_is_written_cached_and_sent_to_all_brokers():
    scene = await IsrScene().begin()
    expanded = LeaderIsrAndControllerEpoch(
        1, 0, (1, 2, 3), controller_epoch=EPOCH, partition_epoch=1
    )
    assert (
        await scene.propose()
        == expanded
        == await scene.stored()
        == scene.context.partition_leadership_info[T0]
    )
    assert scene.sent_isrs() == {1: [[1, 2, 3]], 2: [[1, 2, 3]], 3: [[1, 2, 3]]}


async def test_repeated_isr_change_is_confirmed_without_a_write():
    scene = await IsrScene().begin()
    await scene.propose()
    assert await scene.propose() == scene.context.partition_leadership_info[T0]
    assert (await scene.stored()).partition_epoch == 1


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"leader_epoch": 1}, ErrorCode.NOT_CONTROLLER),
        ({"partition_epoch": 1}, ErrorCode.NOT_CONTROLLER),
        ({"leader_epoch": -1}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"partition_epoch": -1}, ErrorCode.INVALID_UPDATE_VERSION),
        ({"is_recovering": True}, ErrorCode.INVALID_REQUEST),
        ({"is_recovering": True, "isr": (1,)}, ErrorCode.INVALID_REQUEST),
        ({"isr": (1, 99)}, ErrorCode.INELIGIBLE_REPLICA),
        ({"isr": (1, 99), "supports_ineligible_replica": False}, ErrorCode.OPERATION_NOT_ATTEMPTED),
        ({"isr": (2, 3)}, ErrorCode.INVALID_REQUEST),
        ({"leader": 2}, ErrorCode.INVALID_REQUEST),
        ({"isr": (1, 4)}, ErrorCode.INVALID_REQUEST),
    ],
)
async def test_invalid_isr_change_is_rejected_and_changes_nothing(changed, error):
    scene = await IsrScene().begin()
    scene.scene.add_brokers([4])
    before = await scene.stored()
    outcome = await scene.propose(**changed)
    assert isinstance(outcome, KafkaError)
    assert outcome.error_code is error
    assert await scene.stored() == before
    assert scene.sent_isrs() == {}


async def test_shutting_down_broker_is_an_ineligible_replica():
    scene = await IsrScene().begin()
    scene.context.shutting_down_broker_ids.add(3)
    assert (await scene.propose()).error_code is ErrorCode.INELIGIBLE_REPLICA


async def test_replica_with_stale_broker_epoch_is_ineligible():
    scene = await IsrScene().begin()
    current_epochs = {each: scene.context.brokers[each].epoch for each in (1, 2, 3)}
    outcome = await scene.propose(broker_epochs={**current_epochs, 3: current_epochs[3] - 1})
    assert outcome.error_code is ErrorCode.INELIGIBLE_REPLICA
    outcome = await scene.propose(broker_epochs={**current_epochs, 2: UNKNOWN_BROKER_EPOCH})
    assert outcome.isr == (1, 2, 3)


async def test_leader_can_end_its_recovery():
    scene = await IsrScene().begin(isr=(1,), is_recovering=True)
    outcome = await scene.propose(isr=(1,))
    assert not outcome.is_recovering
    assert outcome == await scene.stored()


async def test_isr_change_of_unknown_partition_is_rejected():
    scene = await IsrScene().begin()
    altered = await scene.isr.process_alter_partition({TopicPartition("t", 9): PROPOSAL})
    assert altered[TopicPartition("t", 9)].error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_newer_state_in_store_is_cached_and_the_change_rejected():
    scene = await IsrScene().begin()
    await scene.store.set(paths.partition_state(T0), LeaderAndIsr(2, 4, (2,), EPOCH).encode())
    assert (await scene.propose()).error_code is ErrorCode.INVALID_UPDATE_VERSION
    assert scene.context.partition_leadership_info[T0].leader_epoch == 4


async def test_isr_change_whose_response_was_lost_succeeds():
    scene = await IsrScene().begin()
    await scene.store.set(paths.partition_state(T0), LeaderAndIsr(1, 0, (1, 2, 3), EPOCH).encode())
    assert await scene.propose() == await scene.stored()


async def test_unknown_broker_or_stale_broker_epoch_is_rejected():
    scene = await IsrScene().begin()
    scene.isr.check_broker_epoch(1, broker_epoch=101)
    for broker, epoch in ((1, 100), (1, 102), (99, 199)):
        with pytest.raises(StaleBrokerEpoch):
            scene.isr.check_broker_epoch(broker, broker_epoch=epoch)


# Notifications


async def test_isr_change_notification_updates_cache_and_brokers():
    scene = await IsrScene().begin()
    await scene.store.set(paths.partition_state(T0), LeaderAndIsr(1, 0, (1,), EPOCH).encode())
    for partition in (T0, TopicPartition("unknown", 0)):
        value = IsrChange((partition,)).encode()
        await scene.store.create(paths.ISR_CHANGES.create_path, value, is_sequential=True)
    assert await scene.isr.process_isr_change_notification() == (T0,)
    assert scene.context.partition_leadership_info[T0].isr == (1,)
    assert scene.sent_isrs()[2] == [[1]]
    assert await scene.store.get_children(paths.ISR_CHANGES.parent) == []


async def test_old_isr_change_notifications_are_deleted_and_new_ones_watched():
    scene = await IsrScene().begin()
    value = IsrChange((T0,)).encode()
    await scene.store.create(paths.ISR_CHANGES.create_path, value, is_sequential=True)
    await scene.isr.delete_isr_change_notifications()
    assert await scene.store.get_children(paths.ISR_CHANGES.parent) == []
    assert scene.events.put
    assert scene.sent_isrs() == {}


# The request


def build_request(version, *, topic="t", requested_topic_id=None):
    proposed = AlterPartitionRequest.Topic.Partition(
        partition_index=0, leader_epoch=0, partition_epoch=0
    )
    if version >= 3:
        state = AlterPartitionRequest.Topic.Partition.BrokerState
        proposed.new_isr_with_epochs = [state(broker_id=each) for each in (1, 2, 3)]
    else:
        proposed.new_isr = [1, 2, 3]
    topic_request = AlterPartitionRequest.Topic(partitions=[proposed])
    if version >= 2:
        topic_request.topic_id = requested_topic_id or topic_id(topic)
    else:
        topic_request.topic_name = topic
    return AlterPartitionRequest(broker_id=1, broker_epoch=101, topics=[topic_request])


@pytest.mark.parametrize("version", [0, 1, 2, 3])
async def test_alter_partition_request_of_every_version_is_handled(version):
    scene = await IsrScene().begin()
    alter_request = build_request(version)
    proposals = alter_partition.parse_proposals(alter_request, version, scene.context)
    epochs = {1: -1, 2: -1, 3: -1} if version >= 3 else {}
    expected = replace(PROPOSAL, supports_ineligible_replica=version >= 2, broker_epochs=epochs)
    assert proposals == {T0: expected}
    altered = await scene.isr.process_alter_partition(proposals)
    (topic,) = alter_partition.build_response(alter_request, version, altered, scene.context).topics
    assert (topic.topic_name, topic.topic_id == topic_id("t")) == (
        "" if version >= 2 else "t",
        version >= 2,
    )
    (partition_response,) = topic.partitions
    assert (
        partition_response.error_code,
        partition_response.isr,
        partition_response.partition_epoch,
    ) == (0, [1, 2, 3], 1)


async def test_unknown_topic_id_gets_its_own_error():
    scene = await IsrScene().begin()
    unknown = Uuid(b"?" * 16)
    alter_request = build_request(3, requested_topic_id=unknown)
    assert alter_partition.parse_proposals(alter_request, 3, scene.context) == {}
    (topic,) = alter_partition.build_response(alter_request, 3, {}, scene.context).topics
    assert topic.topic_id == unknown
    assert topic.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID.code
