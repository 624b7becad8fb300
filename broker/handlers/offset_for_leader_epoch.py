"""OffsetForLeaderEpoch: where did a leader epoch end in the log of its present leader?

Followers and consumers ask it to find out where their log, or what they have read, parts from the
leader's.  An epoch that is not known is answered without an error, by end offset -1.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from typing import Protocol

from odradek.broker.call import Call
from odradek.broker.replicas.partition import Partition
from odradek.broker.turns import FEW, Turn
from odradek.protocol.api.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from odradek.protocol.errors import KafkaError, code_of

Asked = OffsetForLeaderEpochRequest.Topic.Partition
Topic = OffsetForLeaderEpochResponse.Topic
Line = Topic.Partition


class Replicas(Protocol):
    """The part of the replica manager that is needed here."""

    def partition(self, topic: str, index: int, /) -> Partition: ...


def handle(
    replicas: Replicas, call: Call[OffsetForLeaderEpochRequest]
) -> OffsetForLeaderEpochResponse | Awaitable[OffsetForLeaderEpochResponse]:
    topics = call.request.topics
    if sum(len(topic.partitions) for topic in topics) > FEW:
        return _answer_in_turns(replicas, topics)
    return OffsetForLeaderEpochResponse(
        topics=[
            Topic(
                topic=topic.topic,
                partitions=[_line(replicas, topic.topic, asked) for asked in topic.partitions],
            )
            for topic in topics
        ]
    )


async def _answer_in_turns(
    replicas: Replicas, topics: Iterable[OffsetForLeaderEpochRequest.Topic]
) -> OffsetForLeaderEpochResponse:
    turn, response = Turn(), OffsetForLeaderEpochResponse(topics=[])
    for topic in topics:
        lines = await turn.listed(_line(replicas, topic.topic, asked) for asked in topic.partitions)
        response.topics.append(Topic(topic=topic.topic, partitions=lines))
    return response


def _line(replicas: Replicas, topic: str, asked: Asked) -> Line:
    try:
        partition = replicas.partition(topic, asked.partition)
        partition.leading(asked.current_leader_epoch)
        with partition.hosted as log:
            found = log.epochs.end_offset_for(asked.leader_epoch, log_end_offset=log.end_offset)
    except KafkaError as failure:
        return _failed(asked, failure)
    return Line(
        error_code=0,
        partition=asked.partition,
        leader_epoch=found.epoch,
        end_offset=found.end_offset,
    )


def _failed(asked: Asked, failure: KafkaError) -> Line:
    return Line(error_code=code_of(failure), partition=asked.partition)


def refused(
    call: Call[OffsetForLeaderEpochRequest], failure: KafkaError
) -> OffsetForLeaderEpochResponse:
    """All of it, for one reason."""
    return OffsetForLeaderEpochResponse(
        topics=[
            Topic(
                topic=topic.topic,
                partitions=[_failed(asked, failure) for asked in topic.partitions],
            )
            for topic in call.request.topics
        ]
    )
