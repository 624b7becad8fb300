"""DescribeProducers: the idempotent producers that a partition remembers."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Iterator
from itertools import islice
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
from odradek.storage.producers.append import ProducerState

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
    response = DescribeProducersResponse(throttle_time_ms=0, topics=[])
    describing = _described(replicas, cluster, call.request.topics, response)
    if sum(1 for _ in islice(describing, FEW)) < FEW:
        return response
    return _answer_in_turns(describing, response)


async def _answer_in_turns(
    describing: Iterator[None], response: DescribeProducersResponse
) -> DescribeProducersResponse:
    turn = Turn()
    for _ in describing:
        if turn.is_over:
            await turn.next()
    return response


def _described(
    replicas: Replicas,
    cluster: Cluster,
    topics: Iterable[Asked],
    response: DescribeProducersResponse,
) -> Iterator[None]:
    """Go on by one partition or producer at a time."""
    for asked in topics:
        topic = Topic(name=asked.name, partitions=[])
        response.topics.append(topic)
        try:
            check_topic_name(asked.name)
            if not cluster.has_topic(asked.name):
                raise UnknownTopicOrPartition(f"there is no {asked.name}")
        except KafkaError as failure:
            for index in asked.partition_indexes:
                topic.partitions.append(_failed(index, failure, failure.message))
                yield
            continue
        for index in asked.partition_indexes:
            line = Line(partition_index=index, error_code=0, active_producers=[])
            try:
                states = replicas.partition(asked.name, index).log.producers.states
            except KafkaError as failure:
                line, states = _failed(index, failure), {}
            topic.partitions.append(line)
            yield
            # Who comes or goes meanwhile may be missed, or shown.
            for producer_id, state in [*states.items()]:
                line.active_producers.append(_shown(producer_id, state))
                yield


def _shown(producer_id: int, state: ProducerState) -> Line.Producer:
    begin = state.transaction_first_offset
    return Line.Producer(
        producer_id=producer_id,
        producer_epoch=state.epoch,
        last_sequence=state.last_sequence,
        last_timestamp=state.last_timestamp,
        coordinator_epoch=state.coordinator_epoch,
        current_txn_start_offset=NO_TRANSACTION if begin is None else begin,
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
