"""OffsetDelete: a group's offsets of topics that it no longer reads are deleted."""

from __future__ import annotations

from typing import Protocol

from odradek.broker.call import Call
from odradek.broker.groups.committing import delete_offsets
from odradek.broker.groups.coordinator import GroupCoordinator
from odradek.protocol.api.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import code_of

Topic = OffsetDeleteResponse.Topic

_UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.code


class Cluster(Protocol):
    """What is known of the cluster."""

    def has_partition(self, topic: str, partition: int, /) -> bool: ...


def handle(
    groups: GroupCoordinator, cluster: Cluster, call: Call[OffsetDeleteRequest]
) -> OffsetDeleteResponse:
    """Of partitions that there are; the group is asked even if there are none."""
    request = call.request
    places = [
        (topic.name, asked.partition_index)
        for topic in request.topics
        for asked in topic.partitions
        if cluster.has_partition(topic.name, asked.partition_index)
    ]
    shard = groups.shard_of_members(request.group_id)
    outcomes = delete_offsets(shard, request.group_id, places)
    codes = {place: code_of(failure) for place, failure in outcomes.items()}
    return OffsetDeleteResponse(
        error_code=0,
        throttle_time_ms=0,
        topics=[
            Topic(
                name=topic.name,
                partitions=[
                    Topic.Partition(
                        partition_index=asked.partition_index,
                        error_code=codes.get((topic.name, asked.partition_index), _UNKNOWN),
                    )
                    for asked in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )
