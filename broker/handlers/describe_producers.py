"""DescribeProducers: the idempotent producers that a partition remembers."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Iterator
from typing import Protocol

from odradek.broker.call import Call
from odradek.broker.replicas.partition import Partition
from odradek.broker.turns import FEW, Turn
from odradek.controller.topic_names import check_topic_name
from odradek.protocol.api.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
)
from odradek.protocol.errors import KafkaError, UnknownTopicOrPartition, code_of

NO_TRANSACTION = -1

Asked = DescribeProducersRequest.Topic
Topic = DescribeProducersResponse.Topic
Line = Topic.Partition


class Replicas(Protocol):
    """The part of the replica manager that is needed here."""

    def partition(self, topic: str, index: int, /) -> Partition: ...


class Cluster(Protocol):
    """The part of the cluster's picture that is needed here."""

    def has_topic(self, name: str, /) -> bool: ...


def handle(
    replicas: Replicas, cluster: Cluster, call: Call[DescribeProducersRequest]
) -> DescribeProducersResponse | Awaitable[DescribeProducersResponse]:
    topics = call.request.topics
    if sum(len(asked.partition_indexes) for asked in topics) > FEW:
        return _answer_in_turns(replicas, cluster, topics)
    return DescribeProducersResponse(
        throttle_time_ms=0,
        topics=[
            Topic(name=asked.name, partitions=list(_lines(replicas, cluster, asked)))
            for asked in topics
        ],
    )


async def _answer_in_turns(
    replicas: Replicas, cluster: Cluster, topics: Iterable[Asked]
) -> DescribeProducersResponse:
    turn, response = Turn(), DescribeProducersResponse(throttle_time_ms=0, topics=[])
    for asked in topics:
        lines = await turn.listed(_lines(replicas, cluster, asked))
        response.topics.append(Topic(name=asked.name, partitions=lines))
    return response


def _lines(replicas: Replicas, cluster: Cluster, asked: Asked) -> Iterator[Line]:
    try:
        check_topic_name(asked.name)
        if not cluster.has_topic(asked.name):
            raise UnknownTopicOrPartition(f"there is no {asked.name}")
    except KafkaError as failure:
        for index in asked.partition_indexes:
            yield _failed(index, failure, failure.message)
        return
    for index in asked.partition_indexes:
        yield _line(replicas, asked.name, index)


def _line(replicas: Replicas, topic: str, index: int) -> Line:
    try:
        partition = replicas.partition(topic, index)
    except KafkaError as failure:
        return _failed(index, failure)
    return Line(
        partition_index=index,
        error_code=0,
        active_producers=[
            Line.Producer(
                producer_id=producer_id,
                producer_epoch=state.epoch,
                last_sequence=state.last_sequence,
                last_timestamp=state.last_timestamp,
                coordinator_epoch=state.coordinator_epoch,
                current_txn_start_offset=(
                    NO_TRANSACTION
                    if state.transaction_first_offset is None
                    else state.transaction_first_offset
                ),
            )
            for producer_id, state in partition.log.producers.states.items()
        ],
    )


def _failed(index: int, failure: KafkaError, message: str | None = None) -> Line:
    return Line(
        partition_index=index,
        error_code=code_of(failure),
        error_message=message,
        active_producers=[],
    )


def refused(call: Call[DescribeProducersRequest], failure: KafkaError) -> DescribeProducersResponse:
    """All of it, for one reason."""
    return DescribeProducersResponse(
        throttle_time_ms=0,
        topics=[
            Topic(
                name=asked.name,
                partitions=[_failed(index, failure) for index in asked.partition_indexes],
            )
            for asked in call.request.topics
        ],
    )
