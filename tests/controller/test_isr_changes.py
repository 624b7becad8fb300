"""Tests of controller/isr.py and controller/alter_partition.py, on the memory store."""

from dataclasses import replace

import pytest

from odradek.controller import alter_partition
from odradek.controller.isr import UNKNOWN_EPOCH, InSyncReplicas, Proposal
from odradek.controller.leadership import Leadership
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

ASKED = Proposal(
    leader=1,
    leader_epoch=0,
    isr=(1, 2, 3),
    partition_epoch=0,
    is_recovering=False,
    knows_ineligible=True,
)
T0 = TopicPartition("t", 0)


class Led:
    """Partition t-0 on brokers 1, 2, 3, of which 3 is not in sync."""

    async def begin(self, **leadership):
        self.store = await MemoryStores().open()
        self.scene = await controller_scene(self.store)
        await self.scene.add_topic("t", [1, 2, 3])
        first = Leadership(1, 0, (1, 2), controller_epoch=EPOCH, partition_epoch=0)
        await self.scene.add_leaders({T0: replace(first, **leadership)})
        self.context = self.scene.context
        self.events = Events()
        self.isr = InSyncReplicas(machinery_of(self.scene), self.events.watches.isr_changes)
        return self

    async def outcome(self, **proposal):
        return (await self.isr.alter({T0: replace(ASKED, **proposal)}))[T0]

    async def stored(self):
        return (await self.scene.reads.leaderships([T0]))[T0]

    def told(self):
        self.scene.batch.send()
        return {
            broker: [
                state.isr for topic in request.topic_states for state in topic.partition_states
            ]
            for broker, request, _ in self.scene.sent.requests
            if isinstance(request, UpdateMetadataRequest)
        }


async def test_a_change_is_written_noted_and_told_to_all():
    led = await Led().begin()
    grown = Leadership(1, 0, (1, 2, 3), controller_epoch=EPOCH, partition_epoch=1)
    assert await led.outcome() == grown == await led.stored() == led.context.leaderships[T0]
    assert led.told() == {1: [[1, 2, 3]], 2: [[1, 2, 3]], 3: [[1, 2, 3]]}


async def test_what_is_so_already_is_answered_and_not_written():
    led = await Led().begin()
    await led.outcome()
    assert await led.outcome() == led.context.leaderships[T0]
    assert (await led.stored()).partition_epoch == 1


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
        ({"isr": (1, 99), "knows_ineligible": False}, ErrorCode.OPERATION_NOT_ATTEMPTED),
        ({"isr": (2, 3)}, ErrorCode.INVALID_REQUEST),
        ({"leader": 2}, ErrorCode.INVALID_REQUEST),
        ({"isr": (1, 4)}, ErrorCode.INVALID_REQUEST),
    ],
)
async def test_a_mistake_is_refused_and_changes_nothing(changed, error):
    led = await Led().begin()
    led.scene.add_brokers([4])
    before = await led.stored()
    outcome = await led.outcome(**changed)
    assert isinstance(outcome, KafkaError)
    assert outcome.error is error
    assert await led.stored() == before
    assert led.told() == {}


async def test_a_broker_about_to_stop_is_not_eligible():
    led = await Led().begin()
    led.context.shutting_down.add(3)
    assert (await led.outcome()).error is ErrorCode.INELIGIBLE_REPLICA


async def test_a_replica_that_has_started_again_is_not_eligible_for_what_it_had_before():
    led = await Led().begin()
    of_now = {each: led.context.brokers[each].epoch for each in (1, 2, 3)}
    outcome = await led.outcome(broker_epochs={**of_now, 3: of_now[3] - 1})
    assert outcome.error is ErrorCode.INELIGIBLE_REPLICA
    outcome = await led.outcome(broker_epochs={**of_now, 2: UNKNOWN_EPOCH})
    assert outcome.isr == (1, 2, 3)


async def test_a_leader_that_has_recovered_says_so():
    led = await Led().begin(isr=(1,), is_recovering=True)
    outcome = await led.outcome(isr=(1,))
    assert not outcome.is_recovering
    assert outcome == await led.stored()


