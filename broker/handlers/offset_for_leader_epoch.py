"""OffsetForLeaderEpoch: return the end offset of a leader epoch in the log of the current leader.

Followers and consumers use it to find the offset at which their log, or their position, diverges
from the log of the leader.  For an unknown epoch the end offset is -1, without an error.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from typing import Protocol

from odradek.broker.replicas.partition import Partition
from odradek.broker.request import Request
from odradek.broker.time_slice import INLINE_ENTRIES_MAX, TimeSlice
from odradek.protocol.api.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from odradek.protocol.errors import KafkaError, code_of

PartitionRequest = OffsetForLeaderEpochRequest.Topic.Partition
Topic = OffsetForLeaderEpochResponse.Topic
PartitionResponse = Topic.Partition


class HostedPartitions(Protocol):
    """The part of the replica manager that this handler needs."""

    def partition(self, topic: str, index: int, /) -> Partition: ...


def handle(
    replica_manager: HostedPartitions, request: Request[OffsetForLeaderEpochRequest]
) -> OffsetForLeaderEpochResponse | Awaitable[OffsetForLeaderEpochResponse]:
    topics = request.body.topics
    if sum(len(topic.partitions) for topic in topics) > INLINE_ENTRIES_MAX:
        return _respond_sliced(replica_manager, topics)
    return OffsetForLeaderEpochResponse(
        topics=[
            Topic(
                topic=topic.topic,
                partitions=[
                    _partition_response(replica_manager, topic.topic, partition_request)
                    for partition_request in topic.partitions
                ],
            )
            for topic in topics
        ]
    )


async def _respond_sliced(
    replica_manager: HostedPartitions, topics: Iterable[OffsetForLeaderEpochRequest.Topic]
) -> OffsetForLeaderEpochResponse:
    time_slice, response = TimeSlice(), OffsetForLeaderEpochResponse(topics=[])
    for topic in topics:
        partition_responses = await time_slice.collect(
            _partition_response(replica_manager, topic.topic, partition_request)
            for partition_request in topic.partitions
        )
        response.topics.append(Topic(topic=topic.topic, partitions=partition_responses))
    return response


def _partition_response(
    replica_manager: HostedPartitions, topic: str, partition_request: PartitionRequest
) -> PartitionResponse:
    try:
        partition = replica_manager.partition(topic, partition_request.partition)
        partition.require_leader(partition_request.current_leader_epoch)
        with partition.hosted_log as log:
            epoch_end_offset = log.leader_epoch_cache.end_offset_for(
                partition_request.leader_epoch, log_end_offset=log.log_end_offset
            )
    except KafkaError as error:
        return _partition_error(partition_request, error)
    return PartitionResponse(
        error_code=0,
        partition=partition_request.partition,
        leader_epoch=epoch_end_offset.epoch,
        end_offset=epoch_end_offset.end_offset,
    )


def _partition_error(partition_request: PartitionRequest, error: KafkaError) -> PartitionResponse:
    return PartitionResponse(error_code=code_of(error), partition=partition_request.partition)


def error_response(
    request: Request[OffsetForLeaderEpochRequest], error: KafkaError
) -> OffsetForLeaderEpochResponse:
    """Return the same error for every partition."""
    return OffsetForLeaderEpochResponse(
        topics=[
            Topic(
                topic=topic.topic,
                partitions=[
                    _partition_error(partition_request, error)
                    for partition_request in topic.partitions
                ],
            )
            for topic in request.body.topics
        ]
    )
