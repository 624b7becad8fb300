"""OffsetFetch: return the committed offsets of groups.

Version 0 reads the metadata store, all others read the offsets of the group coordinator.  Before
version 8 a request names one group, and the response has another layout.  The response waits until
the offsets in it are replicated.  A response with many partitions is built in time slices from a
snapshot of the offsets.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

from odradek.broker.coordinator.append_errors import OFFSET_FETCH_ERRORS, map_append_error
from odradek.broker.groups.coordinator import GroupCoordinator
from odradek.broker.groups.offsets import GroupOffsets, OffsetAndMetadata, TopicPartitionTuple
from odradek.broker.groups.shard import GroupCoordinatorShard
from odradek.broker.request import DelayedOperation, Request
from odradek.broker.time_slice import INLINE_ENTRIES_MAX, TimeSlice
from odradek.protocol.api.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import KafkaError, code_of

Response = OffsetFetchResponse
Group = OffsetFetchResponse.Group
#: In responses from version 8 on, and in earlier ones.
Topic = Group.Topic | Response.Topic
PartitionResponse = Response.Topic.Partition
GroupRequest = OffsetFetchRequest.Group
TopicRequest = GroupRequest.Topic

_FIRST_BATCHED_VERSION = 8
_FIRST_VERSION_WITH_GROUP_ERROR = 2
_NO_OFFSET = -1
_NO_COMMIT = OffsetAndMetadata(_NO_OFFSET, -1, "", 0, 0, -1)
_NONE = ErrorCode.NONE.code
_UNSTABLE = ErrorCode.UNSTABLE_OFFSET_COMMIT.code
_UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.code
_EMPTY_OFFSETS = GroupOffsets()


class ClusterMetadata(Protocol):
    """The part of the metadata cache that this handler needs."""

    def has_partition(self, topic: str, partition: int, /) -> bool: ...


class ZooKeeperOffsets(Protocol):
    """The offsets in the metadata store, which version 0 fetches."""

    async def fetch(
        self, group_id: str, partitions: Sequence[TopicPartitionTuple], /
    ) -> list[int | None]: ...


def handle(
    groups: GroupCoordinator,
    metadata_cache: ClusterMetadata,
    zookeeper_offsets: ZooKeeperOffsets,
    request: Request[OffsetFetchRequest],
) -> Response | Awaitable[Response]:
    if request.version == 0:
        return _fetch_from_zookeeper(metadata_cache, zookeeper_offsets, request.body)
    group_requests = _group_requests(request)
    response = _prepare_response(groups, request, group_requests)
    shards = [
        shard for shard in map(groups.find_shard, _group_ids(group_requests)) if shard is not None
    ]
    unreplicated = [shard for shard in shards if not shard.log.is_fully_replicated]
    if not unreplicated:
        return response if isinstance(response, Response) else response()

    async def respond_when_replicated() -> Response:
        for shard in unreplicated:
            try:
                await shard.log.wait_until_fully_replicated()
            except KafkaError as error:
                return error_response(request, map_append_error(error, OFFSET_FETCH_ERRORS))
        return response if isinstance(response, Response) else await response()

    return DelayedOperation(respond_when_replicated, completes_on_shutdown=True)


def _group_ids(group_requests: Iterable[GroupRequest]) -> Iterable[str]:
    return (each.group_id for each in group_requests)


def _group_requests(request: Request[OffsetFetchRequest]) -> Sequence[GroupRequest]:
    """Return the groups of the request in the layout of version 8."""
    body = request.body
    if request.version >= _FIRST_BATCHED_VERSION:
        return body.groups
    topics = None
    if body.topics is not None:
        topics = [
            TopicRequest(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in body.topics
        ]
    return [GroupRequest(group_id=body.group_id, topics=topics)]


# Offsets of groups


class _GroupFetch(NamedTuple):
    """The requested topics of a group, and its offsets or its error."""

    group_id: str
    topics: Iterable[TopicRequest]
    offsets: GroupOffsets
    error: KafkaError | None = None

    @property
    def size(self) -> int:
        return sum(len(topic.partition_indexes) for topic in self.topics)

    def snapshot(self) -> _GroupFetch:
        """Copy the offsets, because commits may change them meanwhile."""
        return self._replace(offsets=self.offsets.copy())


def _prepare_response(
    groups: GroupCoordinator,
    request: Request[OffsetFetchRequest],
    group_requests: Iterable[GroupRequest],
) -> Response | Callable[[], Awaitable[Response]]:
    """Build the response from the offsets as they are now, or return a function that does.

    The response must not contain later commits, which may not be replicated when it is sent.
    """
    group_fetches = [_fetch_group(groups, each) for each in group_requests]
    if sum(each.size for each in group_fetches) > INLINE_ENTRIES_MAX:
        return partial(_build_response_sliced, request, [each.snapshot() for each in group_fetches])
    require_stable, topic_class = request.body.require_stable, _topic_class(request)
    topics = [
        [
            topic_class(
                name=topic.name,
                partitions=[*_partition_responses(each, topic, topic_class, require_stable)],
            )
            for topic in each.topics
        ]
        for each in group_fetches
    ]
    return _build_response(request, group_fetches, topics)


async def _build_response_sliced(
    request: Request[OffsetFetchRequest], group_fetches: Sequence[_GroupFetch]
) -> Response:
    require_stable, topic_class = request.body.require_stable, _topic_class(request)
    time_slice, topics = TimeSlice(), []
    for each in group_fetches:
        group_topics = []
        for topic in each.topics:
            partitions = await time_slice.collect(
                _partition_responses(each, topic, topic_class, require_stable)
            )
            group_topics.append(topic_class(name=topic.name, partitions=partitions))
        topics.append(group_topics)
    return _build_response(request, group_fetches, topics)


def _fetch_group(groups: GroupCoordinator, group_request: GroupRequest) -> _GroupFetch:
    group_id = group_request.group_id
    try:
        shard = groups.shard(group_id)
        _check(shard, group_request)
    except KafkaError as error:
        return _GroupFetch(group_id, (), _EMPTY_OFFSETS, error)
    offsets = shard.offsets.get(group_id, _EMPTY_OFFSETS)
    return _GroupFetch(
        group_id,
        _all_topics(offsets) if group_request.topics is None else group_request.topics,
        offsets,
    )


def _check(shard: GroupCoordinatorShard, group_request: GroupRequest) -> None:
    group = shard.groups.get(group_request.group_id)
    if group is not None:
        group.validate_offset_fetch(group_request.member_id, group_request.member_epoch)


def _all_topics(offsets: GroupOffsets) -> Iterable[TopicRequest]:
    by_name: dict[str, TopicRequest] = {}
    for topic, partition in offsets.committed:
        request = by_name.get(topic)
        if request is None:
            request = by_name[topic] = TopicRequest(name=topic, partition_indexes=[])
        request.partition_indexes.append(partition)
    return by_name.values()


def _partition_responses(
    group_fetch: _GroupFetch, topic: TopicRequest, topic_class: type[Topic], require_stable: bool
) -> Iterator[Any]:
    """Yield partition responses of the class that belongs to ``topic_class``."""
    name, offsets, partition_class = topic.name, group_fetch.offsets, topic_class.Partition
    for index in topic.partition_indexes:
        topic_partition = (name, index)
        is_unstable = require_stable and offsets.pending and offsets.is_pending(topic_partition)
        commit = _NO_COMMIT if is_unstable else offsets.committed.get(topic_partition, _NO_COMMIT)
        yield partition_class(
            partition_index=index,
            committed_offset=commit.offset,
            committed_leader_epoch=commit.leader_epoch,
            metadata=commit.metadata,
            error_code=_UNSTABLE if is_unstable else _NONE,
        )


# Response layout by version


def _topic_class(request: Request[OffsetFetchRequest]) -> type[Topic]:
    return Group.Topic if request.version >= _FIRST_BATCHED_VERSION else Response.Topic


def _build_response(
    request: Request[OffsetFetchRequest],
    group_fetches: Sequence[_GroupFetch],
    topics: Sequence[list[Any]],
) -> Response:
    """``topics`` has the topic responses of each group, in the class for the version."""
    if request.version >= _FIRST_BATCHED_VERSION:
        return Response(
            groups=[
                Group(group_id=each.group_id, topics=group_topics, error_code=code_of(each.error))
                for each, group_topics in zip(group_fetches, topics, strict=True)
            ]
        )
    (group_fetch,) = group_fetches
    (group_topics,) = topics
    code = code_of(group_fetch.error)
    if code and request.version < _FIRST_VERSION_WITH_GROUP_ERROR:
        group_topics = _topic_errors(request.body.topics or (), code)
    return Response(topics=group_topics, error_code=code)


def _topic_errors(
    topics: Iterable[OffsetFetchRequest.Topic], error_code: int
) -> list[Response.Topic]:
    return [
        Response.Topic(
            name=topic.name,
            partitions=[
                _partition_response(index, _NO_OFFSET, error_code)
                for index in topic.partition_indexes
            ],
        )
        for topic in topics
    ]


def _partition_response(index: int, offset: int, error_code: int) -> PartitionResponse:
    return PartitionResponse(
        partition_index=index, committed_offset=offset, metadata="", error_code=error_code
    )


# Version 0


async def _fetch_from_zookeeper(
    metadata_cache: ClusterMetadata, zookeeper_offsets: ZooKeeperOffsets, body: OffsetFetchRequest
) -> Response:
    response = Response(topics=[])
    for topic in body.topics or ():
        indexes = topic.partition_indexes
        known = [index for index in indexes if metadata_cache.has_partition(topic.name, index)]
        committed = await zookeeper_offsets.fetch(
            body.group_id, [(topic.name, index) for index in known]
        )
        offsets = dict(zip(known, committed, strict=True))
        partitions = [_zookeeper_partition_response(index, offsets.get(index)) for index in indexes]
        response.topics.append(Response.Topic(name=topic.name, partitions=partitions))
    return response


def _zookeeper_partition_response(index: int, offset: int | None) -> PartitionResponse:
    return (
        _partition_response(index, _NO_OFFSET, _UNKNOWN)
        if offset is None
        else _partition_response(index, offset, _NONE)
    )


def error_response(request: Request[OffsetFetchRequest], error: KafkaError) -> Response:
    """Return the same error for every group."""
    group_fetches = [
        _GroupFetch(each.group_id, (), _EMPTY_OFFSETS, error) for each in _group_requests(request)
    ]
    return _build_response(request, group_fetches, [[] for _ in group_fetches])
