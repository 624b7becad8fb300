"""OffsetCommit: a group, or somebody who is in none, stores how far it has read.

Version 0 keeps offsets in the metadata store, all others in the group's log.  A line that cannot be
committed is refused alone; what the group, or its log, says against it is said to all lines.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

from odradek.broker.call import Call, Parked
from odradek.broker.groups.committing import NewCommit, commit
from odradek.broker.groups.coordinator import GroupCoordinator
from odradek.broker.groups.group import Committer
from odradek.broker.groups.log_failures import OF_A_COMMIT, told
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
    request, longest = call.request, groups.world.settings.metadata_max_bytes
    response, commits, lines = Response(topics=[]), [], []
    now = groups.world.now_ms()
    for topic in request.topics:
        shown: list[Line] = []
        for asked in topic.partitions:
            code = _judged(cluster, topic.name, asked, longest)
            line = Line(partition_index=asked.partition_index, error_code=code)
            shown.append(line)
            if code == _NONE:
                commits.append(_new_commit(topic.name, asked, request, now))
                lines.append(line)
            elif code == _TOO_LARGE:
                lines.append(line)
        response.topics.append(Topic(name=topic.name, partitions=shown))
    if not lines:
        return response
    knows_epochs = call.version >= _FIRST_VERSION_WITH_EPOCHS
    return _committed(groups, request, commits, (lines, response), knows_epochs=knows_epochs)


def _committed(
    groups: GroupCoordinator,
    request: OffsetCommitRequest,
    commits: list[NewCommit],
    answer: tuple[list[Line], Response],
    *,
    knows_epochs: bool,
) -> Response | Parked[Response]:
    """In ``answer``, the lines of partitions that there are, and all of it."""
    lines, response = answer
    committer = Committer(
        request.member_id,
        request.group_instance_id,
        request.generation_id_or_member_epoch,
        knows_epochs,
    )
    try:
        shard = groups.shard(request.group_id)
        written = commit(shard, request.group_id, committer, commits)
    except KafkaError as failure:
        _refuse(lines, failure)
        return response
    if written is None or shard.log.is_replicated(written):
        return response
    late = written

    async def answer_when_replicated() -> Response:
        return await _replicated(shard, late, lines, response)

    return Parked(answer_when_replicated, ends_alone=True)


async def _replicated(
    shard: GroupShard, written: Written, lines: list[Line], response: Response
) -> Response:
    try:
        await shard.log.wait_until_replicated(written)
    except KafkaError as failure:
        _refuse(lines, told(failure, OF_A_COMMIT))
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


def _new_commit(topic: str, asked: Asked, request: OffsetCommitRequest, now: int) -> NewCommit:
    retention_ms = request.retention_time_ms
    return NewCommit(
        (topic, asked.partition_index),
        asked.committed_offset,
        asked.committed_leader_epoch,
        asked.committed_metadata or "",
        now if asked.commit_timestamp == _UNSET else asked.commit_timestamp,
        NEVER if retention_ms == _UNSET else now + retention_ms,
    )


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
