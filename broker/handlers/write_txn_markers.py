"""WriteTxnMarkers: coordinators end their transactions in the partitions that this broker leads.

Each partition appends a control batch for each marker, or rejects it individually.  The response
waits until all in-sync replicas have the markers.  In ``__consumer_offsets`` a marker also
completes the pending offsets of groups, as soon as the marker is in the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from typing import NamedTuple, Protocol

from odradek.broker.metadata.internal_topics import CONSUMER_OFFSETS
from odradek.broker.replicas.partition import ACKS_ALL, Partition
from odradek.broker.request import DelayedOperation, Request
from odradek.broker.time_slice import INLINE_ENTRIES_MAX, TimeSlice
from odradek.protocol.api.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from odradek.protocol.errors import KafkaError, UnknownTopicOrPartition, code_of
from odradek.protocol.records.control_records import EndTransactionMarker, build_marker_batch
from odradek.protocol.types import TopicPartition, group_by_topic
from odradek.storage.producer_state.producer_state_entry import AppendOrigin
from odradek.storage.unified_log import LogAppendInfo

Marker = WriteTxnMarkersRequest.Marker
MarkerResult = WriteTxnMarkersResponse.Marker
Response = WriteTxnMarkersResponse


class HostedPartitions(Protocol):
    """The part of the replica manager that this handler needs."""

    def partition(self, topic: str, index: int, /) -> Partition: ...


class PendingOffsets(Protocol):
    """The pending offsets of groups in transactions."""

    def on_transaction_completed(
        self, partition_index: int, producer_id: int, /, *, is_commit: bool
    ) -> None: ...


class TxnMarkerContext(NamedTuple):
    """The dependencies of the handler besides the replica manager."""

    groups: PendingOffsets
    now_ms: Callable[[], int]
    #: How long replication may take.
    timeout_ms: int


#: By producer id and partition.  The last marker of a producer for a partition counts.
MarkerErrorCodes = dict[int, dict[TopicPartition, int]]


class UnreplicatedMarker(NamedTuple):
    """A marker in the log of the leader that may not be replicated yet."""

    error_codes: dict[TopicPartition, int]
    partition: Partition
    append_info: LogAppendInfo


def handle(
    replica_manager: HostedPartitions,
    marker_context: TxnMarkerContext,
    request: Request[WriteTxnMarkersRequest],
) -> Response | Awaitable[Response | DelayedOperation[Response]]:
    markers = request.body.markers
    error_codes: MarkerErrorCodes = {}
    writes = _write_markers(replica_manager, marker_context, markers, error_codes)
    count = sum(len(topic.partition_indexes) for each in markers for topic in each.topics)
    if count > INLINE_ENTRIES_MAX:
        return _write_sliced(writes, marker_context, error_codes)
    return _respond([each for each in writes if each is not None], marker_context, error_codes)


async def _write_sliced(
    writes: Iterator[UnreplicatedMarker | None],
    marker_context: TxnMarkerContext,
    error_codes: MarkerErrorCodes,
) -> Response | DelayedOperation[Response]:
    results = await TimeSlice().collect(writes)
    return _respond([each for each in results if each is not None], marker_context, error_codes)


def _respond(
    unreplicated: list[UnreplicatedMarker],
    marker_context: TxnMarkerContext,
    error_codes: MarkerErrorCodes,
) -> Response | DelayedOperation[Response]:
    if unreplicated:
        return DelayedOperation(
            partial(_respond_when_replicated, unreplicated, marker_context, error_codes),
            completes_on_shutdown=True,
        )
    return _build_response(error_codes)


async def _respond_when_replicated(
    unreplicated: list[UnreplicatedMarker],
    marker_context: TxnMarkerContext,
    error_codes: MarkerErrorCodes,
) -> Response:
    """Wait for the markers one after the other, with a common deadline."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + marker_context.timeout_ms / 1000
    for partition_errors, partition, append_info in unreplicated:
        remaining_s = max(0.0, deadline - loop.time())
        try:
            await partition.wait_until_acknowledged(
                append_info, acks=ACKS_ALL, timeout_s=remaining_s
            )
        except KafkaError as error:
            partition_errors[partition.topic_partition] = code_of(error)
    return _build_response(error_codes)


def _write_markers(
    replica_manager: HostedPartitions,
    marker_context: TxnMarkerContext,
    markers: list[Marker],
    error_codes: MarkerErrorCodes,
) -> Iterator[UnreplicatedMarker | None]:
    """Write the markers one by one; yield None for a marker that needs no wait."""
    for marker in markers:
        partition_errors = error_codes.setdefault(marker.producer_id, {})
        for topic in marker.topics:
            for index in topic.partition_indexes:
                topic_partition = TopicPartition(topic.name, index)
                try:
                    partition, append_info = _write_marker(
                        replica_manager, marker_context, marker, topic_partition
                    )
                except KafkaError as error:
                    partition_errors[topic_partition] = code_of(error)
                    yield None
                    continue
                partition_errors[topic_partition] = 0
                is_replicated = partition.is_acknowledged(append_info, acks=ACKS_ALL)
                yield (
                    None
                    if is_replicated
                    else UnreplicatedMarker(partition_errors, partition, append_info)
                )


def _write_marker(
    replica_manager: HostedPartitions,
    marker_context: TxnMarkerContext,
    marker: Marker,
    topic_partition: TopicPartition,
) -> tuple[Partition, LogAppendInfo]:
    if marker.producer_id < 0 or marker.producer_epoch < 0:
        raise KafkaError(
            f"marker for {topic_partition}: producer id and epoch must not be negative"
        )
    try:
        partition = replica_manager.partition(*topic_partition)
    except KafkaError as error:
        # As in Kafka, whatever the reason is.  Coordinators retry after this error.
        raise UnknownTopicOrPartition(error.message) from error
    now_ms, is_commit = marker_context.now_ms(), marker.transaction_result
    batch = build_marker_batch(
        EndTransactionMarker(is_commit, marker.coordinator_epoch),
        timestamp=now_ms,
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
    )
    append_info = partition.append(
        batch, acks=ACKS_ALL, now_ms=now_ms, origin=AppendOrigin.COORDINATOR
    )
    if topic_partition.topic == CONSUMER_OFFSETS:
        marker_context.groups.on_transaction_completed(
            topic_partition.partition, marker.producer_id, is_commit=is_commit
        )
    return partition, append_info


def _build_response(error_codes: MarkerErrorCodes) -> Response:
    return Response(
        markers=[
            MarkerResult(producer_id=producer_id, topics=_topic_results(partition_errors))
            for producer_id, partition_errors in error_codes.items()
            if partition_errors
        ]
    )


def _topic_results(error_codes: Mapping[TopicPartition, int]) -> list[MarkerResult.Topic]:
    return [
        MarkerResult.Topic(
            name=topic,
            partitions=[
                MarkerResult.Topic.Partition(
                    partition_index=number, error_code=error_codes[TopicPartition(topic, number)]
                )
                for number in numbers
            ],
        )
        for topic, numbers in group_by_topic(error_codes).items()
    ]


def error_response(request: Request[WriteTxnMarkersRequest], error: KafkaError) -> Response:
    """Return the same error for every partition."""
    code = code_of(error)
    error_codes: MarkerErrorCodes = {}
    for marker in request.body.markers:
        partition_errors = error_codes.setdefault(marker.producer_id, {})
        for topic in marker.topics:
            for index in topic.partition_indexes:
                partition_errors[TopicPartition(topic.name, index)] = code
    return _build_response(error_codes)
