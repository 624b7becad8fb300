"""DeleteRecords: delete the oldest records of partitions by incrementing the log start offset.

Each partition succeeds or fails independently.  The response waits until all live replicas have
reached the new log start offset, or until the timeout expires.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from odradek.broker.metadata.internal_topics import INTERNAL_TOPICS
from odradek.broker.replicas.delayed_delete_records import DelayedDeleteRecords
from odradek.broker.replicas.partition import Partition
from odradek.broker.request import DelayedOperation, Request
from odradek.broker.time_slice import INLINE_ENTRIES_MAX, TimeSlice
from odradek.protocol.api.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from odradek.protocol.errors import InvalidTopic, KafkaError, UnknownTopicOrPartition, code_of
from odradek.protocol.types import TopicPartition
from odradek.storage.manager.hosted_log import HostedLog

INVALID_LOW_WATERMARK = -1

PartitionRequest = DeleteRecordsRequest.Topic.Partition
Topic = DeleteRecordsResponse.Topic
PartitionResponse = Topic.Partition


class HostedPartitions(Protocol):
    """The part of the replica manager that this handler needs."""

    def partition(self, topic: str, index: int, /) -> Partition: ...


class FutureLogs(Protocol):
    """The future logs: copies of logs that move to another log directory."""

    def find_future(self, partition: TopicPartition, /) -> HostedLog | None: ...


class ClusterMetadata(Protocol):
    """The part of the metadata cache that this handler needs."""

    def has_partition(self, topic: str, partition: int, /) -> bool: ...

    def is_alive(self, broker_id: int, /) -> bool: ...


@dataclass(slots=True)
class DeleteRecordsPartitionStatus:
    """The result of one partition; updated while the request waits."""

    index: int
    deletion: DelayedDeleteRecords | None = None
    error: KafkaError | None = None


HandlerResult = DeleteRecordsResponse | Awaitable[DeleteRecordsResponse]
#: One list per topic, in the order of the request.
PartitionStatuses = list[list[DeleteRecordsPartitionStatus]]


def handle(
    replica_manager: HostedPartitions,
    future_logs: FutureLogs,
    metadata_cache: ClusterMetadata,
    request: Request[DeleteRecordsRequest],
) -> HandlerResult | Awaitable[HandlerResult]:
    body = request.body
    deleter = RecordsDeleter(replica_manager, future_logs, metadata_cache)
    if sum(len(topic.partitions) for topic in body.topics) > INLINE_ENTRIES_MAX:
        return _delete_sliced(deleter, body)
    return _respond(body, [list(deleter.delete(topic)) for topic in body.topics])


async def _delete_sliced(deleter: RecordsDeleter, body: DeleteRecordsRequest) -> HandlerResult:
    time_slice = TimeSlice()
    statuses = [await time_slice.collect(deleter.delete(topic)) for topic in body.topics]
    return _respond(body, statuses)


def _respond(body: DeleteRecordsRequest, statuses: PartitionStatuses) -> HandlerResult:
    pending = [
        status
        for topic_statuses in statuses
        for status in topic_statuses
        if status.deletion is not None and not status.deletion.is_done()
    ]
    if pending:
        return DelayedOperation(partial(_respond_when_deleted, body, statuses, pending))
    return _build_response(body, statuses)


class RecordsDeleter:
    """Increments the log start offset of partitions that this broker leads."""

    def __init__(
        self,
        replica_manager: HostedPartitions,
        future_logs: FutureLogs,
        metadata_cache: ClusterMetadata,
    ) -> None:
        self._replica_manager = replica_manager
        self._future_logs = future_logs
        self._metadata_cache = metadata_cache

    def delete(self, topic: DeleteRecordsRequest.Topic) -> Iterator[DeleteRecordsPartitionStatus]:
        return (
            self._delete_from_partition(topic.name, partition_request)
            for partition_request in topic.partitions
        )

    def _delete_from_partition(
        self, topic: str, partition_request: PartitionRequest
    ) -> DeleteRecordsPartitionStatus:
        index = partition_request.partition_index
        try:
            if not self._metadata_cache.has_partition(topic, index):
                raise UnknownTopicOrPartition(f"unknown partition {topic}-{index}")
            if topic in INTERNAL_TOPICS:
                raise InvalidTopic(f"Cannot delete records of internal topic {topic}")
            deletion = DelayedDeleteRecords(
                self._replica_manager.partition(topic, index),
                partition_request.offset,
                is_alive=self._metadata_cache.is_alive,
                future_log=partial(self._future_logs.find_future, TopicPartition(topic, index)),
            )
        except KafkaError as error:
            return DeleteRecordsPartitionStatus(index, error=error)
        return DeleteRecordsPartitionStatus(index, deletion)


async def _respond_when_deleted(
    body: DeleteRecordsRequest,
    statuses: PartitionStatuses,
    pending: list[DeleteRecordsPartitionStatus],
) -> DeleteRecordsResponse:
    """Wait for the partitions one after the other, with a common deadline."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + body.timeout_ms / 1000
    for status in pending:
        assert status.deletion is not None, status
        try:
            await status.deletion.wait_until_done(max(0.0, deadline - loop.time()))
        except KafkaError as error:
            status.error = error
    return _build_response(body, statuses)


def _build_response(
    body: DeleteRecordsRequest, statuses: PartitionStatuses
) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        throttle_time_ms=0,
        topics=[
            Topic(
                name=topic.name,
                partitions=[_partition_response(status) for status in topic_statuses],
            )
            for topic, topic_statuses in zip(body.topics, statuses, strict=True)
        ],
    )


def _partition_response(status: DeleteRecordsPartitionStatus) -> PartitionResponse:
    error, low_watermark = status.error, INVALID_LOW_WATERMARK
    try:
        if status.deletion is not None:
            low_watermark = status.deletion.low_watermark()
    except KafkaError as raised:
        error = error or raised
    return PartitionResponse(
        partition_index=status.index, low_watermark=low_watermark, error_code=code_of(error)
    )


def error_response(
    request: Request[DeleteRecordsRequest], error: KafkaError
) -> DeleteRecordsResponse:
    statuses = [
        [
            DeleteRecordsPartitionStatus(partition_request.partition_index, error=error)
            for partition_request in topic.partitions
        ]
        for topic in request.body.topics
    ]
    return _build_response(request.body, statuses)
