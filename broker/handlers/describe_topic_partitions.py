"""DescribeTopicPartitions: topics page by page, in the order of their names.

A page ends when it reaches the partition limit of the request or of this broker.  The next page
begins at the cursor.  A partition without a leader is not an error here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Iterator, Mapping
from typing import Protocol

from odradek.broker.metadata import authorized_operations
from odradek.broker.metadata.internal_topics import INTERNAL_TOPICS
from odradek.broker.metadata.metadata_snapshot import MetadataSnapshot, Node, PartitionState, Topic
from odradek.broker.request import Request
from odradek.broker.time_slice import INLINE_ENTRIES_MAX, TimeSlice
from odradek.controller.leader_and_isr import NO_LEADER
from odradek.controller.topic_names import is_valid_topic_name
from odradek.protocol.api.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import InvalidRequest, KafkaError, code_of
from odradek.protocol.types import ZERO_UUID

Body = DescribeTopicPartitionsRequest
Response = DescribeTopicPartitionsResponse
_Nodes = Mapping[int, Node]
_States = dict[str | None, list[PartitionState]]


class ClusterMetadata(Protocol):
    """The part of the metadata cache that this handler needs."""

    @property
    def snapshot(self) -> MetadataSnapshot: ...


def handle(
    metadata_cache: ClusterMetadata, partitions_max: int, request: Request[Body]
) -> Response | Awaitable[Response]:
    """``partitions_max`` is max.request.partition.size.limit."""
    page, states_by_topic = _build_page(request.body, metadata_cache.snapshot, partitions_max)
    nodes = metadata_cache.snapshot.brokers.nodes_for_listener(request.context.listener)
    if sum(map(len, states_by_topic.values())) > INLINE_ENTRIES_MAX:
        return _fill_page_sliced(page, states_by_topic, nodes)
    for topic in page.topics:
        topic.partitions = [
            _partition_response(state, nodes) for state in states_by_topic.get(topic.name, ())
        ]
    return page


async def _fill_page_sliced(page: Response, states_by_topic: _States, nodes: _Nodes) -> Response:
    time_slice = TimeSlice()
    for topic in page.topics:
        states = states_by_topic.get(topic.name, ())
        topic.partitions = await time_slice.collect(
            _partition_response(state, nodes) for state in states
        )
    return page


def _build_page(
    body: Body, snapshot: MetadataSnapshot, partitions_max: int
) -> tuple[Response, _States]:
    """Return the page with its topics, still without partitions, and the states to fill in."""
    cursor = body.cursor
    page = Response(throttle_time_ms=0, topics=[])
    states_by_topic: _States = {}
    remaining = max(min(partitions_max, body.response_partition_limit), 1)
    for name in _requested_topics(body, snapshot):
        if not remaining:
            page.next_cursor = Response.Cursor(topic_name=name, partition_index=0)
            break
        topic = snapshot.topics.get(name)
        if topic is None:
            page.topics.append(_missing_topic(name))
            continue
        first = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        end = min(first + remaining, len(topic.partitions))
        indexes = _existing_partitions(topic, range(first, end))
        states_by_topic[name] = [topic.partitions[index] for index in indexes]
        page.topics.append(_topic_without_partitions(topic))
        if end < len(topic.partitions):
            page.next_cursor = Response.Cursor(topic_name=name, partition_index=end)
            break
        remaining -= len(states_by_topic[name])
    return page, states_by_topic


def error_response(request: Request[Body], error: KafkaError) -> Response:
    return Response(
        throttle_time_ms=0,
        topics=[
            Response.Topic(
                error_code=code_of(error), name=each.name, topic_id=ZERO_UUID, partitions=[]
            )
            for each in request.body.topics
        ],
    )


def _requested_topics(body: Body, snapshot: MetadataSnapshot) -> list[str]:
    """Return the requested topics from the cursor on, in the order of their names."""
    cursor = body.cursor
    requested = {each.name for each in body.topics}
    if cursor is not None and requested and cursor.topic_name not in requested:
        raise InvalidRequest(
            "DescribeTopicPartitionsRequest topic list should contain the cursor topic: "
            f"{cursor.topic_name}"
        )
    if cursor is not None and cursor.partition_index < 0:
        raise InvalidRequest(
            "DescribeTopicPartitionsRequest cursor partition must be valid: "
            f"{cursor.partition_index}"
        )
    first = "" if cursor is None else cursor.topic_name
    return sorted(name for name in requested or snapshot.topics if name >= first)


def _existing_partitions(topic: Topic, indexes: Iterable[int]) -> Iterator[int]:
    return (index for index in indexes if index in topic.partitions)


def _missing_topic(name: str) -> Response.Topic:
    error = (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if is_valid_topic_name(name)
        else ErrorCode.INVALID_TOPIC_EXCEPTION
    )
    return Response.Topic(
        error_code=error.code,
        name=name,
        topic_id=ZERO_UUID,
        is_internal=name in INTERNAL_TOPICS,
        partitions=[],
        topic_authorized_operations=authorized_operations.TOPIC_OPERATIONS,
    )


def _topic_without_partitions(topic: Topic) -> Response.Topic:
    return Response.Topic(
        error_code=ErrorCode.NONE.code,
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[],
        topic_authorized_operations=authorized_operations.TOPIC_OPERATIONS,
    )


def _partition_response(state: PartitionState, nodes: _Nodes) -> Response.Topic.Partition:
    """Describe one partition; only KRaft has eligible leader replicas (ELR)."""
    return Response.Topic.Partition(
        error_code=ErrorCode.NONE.code,
        partition_index=state.partition_index,
        leader_id=state.leader if state.leader in nodes else NO_LEADER,
        leader_epoch=state.leader_epoch,
        replica_nodes=state.replicas,
        isr_nodes=state.isr,
        eligible_leader_replicas=[],
        last_known_elr=[],
        offline_replicas=state.offline_replicas,
    )
