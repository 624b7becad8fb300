"""DeleteRecords: drop the oldest records by moving the start of a log forward.

Each partition succeeds or fails alone.  The answer waits until all replicas have followed, or the
time is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from odradek.broker.call import Call, Parked
from odradek.broker.metadata.internal_topics import INTERNAL_TOPICS
from odradek.broker.replicas.delete_records import RecordDeletion
from odradek.broker.replicas.partition import Partition
from odradek.broker.turns import FEW, Turn
from odradek.protocol.api.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from odradek.protocol.errors import InvalidTopic, KafkaError, UnknownTopicOrPartition, code_of
from odradek.protocol.types import TopicPartition
from odradek.storage.manager.hosted_log import HostedLog

NO_LOW_WATERMARK = -1

Asked = DeleteRecordsRequest.Topic.Partition
Topic = DeleteRecordsResponse.Topic
Line = Topic.Partition


class Replicas(Protocol):
    """The part of the replica manager that is needed here."""

    def partition(self, topic: str, index: int, /) -> Partition: ...


class Copies(Protocol):
    """Logs on their way to other directories."""

    def find_future(self, partition: TopicPartition, /) -> HostedLog | None: ...


class Cluster(Protocol):
    """The part of the cluster's picture that is needed here."""

    def has_partition(self, topic: str, partition: int, /) -> bool: ...

    def is_alive(self, broker: int, /) -> bool: ...


@dataclass(slots=True)
class Outcome:
    """What became of one partition; changed while it waits, and then told."""

    index: int
    deletion: RecordDeletion | None = None
    failure: KafkaError | None = None


Answer = DeleteRecordsResponse | Awaitable[DeleteRecordsResponse]
#: Of each topic, in the order of the request.
Outcomes = list[list[Outcome]]


def handle(
    replicas: Replicas, copies: Copies, cluster: Cluster, call: Call[DeleteRecordsRequest]
) -> Answer | Awaitable[Answer]:
    request = call.request
    deleting = Deleting(replicas, copies, cluster)
    if sum(len(topic.partitions) for topic in request.topics) > FEW:
        return _delete_in_turns(deleting, request)
    return _answer(request, [list(deleting.outcomes(topic)) for topic in request.topics])


async def _delete_in_turns(deleting: Deleting, request: DeleteRecordsRequest) -> Answer:
    turn = Turn()
    outcomes = [await turn.listed(deleting.outcomes(topic)) for topic in request.topics]
    return _answer(request, outcomes)


def _answer(request: DeleteRecordsRequest, outcomes: Outcomes) -> Answer:
    waiting = [
        outcome
        for outcomes_of in outcomes
        for outcome in outcomes_of
        if outcome.deletion is not None and not outcome.deletion.is_done()
    ]
    if waiting:
        return Parked(partial(_answer_later, request, outcomes, waiting))
    return _response(request, outcomes)


class Deleting:
    """Deletes on this broker."""

    def __init__(self, replicas: Replicas, copies: Copies, cluster: Cluster) -> None:
        self._replicas = replicas
        self._copies = copies
        self._cluster = cluster

    def outcomes(self, topic: DeleteRecordsRequest.Topic) -> Iterator[Outcome]:
        return (self._outcome(topic.name, asked) for asked in topic.partitions)

    def _outcome(self, topic: str, asked: Asked) -> Outcome:
        index = asked.partition_index
        try:
            if not self._cluster.has_partition(topic, index):
                raise UnknownTopicOrPartition(f"there is no {topic}-{index}")
            if topic in INTERNAL_TOPICS:
                raise InvalidTopic(f"records of {topic} are not deleted by clients")
            deletion = RecordDeletion(
                self._replicas.partition(topic, index),
                asked.offset,
                is_alive=self._cluster.is_alive,
                copy=partial(self._copies.find_future, TopicPartition(topic, index)),
            )
        except KafkaError as failure:
            return Outcome(index, failure=failure)
        return Outcome(index, deletion)


async def _answer_later(
    request: DeleteRecordsRequest, outcomes: Outcomes, waiting: list[Outcome]
) -> DeleteRecordsResponse:
    """One after the other: what the first waited for, the others had time for as well."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + request.timeout_ms / 1000
    for outcome in waiting:
        assert outcome.deletion is not None, outcome
        try:
            await outcome.deletion.wait_until_done(max(0.0, deadline - loop.time()))
        except KafkaError as failure:
            outcome.failure = failure
    return _response(request, outcomes)


def _response(request: DeleteRecordsRequest, outcomes: Outcomes) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        throttle_time_ms=0,
        topics=[
            Topic(name=topic.name, partitions=[_line(outcome) for outcome in outcomes_of])
            for topic, outcomes_of in zip(request.topics, outcomes, strict=True)
        ],
    )


def _line(outcome: Outcome) -> Line:
    failure, low_watermark = outcome.failure, NO_LOW_WATERMARK
    try:
        if outcome.deletion is not None:
            low_watermark = outcome.deletion.low_watermark()
    except KafkaError as lost:
        failure = failure or lost
    return Line(
        partition_index=outcome.index, low_watermark=low_watermark, error_code=code_of(failure)
    )


def refused(call: Call[DeleteRecordsRequest], failure: KafkaError) -> DeleteRecordsResponse:
    """All of it, for one reason."""
    outcomes = [
        [Outcome(asked.partition_index, failure=failure) for asked in topic.partitions]
        for topic in call.request.topics
    ]
    return _response(call.request, outcomes)
