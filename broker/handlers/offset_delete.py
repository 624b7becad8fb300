"""OffsetDelete: a group's offsets of topics that it no longer reads are deleted.

What the group says against it is said to all of it; else each partition has a line of its own.
"""

from __future__ import annotations

from typing import Protocol

from odradek.broker.call import Call, Parked
from odradek.broker.groups.committing import delete_offsets
from odradek.broker.groups.coordinator import GroupCoordinator
from odradek.broker.handlers.replicated import when_replicated
from odradek.protocol.api.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from odradek.protocol.errors import UnknownTopicOrPartition, code_of

Topic = OffsetDeleteResponse.Topic


class Cluster(Protocol):
    """What is known of the cluster."""

    def has_partition(self, topic: str, partition: int, /) -> bool: ...


def handle(
    groups: GroupCoordinator, cluster: Cluster, call: Call[OffsetDeleteRequest]
) -> OffsetDeleteResponse | Parked[OffsetDeleteResponse]:
    request = call.request
    places = [
        (topic.name, asked.partition_index)
        for topic in request.topics
        for asked in topic.partitions
    ]
    known = [place for place in places if cluster.has_partition(*place)]
    shard = groups.shard_of_members(request.group_id)
    outcomes = delete_offsets(shard, request.group_id, known)
    for place in places:
        outcomes.setdefault(place, UnknownTopicOrPartition())
    response = OffsetDeleteResponse(
        error_code=0,
        throttle_time_ms=0,
        topics=[
            Topic(
                name=topic.name,
                partitions=[
                    Topic.Partition(
                        partition_index=asked.partition_index,
                        error_code=code_of(outcomes[topic.name, asked.partition_index]),
                    )
                    for asked in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )
    return when_replicated(shard.log, response)
