"""OffsetCommit: a group, or somebody who is in none, stores how far it has read.

Version 0 keeps offsets in the metadata store, all others in the group's log.  A line that cannot be
committed is refused alone; what the group, or its log, says against it is said to all lines.
"""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial
from typing import Protocol

from odradek.broker.call import Call, Parked
from odradek.broker.groups.committing import NewCommit, commit, wait_until_replicated
from odradek.broker.groups.coordinator import GroupCoordinator
from odradek.broker.groups.group import Committer
from odradek.broker.groups.offsets import NEVER, Place
from odradek.broker.groups.shard import GroupShard
from odradek.protocol.api.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import KafkaError, code_of
from odradek.storage.log import Written

Topic = OffsetCommitResponse.Topic
Line = Topic.Partition
Asked = OffsetCommitRequest.Topic.Partition
Response = OffsetCommitResponse

_NONE = ErrorCode.NONE.code
_UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.code
_TOO_LARGE = ErrorCode.OFFSET_METADATA_TOO_LARGE.code
_UNSET = -1
_FIRST_VERSION_WITH_EPOCHS = 9


class Cluster(Protocol):
    """What is known of the cluster."""

    def has_partition(self, topic: str, partition: int, /) -> bool: ...


class OldOffsets(Protocol):
    """What the oldest clients have committed."""

    async def commit(self, group_id: str, place: Place, offset: int, /) -> None: ...


def handle(
    groups: GroupCoordinator,
    cluster: Cluster,
    old: OldOffsets,
    call: Call[OffsetCommitRequest],
) -> Response | Awaitable[Response]:
    if call.version == 0:
        return _commit_to_the_store(groups, cluster, old, call)
    request, world = call.request, groups.world
    longest, now_ms = world.settings.metadata_max_bytes, world.now_ms()
    expires_ms = (
        NEVER if request.retention_time_ms == _UNSET else now_ms + request.retention_time_ms
    )
    topics: list[Topic] = []
    commits: list[NewCommit] = []
    committed: list[Line] = []
    for topic in request.topics:
        name, lines = topic.name, []
        for asked in topic.partitions:
            index = asked.partition_index
            code = _judged(cluster, name, asked, longest)
            line = Line(partition_index=index, error_code=code)
            lines.append(line)
            if code == _NONE:
                metadata, told_ms = asked.committed_metadata or "", asked.commit_timestamp
                committed_ms = now_ms if told_ms == _UNSET else told_ms
                commits.append(
                    NewCommit(
                        (name, index),
                        asked.committed_offset,
                        asked.committed_leader_epoch,
                        metadata,
                        committed_ms,
                        expires_ms,
                    )
                )
            if code != _UNKNOWN:
                committed.append(line)
        topics.append(Topic(name=name, partitions=lines))
    response = Response(topics=topics)
    return _commit(groups, call, commits, committed, response) if committed else response


def _commit(
    groups: GroupCoordinator,
    call: Call[OffsetCommitRequest],
    commits: list[NewCommit],
    lines: list[Line],
    response: Response,
) -> Response | Parked[Response]:
    """``lines`` are those of partitions that there are."""
    request = call.request
    group_id = request.group_id
    committer = Committer(
        request.member_id,
        request.group_instance_id,
        request.generation_id_or_member_epoch,
        call.version >= _FIRST_VERSION_WITH_EPOCHS,
    )
    try:
        shard = groups.shard(group_id)
        written = commit(shard, group_id, committer, commits)
    except KafkaError as failure:
        _refuse(lines, failure)
        return response
    if written is None or shard.log.is_replicated(written):
        return response
    return Parked(partial(_replicated, shard, written, lines, response), ends_alone=True)


async def _replicated(
    shard: GroupShard, written: Written, lines: list[Line], response: Response
) -> Response:
    try:
        await wait_until_replicated(shard, written)
    except KafkaError as failure:
        _refuse(lines, failure)
    return response


def _refuse(lines: list[Line], failure: KafkaError) -> None:
    code = code_of(failure)
    for line in lines:
        line.error_code = code


def _judged(cluster: Cluster, topic: str, asked: Asked, longest: int) -> int:
    if not cluster.has_partition(topic, asked.partition_index):
        return _UNKNOWN
    metadata = asked.committed_metadata
    return _TOO_LARGE if metadata is not None and len(metadata) > longest else _NONE


async def _commit_to_the_store(
    groups: GroupCoordinator, cluster: Cluster, old: OldOffsets, call: Call[OffsetCommitRequest]
) -> Response:
    request, longest = call.request, groups.world.settings.metadata_max_bytes
    response = Response(topics=[])
    for topic in request.topics:
        shown = []
        for asked in topic.partitions:
            code = _judged(cluster, topic.name, asked, longest)
            if code == _NONE:
                place = (topic.name, asked.partition_index)
                await old.commit(request.group_id, place, asked.committed_offset)
            shown.append(Line(partition_index=asked.partition_index, error_code=code))
        response.topics.append(Topic(name=topic.name, partitions=shown))
    return response


def refused(call: Call[OffsetCommitRequest], failure: KafkaError) -> Response:
    """All of it, for one reason."""
    code = code_of(failure)
    return Response(
        topics=[
            Topic(
                name=topic.name,
                partitions=[
                    Line(partition_index=asked.partition_index, error_code=code)
                    for asked in topic.partitions
                ],
            )
            for topic in call.request.topics
        ]
    )
