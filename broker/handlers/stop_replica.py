"""StopReplica: the controller says which partitions this broker no longer serves, or deletes.

The answer comes when what was deleted is out of the way, so that a topic of the same name may be
made at once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from odradek.broker.call import Call
from odradek.broker.handlers.leader_and_isr import Fence, check_fence
from odradek.broker.replicas.partition import NO_LEADER_EPOCH
from odradek.broker.turns import FEW, Turn
from odradek.protocol.api.stop_replica import StopReplicaRequest, StopReplicaResponse
from odradek.protocol.errors import KafkaError, code_of
from odradek.protocol.types import TopicPartition


class Replicas(Protocol):
    """The part of the replica manager that this needs."""

    def stop(
        self, partition: TopicPartition, /, *, leader_epoch: int, is_deleted: bool
    ) -> None: ...

    async def delete(
        self, partitions: Iterable[TopicPartition], /
    ) -> Mapping[TopicPartition, KafkaError]: ...


@dataclass(frozen=True, slots=True)
class Stop:
    """What is to be done with one partition."""

    partition: TopicPartition
    leader_epoch: int
    is_deleted: bool


def handle(
    replicas: Replicas, fence: Fence, call: Call[StopReplicaRequest]
) -> StopReplicaResponse | Awaitable[StopReplicaResponse]:
    check_fence(fence, call.request)
    stops = list(_stops(call.request))
    if len(stops) > FEW or fence.order.locked():
        return _stop_in_turns(replicas, fence, call.request, stops)
    codes = {stop.partition: _outcome(replicas, stop) for stop in stops}
    deleted = _deleted(stops, codes)
    return _answer_when_gone(replicas, deleted, codes) if deleted else _response(codes)


async def _stop_in_turns(
    replicas: Replicas, fence: Fence, request: StopReplicaRequest, stops: Iterable[Stop]
) -> StopReplicaResponse:
    codes: dict[TopicPartition, int] = {}
    # Not while logs are deleted, for which a disk may take its time.
    async with fence.order:
        check_fence(fence, request)
        turn = Turn()
        for stop in stops:
            codes[stop.partition] = _outcome(replicas, stop)
            if turn.is_over:
                await turn.next()
                check_fence(fence, request)
    return await _answer_when_gone(replicas, _deleted(stops, codes), codes)


def _deleted(stops: Iterable[Stop], codes: Mapping[TopicPartition, int]) -> list[TopicPartition]:
    return [each.partition for each in stops if each.is_deleted and codes[each.partition] == 0]


async def _answer_when_gone(
    replicas: Replicas, deleted: Sequence[TopicPartition], codes: dict[TopicPartition, int]
) -> StopReplicaResponse:
    failures = await replicas.delete(deleted)
    return _response(codes | {partition: code_of(why) for partition, why in failures.items()})


def _response(codes: Mapping[TopicPartition, int]) -> StopReplicaResponse:
    return StopReplicaResponse(
        error_code=0,
        partition_errors=[
            StopReplicaResponse.PartitionError(
                topic_name=partition.topic, partition_index=partition.partition, error_code=code
            )
            for partition, code in codes.items()
        ],
    )


def _stops(request: StopReplicaRequest) -> Iterator[Stop]:
    is_deleted = request.delete_partitions
    for each in request.ungrouped_partitions:
        partition = TopicPartition(each.topic_name, each.partition_index)
        yield Stop(partition, NO_LEADER_EPOCH, is_deleted)
    for old in request.topics:
        for index in old.partition_indexes:
            yield Stop(TopicPartition(old.name, index), NO_LEADER_EPOCH, is_deleted)
    for topic in request.topic_states:
        for state in topic.partition_states:
            partition = TopicPartition(topic.topic_name, state.partition_index)
            yield Stop(partition, state.leader_epoch, state.delete_partition)


def _outcome(replicas: Replicas, stop: Stop) -> int:
    try:
        replicas.stop(stop.partition, leader_epoch=stop.leader_epoch, is_deleted=stop.is_deleted)
    except KafkaError as failure:
        return code_of(failure)
    return 0
