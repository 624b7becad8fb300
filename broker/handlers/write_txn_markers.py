"""WriteTxnMarkers: coordinators end their transactions in the partitions that this broker leads.

Each partition gets a control batch for each marker, or refuses it alone.  The answer waits until
all in-sync replicas have them.  In ``__consumer_offsets`` a marker also decides about the offsets
that groups have pending, which are applied as soon as it is in the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from typing import NamedTuple, Protocol

from odradek.broker.call import Call, Parked
from odradek.broker.metadata.internal_topics import CONSUMER_OFFSETS
from odradek.broker.replicas.partition import ALL_IN_SYNC, Partition
from odradek.broker.turns import FEW, Turn
from odradek.protocol.api.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from odradek.protocol.errors import KafkaError, UnknownTopicOrPartition, code_of
from odradek.protocol.records.control import EndTransactionMarker, marker_batch
from odradek.protocol.types import TopicPartition, by_topic
from odradek.storage.log import Written
from odradek.storage.producers.append import AppendOrigin

Marker = WriteTxnMarkersRequest.Marker
Told = WriteTxnMarkersResponse.Marker
Response = WriteTxnMarkersResponse


class Replicas(Protocol):
    """The part of the replica manager that is needed here."""

    def partition(self, topic: str, index: int, /) -> Partition: ...


class Groups(Protocol):
    """Whoever has offsets pending in transactions."""

    def transaction_ended(self, index: int, producer_id: int, /, *, is_commit: bool) -> None: ...


class World(NamedTuple):
    """What writing markers needs beside the partitions."""

    groups: Groups
    now_ms: Callable[[], int]
    #: How long replicas may take.
    timeout_ms: int


#: By producer id and partition; of two markers of a producer for a partition, the last one's.
Outcomes = dict[int, dict[TopicPartition, int]]


class Waiting(NamedTuple):
    """A marker that is in the log, but perhaps not yet in those of the replicas."""

    outcomes: dict[TopicPartition, int]
    partition: Partition
    written: Written


def handle(
    replicas: Replicas, world: World, call: Call[WriteTxnMarkersRequest]
) -> Response | Awaitable[Response | Parked[Response]]:
    markers = call.request.markers
    outcomes: Outcomes = {}
    writing = _written(replicas, world, markers, outcomes)
    count = sum(len(topic.partition_indexes) for each in markers for topic in each.topics)
    if count > FEW:
        return _write_in_turns(writing, world, outcomes)
    return _answer([each for each in writing if each is not None], world, outcomes)


async def _write_in_turns(
    writing: Iterator[Waiting | None], world: World, outcomes: Outcomes
) -> Response | Parked[Response]:
    waiting = await Turn().listed(writing)
    return _answer([each for each in waiting if each is not None], world, outcomes)


def _answer(
    waiting: list[Waiting], world: World, outcomes: Outcomes
) -> Response | Parked[Response]:
    if waiting:
        return Parked(partial(_answer_later, waiting, world, outcomes), ends_alone=True)
    return _response(outcomes)


async def _answer_later(waiting: list[Waiting], world: World, outcomes: Outcomes) -> Response:
    """Each in turn: what the first waited for, the others had time for as well."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + world.timeout_ms / 1000
    for told, partition, written in waiting:
        left_s = max(0.0, deadline - loop.time())
        try:
            await partition.wait_until_acknowledged(written, acks=ALL_IN_SYNC, timeout_s=left_s)
        except KafkaError as failure:
            told[partition.topic_partition] = code_of(failure)
    return _response(outcomes)


def _written(
    replicas: Replicas, world: World, markers: list[Marker], outcomes: Outcomes
) -> Iterator[Waiting | None]:
    """Write one by one; None where there is nothing to wait for."""
    for marker in markers:
        told = outcomes.setdefault(marker.producer_id, {})
        for topic in marker.topics:
            for index in topic.partition_indexes:
                place = TopicPartition(topic.name, index)
                try:
                    partition, written = _write(replicas, world, marker, place)
                except KafkaError as failure:
                    told[place] = code_of(failure)
                    yield None
                    continue
                told[place] = 0
                is_done = partition.is_acknowledged(written, acks=ALL_IN_SYNC)
                yield None if is_done else Waiting(told, partition, written)


def _write(
    replicas: Replicas, world: World, marker: Marker, place: TopicPartition
) -> tuple[Partition, Written]:
    if marker.producer_id < 0 or marker.producer_epoch < 0:
        raise KafkaError(f"a marker of no producer for {place}")
    try:
        partition = replicas.partition(*place)
    except KafkaError as failure:
        # Whatever the reason is that it is not here, as in Kafka; coordinators ask again.
        raise UnknownTopicOrPartition(failure.message) from failure
    now_ms, is_commit = world.now_ms(), marker.transaction_result
    batch = marker_batch(
        EndTransactionMarker(is_commit, marker.coordinator_epoch),
        timestamp=now_ms,
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
    )
    written = partition.append(
        batch, acks=ALL_IN_SYNC, now_ms=now_ms, origin=AppendOrigin.COORDINATOR
    )
    if place.topic == CONSUMER_OFFSETS:
        world.groups.transaction_ended(place.partition, marker.producer_id, is_commit=is_commit)
    return partition, written


def _response(outcomes: Outcomes) -> Response:
    return Response(
        markers=[
            Told(producer_id=producer_id, topics=_topics(told))
            for producer_id, told in outcomes.items()
            if told
        ]
    )


def _topics(told: Mapping[TopicPartition, int]) -> list[Told.Topic]:
    return [
        Told.Topic(
            name=topic,
            partitions=[
                Told.Topic.Partition(
                    partition_index=number, error_code=told[TopicPartition(topic, number)]
                )
                for number in numbers
            ],
        )
        for topic, numbers in by_topic(told).items()
    ]


def refused(call: Call[WriteTxnMarkersRequest], failure: KafkaError) -> Response:
    """All of it, for one reason."""
    code = code_of(failure)
    outcomes: Outcomes = {}
    for marker in call.request.markers:
        told = outcomes.setdefault(marker.producer_id, {})
        for topic in marker.topics:
            for index in topic.partition_indexes:
                told[TopicPartition(topic.name, index)] = code
    return _response(outcomes)
