"""DescribeProducers: the active idempotent and transactional producers of partitions."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Iterator
from itertools import islice
from typing import Protocol

from odradek.broker.replicas.partition import Partition
from odradek.broker.request import Request
from odradek.broker.time_slice import INLINE_ENTRIES_MAX, TimeSlice
from odradek.controller.topic_names import check_topic_name
from odradek.protocol.api.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
)
from odradek.protocol.errors import KafkaError, UnknownTopicOrPartition, code_of
from odradek.storage.producer_state.producer_state_entry import ProducerStateEntry

NO_TRANSACTION = -1

TopicRequest = DescribeProducersRequest.Topic
Topic = DescribeProducersResponse.Topic
PartitionResponse = Topic.Partition


class HostedPartitions(Protocol):
    """The part of the replica manager that this handler needs."""

    def partition(self, topic: str, index: int, /) -> Partition: ...


class ClusterMetadata(Protocol):
    """The part of the metadata cache that this handler needs."""

    def has_topic(self, name: str, /) -> bool: ...


def handle(
    replica_manager: HostedPartitions,
    metadata_cache: ClusterMetadata,
    request: Request[DescribeProducersRequest],
) -> DescribeProducersResponse | Awaitable[DescribeProducersResponse]:
    response = DescribeProducersResponse(throttle_time_ms=0, topics=[])
    steps = _describe_topics(replica_manager, metadata_cache, request.body.topics, response)
    if sum(1 for _ in islice(steps, INLINE_ENTRIES_MAX)) < INLINE_ENTRIES_MAX:
        return response
    return _respond_sliced(steps, response)


async def _respond_sliced(
    steps: Iterator[None], response: DescribeProducersResponse
) -> DescribeProducersResponse:
    time_slice = TimeSlice()
    for _ in steps:
        if time_slice.is_used_up:
            await time_slice.yield_to_loop()
    return response


def _describe_topics(
    replica_manager: HostedPartitions,
    metadata_cache: ClusterMetadata,
    topics: Iterable[TopicRequest],
    response: DescribeProducersResponse,
) -> Iterator[None]:
    """Fill in the response; each step of the iterator adds one partition or one producer."""
    for topic_request in topics:
        topic = Topic(name=topic_request.name, partitions=[])
        response.topics.append(topic)
        try:
            check_topic_name(topic_request.name)
            if not metadata_cache.has_topic(topic_request.name):
                raise UnknownTopicOrPartition(f"unknown topic {topic_request.name}")
        except KafkaError as error:
            for index in topic_request.partition_indexes:
                topic.partitions.append(_partition_error(index, error, error.message))
                yield
            continue
        for index in topic_request.partition_indexes:
            partition_response = PartitionResponse(
                partition_index=index, error_code=0, active_producers=[]
            )
            try:
                states = replica_manager.partition(
                    topic_request.name, index
                ).log.producer_state_manager.active_producers
            except KafkaError as error:
                partition_response, states = _partition_error(index, error), {}
            topic.partitions.append(partition_response)
            yield
            # Producers that appear or expire during the iteration may or may not be listed.
            for producer_id, state in [*states.items()]:
                partition_response.active_producers.append(_producer_state(producer_id, state))
                yield


def _producer_state(producer_id: int, state: ProducerStateEntry) -> PartitionResponse.Producer:
    first_offset = state.current_txn_first_offset
    return PartitionResponse.Producer(
        producer_id=producer_id,
        producer_epoch=state.epoch,
        last_sequence=state.last_sequence,
        last_timestamp=state.last_timestamp,
        coordinator_epoch=state.coordinator_epoch,
        current_txn_start_offset=NO_TRANSACTION if first_offset is None else first_offset,
    )


def _partition_error(
    index: int, error: KafkaError, message: str | None = None
) -> PartitionResponse:
    return PartitionResponse(
        partition_index=index,
        error_code=code_of(error),
        error_message=message,
        active_producers=[],
    )


def error_response(
    request: Request[DescribeProducersRequest], error: KafkaError
) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        throttle_time_ms=0,
        topics=[
            Topic(
                name=topic_request.name,
                partitions=[
                    _partition_error(index, error) for index in topic_request.partition_indexes
                ],
            )
            for topic_request in request.body.topics
        ],
    )
