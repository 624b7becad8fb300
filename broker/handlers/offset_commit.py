"""OffsetCommit: a group, or a consumer without a group, commits offsets.

Version 0 stores offsets in the metadata store, all others in the log of the group.  An unknown
partition, or one with too much metadata, is rejected individually.  An error of the group or of its
log is the error of all known partitions.
"""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial
from typing import Protocol

from odradek.broker.groups.coordinator import GroupCoordinator
from odradek.broker.groups.group import Committer
from odradek.broker.groups.offset_commits import (
    OffsetCommitEntry,
    commit_offsets,
    wait_until_replicated,
)
from odradek.broker.groups.offsets import NO_EXPIRE_TIMESTAMP, TopicPartitionTuple
from odradek.broker.groups.shard import GroupCoordinatorShard
from odradek.broker.request import DelayedOperation, Request
from odradek.protocol.api.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import KafkaError, code_of
from odradek.storage.unified_log import LogAppendInfo

Topic = OffsetCommitResponse.Topic
PartitionResponse = Topic.Partition
PartitionRequest = OffsetCommitRequest.Topic.Partition
Response = OffsetCommitResponse

_NONE = ErrorCode.NONE.code
_UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.code
_TOO_LARGE = ErrorCode.OFFSET_METADATA_TOO_LARGE.code
_UNSET = -1
_FIRST_VERSION_WITH_MEMBER_EPOCH = 9


class ClusterMetadata(Protocol):
    """The part of the metadata cache that this handler needs."""

    def has_partition(self, topic: str, partition: int, /) -> bool: ...


class ZooKeeperOffsets(Protocol):
    """The offsets in the metadata store, which version 0 commits."""

    async def commit(
        self, group_id: str, partition: TopicPartitionTuple, offset: int, /
    ) -> None: ...


def handle(
    groups: GroupCoordinator,
    metadata_cache: ClusterMetadata,
    zookeeper_offsets: ZooKeeperOffsets,
    request: Request[OffsetCommitRequest],
) -> Response | Awaitable[Response]:
    if request.version == 0:
        return _commit_to_zookeeper(groups, metadata_cache, zookeeper_offsets, request)
    body, context = request.body, groups.context
    metadata_max_bytes, now_ms = context.settings.metadata_max_bytes, context.now_ms()
    expires_ms = (
        NO_EXPIRE_TIMESTAMP if body.retention_time_ms == _UNSET else now_ms + body.retention_time_ms
    )
    topics: list[Topic] = []
    commits: list[OffsetCommitEntry] = []
    known_responses: list[PartitionResponse] = []
    for topic in body.topics:
        name, partition_responses = topic.name, []
        for partition_request in topic.partitions:
            index = partition_request.partition_index
            code = _validate(metadata_cache, name, partition_request, metadata_max_bytes)
            partition_response = PartitionResponse(partition_index=index, error_code=code)
            partition_responses.append(partition_response)
            if code == _NONE:
                metadata, timestamp_ms = (
                    partition_request.committed_metadata or "",
                    partition_request.commit_timestamp,
                )
                committed_ms = now_ms if timestamp_ms == _UNSET else timestamp_ms
                commits.append(
                    OffsetCommitEntry(
                        (name, index),
                        partition_request.committed_offset,
                        partition_request.committed_leader_epoch,
                        metadata,
                        committed_ms,
                        expires_ms,
                    )
                )
            if code != _UNKNOWN:
                known_responses.append(partition_response)
        topics.append(Topic(name=name, partitions=partition_responses))
    response = Response(topics=topics)
    return (
        _commit(groups, request, commits, known_responses, response)
        if known_responses
        else response
    )


def _commit(
    groups: GroupCoordinator,
    request: Request[OffsetCommitRequest],
    commits: list[OffsetCommitEntry],
    partition_responses: list[PartitionResponse],
    response: Response,
) -> Response | DelayedOperation[Response]:
    """``partition_responses`` are those of the known partitions."""
    body = request.body
    group_id = body.group_id
    committer = Committer(
        body.member_id,
        body.group_instance_id,
        body.generation_id_or_member_epoch,
        request.version >= _FIRST_VERSION_WITH_MEMBER_EPOCH,
    )
    try:
        shard = groups.shard(group_id)
        append_info = commit_offsets(shard, group_id, committer, commits)
    except KafkaError as error:
        _set_error(partition_responses, error)
        return response
    if append_info is None or shard.log.is_replicated(append_info):
        return response
    return DelayedOperation(
        partial(_respond_when_replicated, shard, append_info, partition_responses, response),
        completes_on_shutdown=True,
    )


async def _respond_when_replicated(
    shard: GroupCoordinatorShard,
    append_info: LogAppendInfo,
    partition_responses: list[PartitionResponse],
    response: Response,
) -> Response:
    try:
        await wait_until_replicated(shard, append_info)
    except KafkaError as error:
        _set_error(partition_responses, error)
    return response


def _set_error(partition_responses: list[PartitionResponse], error: KafkaError) -> None:
    code = code_of(error)
    for partition_response in partition_responses:
        partition_response.error_code = code


def _validate(
    metadata_cache: ClusterMetadata,
    topic: str,
    partition_request: PartitionRequest,
    metadata_max_bytes: int,
) -> int:
    if not metadata_cache.has_partition(topic, partition_request.partition_index):
        return _UNKNOWN
    metadata = partition_request.committed_metadata
    return _TOO_LARGE if metadata is not None and len(metadata) > metadata_max_bytes else _NONE


async def _commit_to_zookeeper(
    groups: GroupCoordinator,
    metadata_cache: ClusterMetadata,
    zookeeper_offsets: ZooKeeperOffsets,
    request: Request[OffsetCommitRequest],
) -> Response:
    body, metadata_max_bytes = request.body, groups.context.settings.metadata_max_bytes
    response = Response(topics=[])
    for topic in body.topics:
        partition_responses = []
        for partition_request in topic.partitions:
            code = _validate(metadata_cache, topic.name, partition_request, metadata_max_bytes)
            if code == _NONE:
                topic_partition = (topic.name, partition_request.partition_index)
                await zookeeper_offsets.commit(
                    body.group_id, topic_partition, partition_request.committed_offset
                )
            partition_responses.append(
                PartitionResponse(
                    partition_index=partition_request.partition_index, error_code=code
                )
            )
        response.topics.append(Topic(name=topic.name, partitions=partition_responses))
    return response


def error_response(request: Request[OffsetCommitRequest], error: KafkaError) -> Response:
    """Return the same error for every partition."""
    code = code_of(error)
    return Response(
        topics=[
            Topic(
                name=topic.name,
                partitions=[
                    PartitionResponse(
                        partition_index=partition_request.partition_index, error_code=code
                    )
                    for partition_request in topic.partitions
                ],
            )
            for topic in request.body.topics
        ]
    )
