"""StopReplica: the controller says which partitions this broker no longer serves, or deletes.

The response is sent when the deleted logs are out of the way.  A topic of the same name can then be
created at once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from odradek.broker.handlers.leader_and_isr import Fence, check_epochs
from odradek.broker.replicas.partition import NO_LEADER_EPOCH
from odradek.broker.request import Request
from odradek.broker.time_slice import INLINE_ENTRIES_MAX, TimeSlice
from odradek.protocol.api.stop_replica import StopReplicaRequest, StopReplicaResponse
from odradek.protocol.errors import KafkaError, code_of
from odradek.protocol.types import TopicPartition


class HostedPartitions(Protocol):
    """The part of the replica manager that this handler needs."""

    def stop(
        self, partition: TopicPartition, /, *, leader_epoch: int, is_deleted: bool
    ) -> None: ...

    async def delete(
        self, partitions: Iterable[TopicPartition], /
    ) -> Mapping[TopicPartition, KafkaError]: ...


@dataclass(frozen=True, slots=True)
class StopPartition:
    """A partition to stop, and whether to delete it."""

    partition: TopicPartition
    leader_epoch: int
    delete_partition: bool


def handle(
    replica_manager: HostedPartitions, controller_fence: Fence, request: Request[StopReplicaRequest]
) -> StopReplicaResponse | Awaitable[StopReplicaResponse]:
    check_epochs(controller_fence, request.body)
    stops = list(_partitions_to_stop(request.body))
    if len(stops) > INLINE_ENTRIES_MAX or controller_fence.state_change_lock.locked():
        return _stop_sliced(replica_manager, controller_fence, request.body, stops)
    codes = {stop.partition: _stop(replica_manager, stop) for stop in stops}
    deleted = _partitions_to_delete(stops, codes)
    return (
        _respond_when_deleted(replica_manager, deleted, codes)
        if deleted
        else _build_response(codes)
    )


async def _stop_sliced(
    replica_manager: HostedPartitions,
    controller_fence: Fence,
    body: StopReplicaRequest,
    stop_partitions: Iterable[StopPartition],
) -> StopReplicaResponse:
    codes: dict[TopicPartition, int] = {}
    # The lock is not held while logs are deleted, because a disk may be slow.
    async with controller_fence.state_change_lock:
        check_epochs(controller_fence, body)
        time_slice = TimeSlice()
        for stop in stop_partitions:
            codes[stop.partition] = _stop(replica_manager, stop)
            if time_slice.is_used_up:
                await time_slice.yield_to_loop()
                check_epochs(controller_fence, body)
    return await _respond_when_deleted(
        replica_manager, _partitions_to_delete(stop_partitions, codes), codes
    )


def _partitions_to_delete(
    stop_partitions: Iterable[StopPartition], error_codes: Mapping[TopicPartition, int]
) -> list[TopicPartition]:
    return [
        each.partition
        for each in stop_partitions
        if each.delete_partition and error_codes[each.partition] == 0
    ]


async def _respond_when_deleted(
    replica_manager: HostedPartitions,
    partitions: Sequence[TopicPartition],
    error_codes: dict[TopicPartition, int],
) -> StopReplicaResponse:
    errors = await replica_manager.delete(partitions)
    return _build_response(
        error_codes | {partition: code_of(error) for partition, error in errors.items()}
    )


def _build_response(error_codes: Mapping[TopicPartition, int]) -> StopReplicaResponse:
    return StopReplicaResponse(
        error_code=0,
        partition_errors=[
            StopReplicaResponse.PartitionError(
                topic_name=partition.topic, partition_index=partition.partition, error_code=code
            )
            for partition, code in error_codes.items()
        ],
    )


def _partitions_to_stop(body: StopReplicaRequest) -> Iterator[StopPartition]:
    is_deleted = body.delete_partitions
    for each in body.ungrouped_partitions:
        partition = TopicPartition(each.topic_name, each.partition_index)
        yield StopPartition(partition, NO_LEADER_EPOCH, is_deleted)
    for old in body.topics:
        for index in old.partition_indexes:
            yield StopPartition(TopicPartition(old.name, index), NO_LEADER_EPOCH, is_deleted)
    for topic in body.topic_states:
        for state in topic.partition_states:
            partition = TopicPartition(topic.topic_name, state.partition_index)
            yield StopPartition(partition, state.leader_epoch, state.delete_partition)


def _stop(replica_manager: HostedPartitions, stop_partition: StopPartition) -> int:
    try:
        replica_manager.stop(
            stop_partition.partition,
            leader_epoch=stop_partition.leader_epoch,
            is_deleted=stop_partition.delete_partition,
        )
    except KafkaError as error:
        return code_of(error)
    return 0
