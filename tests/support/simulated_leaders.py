"""Leaders that watch over who is in sync with them, and tell the controller: AlterPartition.

A follower is in sync that runs, is not slow, and was told to follow in the leader's own epoch.  As
with Kafka, a leader asks for the same again until it is answered; what is refused for good is not
asked for again before the controller says something new of the partition.

Owner: the event loop.
"""

import asyncio
from dataclasses import dataclass

from odradek.controller.store.base import SessionExpired
from odradek.protocol.api.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from odradek.protocol.api.leader_and_isr import LeaderAndIsrPartitionState
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import NotController, StaleBrokerEpoch
from odradek.protocol.types import TopicPartition, Uuid
from tests.support.simulated_brokers import SimulatedBroker
from tests.support.simulated_cluster import LOST, SimulatedCluster

VERSION = 3
LOOK_EVERY_S = 0.05
#: The leader may ask for something else instead.
TAKEN_BACK = {ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA}
#: It asks for nothing more in this epoch.
FINAL = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.INVALID_REQUEST,
}
Asked = AlterPartitionRequest.Topic.Partition
Answered = AlterPartitionResponse.Topic.Partition


@dataclass
class Asking:
    """What a leader wants of a partition, in the state that it was told of last."""

    state: LeaderAndIsrPartitionState
    isr: list[int]
    is_under_way: bool = False
    is_over: bool = False


class SimulatedLeaders:
    """Of all brokers; ``slow`` ones never follow fast enough."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self.slow: set[int] = set()
        self._asking: dict[tuple[int, TopicPartition], Asking] = {}

    async def watch(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            for broker in self._cluster.brokers.running.values():
                for partition in sorted(broker.leads):
                    self._look(broker, partition)

    def _look(self, broker: SimulatedBroker, partition: TopicPartition) -> None:
        state, key = broker.replicas[partition], (broker.id, partition)
        asking = self._asking.get(key)
        if asking is None or asking.state is not state:
            isr = self._in_sync(broker, partition, state)
            if isr == state.isr and not state.leader_recovery_state:
                return
            asking = self._asking[key] = Asking(state, isr)
        if not (asking.is_under_way or asking.is_over):
            asking.is_under_way = True
            self._cluster.start_task(self._ask(broker, partition, asking), name="a leader asks")

    def _in_sync(
        self, broker: SimulatedBroker, partition: TopicPartition, state: LeaderAndIsrPartitionState
    ) -> list[int]:
        """In the order of the assignment."""
        running = self._cluster.brokers.running
        return [
            each
            for each in state.replicas
            if each == broker.id
            or (
                each in running
                and each not in self.slow
                and running[each].leader_epoch(partition) == state.leader_epoch
            )
        ]

    async def _ask(
        self, broker: SimulatedBroker, partition: TopicPartition, asking: Asking
    ) -> None:
        weather = self._cluster.weather
        await asyncio.sleep(weather.delay_s())
        answer = await self._answered(broker, partition, asking)
        await asyncio.sleep(weather.delay_s())
        asking.is_under_way = False
        if answer is None or weather.happens(LOST):
            return
        code = ErrorCode.for_code(answer.error_code)
        asking.is_over = code in FINAL
        if code in TAKEN_BACK:
            self._forget(broker, partition, asking)
        elif code is ErrorCode.NONE:
            asking.state.isr, asking.state.partition_epoch = answer.isr, answer.partition_epoch
            asking.state.leader_recovery_state = answer.leader_recovery_state
            self._forget(broker, partition, asking)

    def _forget(self, broker: SimulatedBroker, partition: TopicPartition, asking: Asking) -> None:
        if self._asking.get((broker.id, partition)) is asking:
            del self._asking[broker.id, partition]

    async def _answered(
        self, broker: SimulatedBroker, partition: TopicPartition, asking: Asking
    ) -> Answered | None:
        """None if there was no answer that says anything of the partition."""
        cluster = self._cluster
        is_running = cluster.brokers.running.get(broker.id) is broker
        if not is_running or not cluster.active or partition not in broker.logs:
            return None
        controller = cluster.controllers[cluster.weather.one_of(cluster.active)]
        epoch = cluster.controllers[broker.id].broker_epoch
        request = _request(broker, epoch, partition, asking)
        try:
            answer = await controller.alter_partition(request, version=VERSION)
        except (NotController, StaleBrokerEpoch, SessionExpired):
            return None
        (topic,) = answer.topics
        (altered,) = topic.partitions
        return altered


def _request(
    broker: SimulatedBroker, broker_epoch: int, partition: TopicPartition, asking: Asking
) -> AlterPartitionRequest:
    topic_id, state = broker.logs[partition], asking.state
    assert isinstance(topic_id, Uuid)
    asked = Asked(
        partition_index=partition.partition,
        leader_epoch=state.leader_epoch,
        new_isr_with_epochs=[Asked.BrokerState(broker_id=each) for each in asking.isr],
        partition_epoch=state.partition_epoch,
    )
    topic = AlterPartitionRequest.Topic(topic_id=topic_id, partitions=[asked])
    return AlterPartitionRequest(broker_id=broker.id, broker_epoch=broker_epoch, topics=[topic])