async def test_a_partition_without_leader_is_unknown():
    led = await Led().begin()
    altered = await led.isr.alter({TopicPartition("t", 9): ASKED})
    assert altered[TopicPartition("t", 9)].error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_what_the_store_has_newer_is_learnt_and_the_change_refused():
    led = await Led().begin()
    await led.store.set(paths.partition_state(T0), LeaderAndIsr(2, 4, (2,), EPOCH).encode())
    assert (await led.outcome()).error is ErrorCode.INVALID_UPDATE_VERSION
    assert led.context.leaderships[T0].leader_epoch == 4


async def test_a_change_whose_answer_was_lost_is_done():
    led = await Led().begin()
    await led.store.set(paths.partition_state(T0), LeaderAndIsr(1, 0, (1, 2, 3), EPOCH).encode())
    assert await led.outcome() == await led.stored()


async def test_only_a_registered_broker_in_its_epoch_may_ask():
    led = await Led().begin()
    led.isr.check_broker(1, broker_epoch=101)
    for broker, epoch in ((1, 100), (1, 102), (99, 199)):
        with pytest.raises(StaleBrokerEpoch):
            led.isr.check_broker(broker, broker_epoch=epoch)


# Notifications


async def test_what_brokers_wrote_themselves_is_learnt_and_told():
    led = await Led().begin()
    await led.store.set(paths.partition_state(T0), LeaderAndIsr(1, 0, (1,), EPOCH).encode())
    for partition in (T0, TopicPartition("unknown", 0)):
        value = IsrChange((partition,)).encode()
        await led.store.create(paths.ISR_CHANGES.new, value, is_sequential=True)
    assert await led.isr.look() == (T0,)
    assert led.context.leaderships[T0].isr == (1,)
    assert led.told()[2] == [[1]]
    assert await led.store.children(paths.ISR_CHANGES.parent) == []


async def test_notifications_of_before_are_forgotten_and_new_ones_noticed():
    led = await Led().begin()
    value = IsrChange((T0,)).encode()
    await led.store.create(paths.ISR_CHANGES.new, value, is_sequential=True)
    await led.isr.forget_notifications()
    assert await led.store.children(paths.ISR_CHANGES.parent) == []
    assert led.events.put
    assert led.told() == {}


# The request


def request(version, *, topic="t", given_id=None):
    asked = AlterPartitionRequest.Topic.Partition(
        partition_index=0, leader_epoch=0, partition_epoch=0
    )
    if version >= 3:
        state = AlterPartitionRequest.Topic.Partition.BrokerState
        asked.new_isr_with_epochs = [state(broker_id=each) for each in (1, 2, 3)]
    else:
        asked.new_isr = [1, 2, 3]
    named = AlterPartitionRequest.Topic(partitions=[asked])
    if version >= 2:
        named.topic_id = given_id or topic_id(topic)
    else:
        named.topic_name = topic
    return AlterPartitionRequest(broker_id=1, broker_epoch=101, topics=[named])


@pytest.mark.parametrize("version", [0, 1, 2, 3])
async def test_a_request_of_any_version_is_understood_and_answered(version):
    led = await Led().begin()
    asked = request(version)
    proposals = alter_partition.proposals(asked, version, led.context)
    epochs = {1: -1, 2: -1, 3: -1} if version >= 3 else {}
    expected = replace(ASKED, knows_ineligible=version >= 2, broker_epochs=epochs)
    assert proposals == {T0: expected}
    altered = await led.isr.alter(proposals)
    (topic,) = alter_partition.response(asked, version, altered, led.context).topics
    assert (topic.topic_name, topic.topic_id == topic_id("t")) == (
        "" if version >= 2 else "t",
        version >= 2,
    )
    (answer,) = topic.partitions
    assert (answer.error_code, answer.isr, answer.partition_epoch) == (0, [1, 2, 3], 1)


async def test_an_unknown_topic_id_is_answered_by_itself():
    led = await Led().begin()
    unknown = Uuid(b"?" * 16)
    asked = request(3, given_id=unknown)
    assert alter_partition.proposals(asked, 3, led.context) == {}
    (topic,) = alter_partition.response(asked, 3, {}, led.context).topics
    assert topic.topic_id == unknown
    assert topic.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID.code
