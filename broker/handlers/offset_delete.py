"""OffsetDelete: delete committed offsets of topics that a group no longer reads.

An error of the group is the error of the whole request; otherwise each partition has an error code.
"""

from __future__ import annotations

from typing import Protocol

from odradek.broker.groups.coordinator import GroupCoordinator
from odradek.broker.groups.offset_commits import delete_offsets
from odradek.broker.handlers.replicated_response import respond_when_replicated
from odradek.broker.request import DelayedOperation, Request
from odradek.protocol.api.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from odradek.protocol.errors import UnknownTopicOrPartition, code_of

Topic = OffsetDeleteResponse.Topic


class ClusterMetadata(Protocol):
    """The part of the metadata cache that this handler needs."""

    def has_partition(self, topic: str, partition: int, /) -> bool: ...


def handle(
    groups: GroupCoordinator, metadata_cache: ClusterMetadata, request: Request[OffsetDeleteRequest]
) -> OffsetDeleteResponse | DelayedOperation[OffsetDeleteResponse]:
    body = request.body
    topic_partitions = [
        (topic.name, partition.partition_index)
        for topic in body.topics
        for partition in topic.partitions
    ]
    known = [
        topic_partition
        for topic_partition in topic_partitions
        if metadata_cache.has_partition(*topic_partition)
    ]
    shard = groups.shard_for_nonempty_id(body.group_id)
    errors = delete_offsets(shard, body.group_id, known)
    for topic_partition in topic_partitions:
        errors.setdefault(topic_partition, UnknownTopicOrPartition())
    response = OffsetDeleteResponse(
        error_code=0,
        throttle_time_ms=0,
        topics=[
            Topic(
                name=topic.name,
                partitions=[
                    Topic.Partition(
                        partition_index=partition.partition_index,
                        error_code=code_of(errors[topic.name, partition.partition_index]),
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in body.topics
        ],
    )
    return respond_when_replicated(shard.log, response)
