"""DescribeTopicPartitions: topics page by page, in the order of their names.

A page ends where it has as many partitions as the client wants, or as this broker gives away at
once; the next begins where the cursor says.  A partition without a leader is no error here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Iterator, Mapping
from typing import Protocol

from odradek.broker.call import Call
from odradek.broker.metadata import authorized_operations
from odradek.broker.metadata.internal_topics import INTERNAL_TOPICS
from odradek.broker.metadata.picture import Node, PartitionState, Picture, Topic
from odradek.broker.turns import FEW, Turn
from odradek.controller.leadership import NO_LEADER
from odradek.controller.topic_names import is_topic_name
from odradek.protocol.api.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import InvalidRequest, KafkaError, code_of
from odradek.protocol.types import ZERO_UUID

Request = DescribeTopicPartitionsRequest
Response = DescribeTopicPartitionsResponse
_Nodes = Mapping[int, Node]
_States = dict[str | None, list[PartitionState]]


class Cluster(Protocol):
    """What is known of the cluster."""

    @property
    def picture(self) -> Picture: ...


def handle(
    cluster: Cluster, partitions_max: int, call: Call[Request]
) -> Response | Awaitable[Response]:
    """``partitions_max`` is max.request.partition.size.limit."""
    page, states_of = _page(call.request, cluster.picture, partitions_max)
    nodes = cluster.picture.brokers.at(call.peer.listener)
    if sum(map(len, states_of.values())) > FEW:
        return _filled_in_turns(page, states_of, nodes)
    for topic in page.topics:
        topic.partitions = [_partition(state, nodes) for state in states_of.get(topic.name, ())]
    return page


async def _filled_in_turns(page: Response, states_of: _States, nodes: _Nodes) -> Response:
    turn = Turn()
    for topic in page.topics:
        states = states_of.get(topic.name, ())
        topic.partitions = await turn.listed(_partition(state, nodes) for state in states)
    return page


def _page(request: Request, picture: Picture, partitions_max: int) -> tuple[Response, _States]:
    """With its topics, and what is to be shown of their partitions, by the topics' names."""
    cursor = request.cursor
    page = Response(throttle_time_ms=0, topics=[])
    states_of: _States = {}
    left = max(min(partitions_max, request.response_partition_limit), 1)
    for name in _names(request, picture):
        if not left:
            page.next_cursor = Response.Cursor(topic_name=name, partition_index=0)
            break
        topic = picture.topics.get(name)
        if topic is None:
            page.topics.append(_missing(name))
            continue
        first = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        end = min(first + left, len(topic.partitions))
        numbers = _present(topic, range(first, end))
        states_of[name] = [topic.partitions[number] for number in numbers]
        page.topics.append(_without_partitions(topic))
        if end < len(topic.partitions):
            page.next_cursor = Response.Cursor(topic_name=name, partition_index=end)
            break
        left -= len(states_of[name])
    return page, states_of


def refused(call: Call[Request], failure: KafkaError) -> Response:
    return Response(
        throttle_time_ms=0,
        topics=[
            Response.Topic(
                error_code=code_of(failure), name=each.name, topic_id=ZERO_UUID, partitions=[]
            )
            for each in call.request.topics
        ],
    )


def _names(request: Request, picture: Picture) -> list[str]:
    """Those that are asked for, from the cursor on."""
    cursor = request.cursor
    named = {each.name for each in request.topics}
    if cursor is not None and named and cursor.topic_name not in named:
        raise InvalidRequest(f"The cursor's topic is not asked for: {cursor.topic_name}.")
    if cursor is not None and cursor.partition_index < 0:
        raise InvalidRequest(f"There is no partition {cursor.partition_index} to begin with.")
    first = "" if cursor is None else cursor.topic_name
    return sorted(name for name in named or picture.topics if name >= first)


def _present(topic: Topic, numbers: Iterable[int]) -> Iterator[int]:
    return (number for number in numbers if number in topic.partitions)


def _missing(name: str) -> Response.Topic:
    error = (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if is_topic_name(name)
        else ErrorCode.INVALID_TOPIC_EXCEPTION
    )
    return Response.Topic(
        error_code=error.code,
        name=name,
        topic_id=ZERO_UUID,
        is_internal=name in INTERNAL_TOPICS,
        partitions=[],
        topic_authorized_operations=authorized_operations.ON_A_TOPIC,
    )


def _without_partitions(topic: Topic) -> Response.Topic:
    return Response.Topic(
        error_code=ErrorCode.NONE.code,
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[],
        topic_authorized_operations=authorized_operations.ON_A_TOPIC,
    )


def _partition(state: PartitionState, nodes: _Nodes) -> Response.Topic.Partition:
    """Leaders that are eligible though not in sync are known to KRaft alone."""
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
