"""DescribeProducers: the idempotent producers that a partition remembers."""

from __future__ import annotations

from typing import Protocol

from odradek.broker.call import Call
from odradek.broker.replicas.partition import Partition
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
) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        throttle_time_ms=0,
        topics=[
            Topic(name=asked.name, partitions=_lines(replicas, cluster, asked))
            for asked in call.request.topics
        ],
    )


def _lines(replicas: Replicas, cluster: Cluster, asked: Asked) -> list[Line]:
    try:
        check_topic_name(asked.name)
        if not cluster.has_topic(asked.name):
            raise UnknownTopicOrPartition(f"there is no {asked.name}")
    except KafkaError as failure:
        return [_failed(index, failure, failure.message) for index in asked.partition_indexes]
    return [_line(replicas, asked.name, index) for index in asked.partition_indexes]


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
