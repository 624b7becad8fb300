"""OffsetFetch: how far have groups read?

Version 0 looks into the metadata store, all others into the groups' log.  Before version 8 a
request is about one group, and its answer has another form.  What is told is replicated: until then
the answer waits.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Sequence
from typing import Protocol

from odradek.broker.call import Call, Parked
from odradek.broker.coordinator.log_failures import OF_A_FETCH, told
from odradek.broker.groups.coordinator import GroupCoordinator
from odradek.broker.groups.offsets import Commit, GroupOffsets, Place
from odradek.broker.groups.shard import GroupShard
from odradek.protocol.api.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import KafkaError, code_of

Response = OffsetFetchResponse
Group = OffsetFetchResponse.Group
Line = Group.Topic.Partition
AskedGroup = OffsetFetchRequest.Group
AskedTopics = Sequence[OffsetFetchRequest.Topic] | Sequence[AskedGroup.Topic]

_FIRST_VERSION_OF_MANY_GROUPS = 8
_FIRST_VERSION_WITH_A_GROUPS_ERROR = 2
_NO_OFFSET = -1
_NO_COMMIT = Commit(_NO_OFFSET, -1, "", 0, 0, -1)
_NONE = ErrorCode.NONE.code
_UNSTABLE = ErrorCode.UNSTABLE_OFFSET_COMMIT.code
_UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.code
_NOTHING = GroupOffsets()


class Cluster(Protocol):
    """What is known of the cluster."""

    def has_partition(self, topic: str, partition: int, /) -> bool: ...


class OldOffsets(Protocol):
    """What the oldest clients have committed."""

    async def fetch(self, group_id: str, places: Sequence[Place], /) -> list[int | None]: ...


def handle(
    groups: GroupCoordinator, cluster: Cluster, old: OldOffsets, call: Call[OffsetFetchRequest]
) -> Response | Awaitable[Response]:
    if call.version == 0:
        return _fetch_from_the_store(cluster, old, call.request)
    asked = _groups(call)
    unsettled = [shard for shard in map(groups.find_shard, _ids(asked)) if shard is not None]
    unsettled = [shard for shard in unsettled if not shard.log.is_settled]
    if not unsettled:
        return _response(groups, call, asked)

    async def answer_when_replicated() -> Response:
        for shard in unsettled:
            try:
                await shard.log.wait_until_settled()
            except KafkaError as failure:
                return refused(call, told(failure, OF_A_FETCH))
        return _response(groups, call, asked)

    return Parked(answer_when_replicated, ends_alone=True)


def _ids(asked: Iterable[AskedGroup]) -> Iterable[str]:
    return (each.group_id for each in asked)


def _groups(call: Call[OffsetFetchRequest]) -> Sequence[AskedGroup]:
    """As the later versions ask."""
    request = call.request
    if call.version >= _FIRST_VERSION_OF_MANY_GROUPS:
        return request.groups
    topics = None
    if request.topics is not None:
        topics = [
            AskedGroup.Topic(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    return [AskedGroup(group_id=request.group_id, topics=topics)]


def _response(
    groups: GroupCoordinator, call: Call[OffsetFetchRequest], asked: Iterable[AskedGroup]
) -> Response:
    is_stable_only = call.request.require_stable
    return _formed(call, [_answered(groups, each, is_stable_only) for each in asked], asked)


def _answered(groups: GroupCoordinator, asked: AskedGroup, is_stable_only: bool) -> Group:
    try:
        shard = groups.shard(asked.group_id)
        _check(shard, asked)
    except KafkaError as failure:
        return Group(group_id=asked.group_id, topics=[], error_code=code_of(failure))
    offsets = shard.offsets.get(asked.group_id, _NOTHING)
    topics = _all_topics(offsets) if asked.topics is None else asked.topics
    return Group(
        group_id=asked.group_id,
        topics=[
            Group.Topic(
                name=topic.name,
                partitions=[
                    _line(offsets, (topic.name, index), is_stable_only)
                    for index in topic.partition_indexes
                ],
            )
            for topic in topics
        ],
    )


def _check(shard: GroupShard, asked: AskedGroup) -> None:
    group = shard.groups.get(asked.group_id)
    if group is not None:
        group.check_fetch(asked.member_id, asked.member_epoch)


def _all_topics(offsets: GroupOffsets) -> Iterable[AskedGroup.Topic]:
    by_name: dict[str, AskedGroup.Topic] = {}
    for topic, partition in offsets.committed:
        found = by_name.get(topic)
        if found is None:
            found = by_name[topic] = AskedGroup.Topic(name=topic, partition_indexes=[])
        found.partition_indexes.append(partition)
    return by_name.values()


def _line(offsets: GroupOffsets, place: Place, is_stable_only: bool) -> Line:
    is_unstable = is_stable_only and offsets.pending and offsets.is_pending(place)
    commit = _NO_COMMIT if is_unstable else offsets.committed.get(place, _NO_COMMIT)
    return Line(
        partition_index=place[1],
        committed_offset=commit.offset,
        committed_leader_epoch=commit.leader_epoch,
        metadata=commit.metadata,
        error_code=_UNSTABLE if is_unstable else _NONE,
    )


# The form of the earlier versions


def _formed(
    call: Call[OffsetFetchRequest], answered: list[Group], asked: Iterable[AskedGroup]
) -> Response:
    if call.version >= _FIRST_VERSION_OF_MANY_GROUPS:
        return Response(groups=answered)
    (only,) = answered
    (about,) = asked
    topics: Sequence[Group.Topic] = only.topics
    if only.error_code and call.version < _FIRST_VERSION_WITH_A_GROUPS_ERROR:
        topics = _failed(about.topics or (), only.error_code)
    return Response(topics=[_old_topic(topic) for topic in topics], error_code=only.error_code)


def _old_topic(topic: Group.Topic) -> Response.Topic:
    return Response.Topic(
        name=topic.name,
        partitions=[
            Response.Topic.Partition(
                partition_index=line.partition_index,
                committed_offset=line.committed_offset,
                committed_leader_epoch=line.committed_leader_epoch,
                metadata=line.metadata,
                error_code=line.error_code,
            )
            for line in topic.partitions
        ],
    )


def _failed(topics: AskedTopics, code: int) -> list[Group.Topic]:
    return [
        Group.Topic(
            name=topic.name,
            partitions=[_told(index, _NO_OFFSET, code) for index in topic.partition_indexes],
        )
        for topic in topics
    ]


def _told(index: int, offset: int, code: int) -> Line:
    return Line(partition_index=index, committed_offset=offset, metadata="", error_code=code)


# What the oldest clients ask for


async def _fetch_from_the_store(
    cluster: Cluster, old: OldOffsets, request: OffsetFetchRequest
) -> Response:
    response = Response(topics=[])
    for topic in request.topics or ():
        indexes = topic.partition_indexes
        known = [index for index in indexes if cluster.has_partition(topic.name, index)]
        found = await old.fetch(request.group_id, [(topic.name, index) for index in known])
        offsets = dict(zip(known, found, strict=True))
        lines = [_old_line(index, offsets.get(index)) for index in indexes]
        response.topics.append(_old_topic(Group.Topic(name=topic.name, partitions=lines)))
    return response


def _old_line(index: int, offset: int | None) -> Line:
    return _told(index, _NO_OFFSET, _UNKNOWN) if offset is None else _told(index, offset, _NONE)


def refused(call: Call[OffsetFetchRequest], failure: KafkaError) -> Response:
    """All of it, for one reason."""
    asked, code = _groups(call), code_of(failure)
    lines = [Group(group_id=each.group_id, topics=[], error_code=code) for each in asked]
    return _formed(call, lines, asked)
