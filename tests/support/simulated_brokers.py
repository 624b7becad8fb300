"""Brokers without a network: what the controller tells them, and what they make of it.

A broker applies LeaderAndIsr, UpdateMetadata and StopReplica to a picture in memory with the checks
that Kafka's has: requests for an earlier registration, from an earlier controller or of an earlier
leader epoch are refused.  ``logs`` is what it has on disk, which a restart leaves; all else is gone
with it.

    brokers = SimulatedBrokers()
    brokers.start(1, epoch=42)              its epoch is the zxid of its node in the store
    world = LinkWorld(connect=brokers.connect, ...)

What befalls a request on its way, and an answer on its way back, is for the test to say:
``on_the_way`` and ``on_the_way_back`` are awaited with the broker's id and the request.  They may
wait, and raise OSError if it is lost.  Every request is encoded and decoded in the version it is
sent in.

Owner: the event loop.
"""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field

from odradek.controller.controller_channel import BrokerConnection, ControlRequest, ControlResponse
from odradek.controller.controller_context import NO_EPOCH, Broker
from odradek.controller.leader_and_isr import EPOCH_DURING_DELETE, LEADER_DURING_DELETE
from odradek.protocol.api.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
)
from odradek.protocol.api.stop_replica import StopReplicaRequest, StopReplicaResponse
from odradek.protocol.api.update_metadata import (
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from odradek.protocol.codec import decode, encode_bytes
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.types import ZERO_UUID, TopicPartition, Uuid

#: The version of LeaderAndIsr from which on its answer names topics by their ids.
ANSWERED_BY_TOPIC_ID = 5

Hook = Callable[[int, ControlRequest], Awaitable[None]]
Codes = dict[TopicPartition, ErrorCode]


@dataclass
class SimulatedBroker:
    """One broker in one registration."""

    id: int
    epoch: int
    #: The topic's id by partition; what is there when the broker starts again.
    logs: dict[TopicPartition, Uuid] = field(default_factory=dict)
    #: Partitions in a log directory that has failed.
    offline: set[TopicPartition] = field(default_factory=set)
    controller_epoch: int = 0
    replicas: dict[TopicPartition, LeaderAndIsrPartitionState] = field(default_factory=dict)
    metadata: dict[TopicPartition, UpdateMetadataPartitionState] = field(default_factory=dict)
    live_brokers: dict[int, UpdateMetadataRequest.LiveBroker] = field(default_factory=dict)
    #: Everything that was asked of it, in order.
    requests: list[ControlRequest] = field(default_factory=list)

    @property
    def leads(self) -> set[TopicPartition]:
        return {each for each, state in self.replicas.items() if state.leader == self.id}

    def leader_epoch(self, partition: TopicPartition) -> int:
        state = self.replicas.get(partition)
        return NO_EPOCH if state is None else state.leader_epoch

    def answer(self, request: ControlRequest, *, version: int) -> ControlResponse:
        self.requests.append(request)
        refusal = self._refusal(request)
        if refusal is None:
            self.controller_epoch = request.controller_epoch
        match request:
            case LeaderAndIsrRequest():
                return self._led(request, refusal, version)
            case UpdateMetadataRequest():
                return self._informed(request, refusal)
            case StopReplicaRequest():
                return self._stopped(request, refusal)

    def _refusal(self, request: ControlRequest) -> ErrorCode | None:
        if NO_EPOCH < request.broker_epoch < self.epoch:
            return ErrorCode.STALE_BROKER_EPOCH
        if request.controller_epoch < self.controller_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        return None

    # LeaderAndIsr

    def _led(
        self, request: LeaderAndIsrRequest, refusal: ErrorCode | None, version: int
    ) -> LeaderAndIsrResponse:
        response = LeaderAndIsrResponse(error_code=(refusal or ErrorCode.NONE).code)
        if refusal is not None:
            return response
        flat = [self._lead(each, ZERO_UUID) for each in request.ungrouped_partition_states]
        for topic in request.topic_states:
            for state in topic.partition_states:
                state.topic_name = topic.topic_name
            errors = [self._lead(each, topic.topic_id) for each in topic.partition_states]
            flat += errors
            response.topics.append(
                LeaderAndIsrResponse.Topic(topic_id=topic.topic_id, partition_errors=errors)
            )
        if version < ANSWERED_BY_TOPIC_ID:
            response.topics, response.partition_errors = [], flat
        return response

    def _lead(
        self, state: LeaderAndIsrPartitionState, topic_id: Uuid
    ) -> LeaderAndIsrPartitionError:
        partition = TopicPartition(state.topic_name, state.partition_index)
        code = self._check_led(partition, state, topic_id)
        if code is ErrorCode.NONE:
            self.replicas[partition] = state
            if topic_id != ZERO_UUID or partition not in self.logs:
                self.logs[partition] = topic_id
        return LeaderAndIsrPartitionError(
            topic_name=partition.topic, partition_index=partition.partition, error_code=code.code
        )

    def _check_led(
        self, partition: TopicPartition, state: LeaderAndIsrPartitionState, topic_id: Uuid
    ) -> ErrorCode:
        if partition in self.offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        known_id = self.logs.get(partition, ZERO_UUID)
        if ZERO_UUID not in (topic_id, known_id) and topic_id != known_id:
            return ErrorCode.INCONSISTENT_TOPIC_ID
        if state.leader_epoch <= self.leader_epoch(partition):
            return ErrorCode.STALE_CONTROLLER_EPOCH
        if self.id not in state.replicas:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.NONE

    # UpdateMetadata

    def _informed(
        self, request: UpdateMetadataRequest, refusal: ErrorCode | None
    ) -> UpdateMetadataResponse:
        if refusal is None:
            self.live_brokers = {each.id: each for each in request.live_brokers}
            for partition, state in _metadata_states(request):
                if state.leader == LEADER_DURING_DELETE:
                    self.metadata.pop(partition, None)
                else:
                    self.metadata[partition] = state
        return UpdateMetadataResponse(error_code=(refusal or ErrorCode.NONE).code)

    # StopReplica

    def _stopped(
        self, request: StopReplicaRequest, refusal: ErrorCode | None
    ) -> StopReplicaResponse:
        codes: Codes = {}
        if refusal is None:
            for partition, leader_epoch, deletes in _stops(request):
                codes[partition] = self._stop(partition, leader_epoch, deletes=deletes)
        return StopReplicaResponse(
            error_code=(refusal or ErrorCode.NONE).code,
            partition_errors=[
                StopReplicaResponse.PartitionError(
                    topic_name=each.topic, partition_index=each.partition, error_code=code.code
                )
                for each, code in codes.items()
            ],
        )

    def _stop(self, partition: TopicPartition, leader_epoch: int, *, deletes: bool) -> ErrorCode:
        if partition in self.offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        is_checked = leader_epoch not in (NO_EPOCH, EPOCH_DURING_DELETE)
        if is_checked and leader_epoch < self.leader_epoch(partition):
            return ErrorCode.FENCED_LEADER_EPOCH
        self.replicas.pop(partition, None)
        if deletes:
            self.logs.pop(partition, None)
        return ErrorCode.NONE


def _metadata_states(
    request: UpdateMetadataRequest,
) -> Iterator[tuple[TopicPartition, UpdateMetadataPartitionState]]:
    for state in request.ungrouped_partition_states:
        yield TopicPartition(state.topic_name, state.partition_index), state
    for topic in request.topic_states:
        for state in topic.partition_states:
            yield TopicPartition(topic.topic_name, state.partition_index), state


def _stops(request: StopReplicaRequest) -> Iterator[tuple[TopicPartition, int, bool]]:
    deletes = request.delete_partitions
    for each in request.ungrouped_partitions:
        yield TopicPartition(each.topic_name, each.partition_index), NO_EPOCH, deletes
    for group in request.topics:
        for number in group.partition_indexes:
            yield TopicPartition(group.name, number), NO_EPOCH, deletes
    for topic in request.topic_states:
        for state in topic.partition_states:
            partition = TopicPartition(topic.topic_name, state.partition_index)
            yield partition, state.leader_epoch, state.delete_partition


async def _nothing_happens(broker: int, request: ControlRequest) -> None:
    pass


class SimulatedBrokers:
    """All brokers that run, by id, and the way to them."""

    def __init__(self) -> None:
        self.running: dict[int, SimulatedBroker] = {}
        self.on_the_way: Hook = _nothing_happens
        self.on_the_way_back: Hook = _nothing_happens
        self._logs: dict[int, dict[TopicPartition, Uuid]] = {}

    def __getitem__(self, broker: int) -> SimulatedBroker:
        return self.running[broker]

    def start(self, broker: int, *, epoch: int) -> SimulatedBroker:
        """Also in place of one that runs, as if that had stopped."""
        self.running[broker] = SimulatedBroker(broker, epoch, self.logs_of(broker))
        return self.running[broker]

    def logs_of(self, broker: int) -> dict[TopicPartition, Uuid]:
        """Also of one that does not run."""
        return self._logs.setdefault(broker, {})

    def all_logs(self) -> list[dict[TopicPartition, Uuid]]:
        return [*self._logs.values()]

    def stop(self, broker: int) -> None:
        del self.running[broker]

    def connect(self, broker: Broker) -> BrokerConnection:
        return _Link(self, broker.id)


class _Link:
    def __init__(self, brokers: SimulatedBrokers, broker: int) -> None:
        self._brokers = brokers
        self._broker = broker

    async def send(self, request: ControlRequest, *, version: int) -> ControlResponse:
        await self._brokers.on_the_way(self._broker, request)
        broker = self._brokers.running.get(self._broker)
        if broker is None:
            raise ConnectionRefusedError(f"broker {self._broker} does not run")
        received = decode(type(request), version, encode_bytes(request, version))
        response = broker.answer(received, version=version)
        response = decode(type(response), version, encode_bytes(response, version))
        await self._brokers.on_the_way_back(self._broker, request)
        return response

    def close(self) -> None:
        """There is nothing to let go of."""
