"""OffsetFetch: how far have groups read?

Version 0 looks into the metadata store, all others into the groups' log.  Before version 8 a
request is about one group, and its answer has another form.  What is told is replicated: until then
the answer waits.  One about many partitions is made in turns, of what there is at one moment.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

from odradek.broker.call import Call, Parked
from odradek.broker.coordinator.log_failures import OF_A_FETCH, told
from odradek.broker.groups.coordinator import GroupCoordinator
from odradek.broker.groups.offsets import Commit, GroupOffsets, Place
from odradek.broker.groups.shard import GroupShard
from odradek.broker.turns import FEW, Turn
from odradek.protocol.api.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import KafkaError, code_of

Response = OffsetFetchResponse
Group = OffsetFetchResponse.Group
#: As later versions tell it, and as earlier ones do.
Topic = Group.Topic | Response.Topic
Line = Response.Topic.Partition
AskedGroup = OffsetFetchRequest.Group
AskedTopic = AskedGroup.Topic

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
    response = _response(groups, call, asked)
    shards = [shard for shard in map(groups.find_shard, _ids(asked)) if shard is not None]
    unsettled = [shard for shard in shards if not shard.log.is_settled]
    if not unsettled:
        return response if isinstance(response, Response) else response()

    async def answer_when_replicated() -> Response:
        for shard in unsettled:
            try:
                await shard.log.wait_until_settled()
            except KafkaError as failure:
                return refused(call, told(failure, OF_A_FETCH))
        return response if isinstance(response, Response) else await response()

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
            AskedTopic(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    return [AskedGroup(group_id=request.group_id, topics=topics)]


# What is told


class _Found(NamedTuple):
    """What is known of a group, and is to be told of it."""

    group_id: str
    topics: Iterable[AskedTopic]
    offsets: GroupOffsets
    failure: KafkaError | None = None

    @property
    def size(self) -> int:
        return sum(len(topic.partition_indexes) for topic in self.topics)

    def at_this_moment(self) -> _Found:
        """Whatever is committed meanwhile."""
        return self._replace(offsets=self.offsets.copy())


def _response(
    groups: GroupCoordinator, call: Call[OffsetFetchRequest], asked: Iterable[AskedGroup]
) -> Response | Callable[[], Awaitable[Response]]:
    """Of what there is now, whenever it is sent: what comes later may not be replicated then."""
    found = [_found(groups, each) for each in asked]
    if sum(each.size for each in found) > FEW:
        return partial(_answer_in_turns, call, [each.at_this_moment() for each in found])
    is_stable_only, kind = call.request.require_stable, _kind(call)
    topics = [
        [
            kind(name=topic.name, partitions=[*_lines(each, topic, kind, is_stable_only)])
            for topic in each.topics
        ]
        for each in found
    ]
    return _formed(call, found, topics)


async def _answer_in_turns(call: Call[OffsetFetchRequest], found: Sequence[_Found]) -> Response:
    is_stable_only, kind = call.request.require_stable, _kind(call)
    turn, topics = Turn(), []
    for each in found:
        theirs = []
        for topic in each.topics:
            lines = await turn.listed(_lines(each, topic, kind, is_stable_only))
            theirs.append(kind(name=topic.name, partitions=lines))
        topics.append(theirs)
    return _formed(call, found, topics)


def _found(groups: GroupCoordinator, asked: AskedGroup) -> _Found:
    group_id = asked.group_id
    try:
        shard = groups.shard(group_id)
        _check(shard, asked)
    except KafkaError as failure:
        return _Found(group_id, (), _NOTHING, failure)
    offsets = shard.offsets.get(group_id, _NOTHING)
    return _Found(group_id, _all_topics(offsets) if asked.topics is None else asked.topics, offsets)


def _check(shard: GroupShard, asked: AskedGroup) -> None:
    group = shard.groups.get(asked.group_id)
    if group is not None:
        group.check_fetch(asked.member_id, asked.member_epoch)


def _all_topics(offsets: GroupOffsets) -> Iterable[AskedTopic]:
    by_name: dict[str, AskedTopic] = {}
    for topic, partition in offsets.committed:
        found = by_name.get(topic)
        if found is None:
            found = by_name[topic] = AskedTopic(name=topic, partition_indexes=[])
        found.partition_indexes.append(partition)
    return by_name.values()


def _lines(
    found: _Found, topic: AskedTopic, kind: type[Topic], is_stable_only: bool
) -> Iterator[Any]:
    """Of the class that is in a topic of this kind."""
    name, offsets, make = topic.name, found.offsets, kind.Partition
    for index in topic.partition_indexes:
        place = (name, index)
        is_unstable = is_stable_only and offsets.pending and offsets.is_pending(place)
        commit = _NO_COMMIT if is_unstable else offsets.committed.get(place, _NO_COMMIT)
        yield make(
            partition_index=index,
            committed_offset=commit.offset,
            committed_leader_epoch=commit.leader_epoch,
            metadata=commit.metadata,
            error_code=_UNSTABLE if is_unstable else _NONE,
        )


# The form of each version


def _kind(call: Call[OffsetFetchRequest]) -> type[Topic]:
    return Group.Topic if call.version >= _FIRST_VERSION_OF_MANY_GROUPS else Response.Topic


def _formed(
    call: Call[OffsetFetchRequest], found: Sequence[_Found], topics: Sequence[list[Any]]
) -> Response:
    """``topics`` are those of each group, of the kind that the version has."""
    if call.version >= _FIRST_VERSION_OF_MANY_GROUPS:
        return Response(
            groups=[
                Group(group_id=each.group_id, topics=theirs, error_code=code_of(each.failure))
                for each, theirs in zip(found, topics, strict=True)
            ]
        )
    (only,) = found
    (lines,) = topics
    code = code_of(only.failure)
    if code and call.version < _FIRST_VERSION_WITH_A_GROUPS_ERROR:
        lines = _failed(call.request.topics or (), code)
    return Response(topics=lines, error_code=code)


def _failed(topics: Iterable[OffsetFetchRequest.Topic], code: int) -> list[Response.Topic]:
    return [
        Response.Topic(
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
        response.topics.append(Response.Topic(name=topic.name, partitions=lines))
    return response


def _old_line(index: int, offset: int | None) -> Line:
    return _told(index, _NO_OFFSET, _UNKNOWN) if offset is None else _told(index, offset, _NONE)


def refused(call: Call[OffsetFetchRequest], failure: KafkaError) -> Response:
    """All of it, for one reason."""
    found = [_Found(each.group_id, (), _NOTHING, failure) for each in _groups(call)]
    return _formed(call, found, [[] for _ in found])
