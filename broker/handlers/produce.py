"""Produce: append batches to the partitions that this broker leads.

Each partition succeeds or fails alone; the response has a line for each.  With acks=0 there is no
response; if a partition failed, the connection is closed, so that the client asks for metadata.

Invariant: nothing is awaited before every batch is in its log, so the requests of one connection
reach the logs in the order in which they were sent.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from struct import Struct
from typing import Protocol

from odradek.broker.call import Call, Disconnect
from odradek.broker.handlers.refusals import words
from odradek.broker.metadata.internal_topics import INTERNAL_TOPICS
from odradek.broker.replicas.partition import ALL_IN_SYNC, Partition
from odradek.protocol.api.produce import ProduceRequest, ProduceResponse
from odradek.protocol.errors import (
    CorruptMessage,
    InvalidRecord,
    InvalidRequiredAcks,
    InvalidTopic,
    KafkaError,
    KafkaStorageError,
    MessageTooLarge,
    NotLeader,
    RecordListTooLarge,
    TransactionalIdAuthorizationFailed,
    UnknownTopicId,
    UnknownTopicOrPartition,
    code_of,
)
from odradek.protocol.records.batch import LOG_OVERHEAD_BYTES, MAGIC, TRANSACTIONAL_FLAG
from odradek.protocol.types import Uuid
from odradek.storage.admission.batch_validation import check_request
from odradek.storage.admission.errors import InvalidRecords, InvalidTimestamps
from odradek.storage.log import Written

NO_ANSWER, LEADER_ONLY = 0, 1
ACKS = frozenset({NO_ANSWER, LEADER_ONLY, ALL_IN_SYNC})
#: The one client that may write to internal topics: what Kafka's own tools call themselves.
ADMIN_CLIENT_ID = "__admin_client"
NO_OFFSET = -1
_FIRST_VERSION_OF_TOPIC_IDS = 13
#: Size, magic and attributes of a batch, from the position of its size on.
_FIRST_BATCH = Struct(">i4xb4xh")
_SIZE_POSITION = 8
_LONG_ENOUGH = _SIZE_POSITION + _FIRST_BATCH.size
_SMALLEST_BYTES = 14
#: What is told without the start of the log.
_WITHOUT_START = (
    UnknownTopicOrPartition,
    NotLeader,
    MessageTooLarge,
    RecordListTooLarge,
    CorruptMessage,
    KafkaStorageError,
)

Topic = ProduceRequest.Topic
Line = ProduceResponse.Topic.Partition


class Replicas(Protocol):
    """The part of the replica manager that producing needs."""

    def partition(self, topic: str, index: int, /) -> Partition: ...


class Cluster(Protocol):
    """The part of the cluster's picture that producing needs."""

    def has_partition(self, topic: str, partition: int, /) -> bool: ...

    def name_of(self, topic_id: Uuid, /) -> str | None: ...


@dataclass(slots=True)
class Outcome:
    """What became of the records of one partition; changed while it waits, and then told."""

    index: int
    partition: Partition | None = None
    written: Written | None = None
    failure: KafkaError | None = None


def handle(
    replicas: Replicas,
    cluster: Cluster,
    now_ms: Callable[[], int],
    call: Call[ProduceRequest],
) -> ProduceResponse | Awaitable[ProduceResponse] | None:
    request = call.request
    acks = request.acks
    _check_first_batches(request)
    appending = Appending(replicas, cluster, call, now_ms())
    outcomes = [
        [appending.append(topic, entry) for entry in topic.partition_data]
        for topic in request.topic_data
    ]
    if acks == NO_ANSWER:
        _check_all_well(request, outcomes)
        return None
    if appending.is_final:
        return _response(request, outcomes)
    return _answer_later(request, outcomes)


def _check_first_batches(request: ProduceRequest) -> None:
    """One that is no batch, or of a transaction that nobody named, spoils the whole request."""
    is_named = request.transactional_id is not None
    for topic in request.topic_data:
        for entry in topic.partition_data:
            records = entry.records
            if not isinstance(records, memoryview) or len(records) < _LONG_ENOUGH:
                continue
            size, magic, attributes = _FIRST_BATCH.unpack_from(records, _SIZE_POSITION)
            if size < _SMALLEST_BYTES or not 0 <= magic <= MAGIC:
                raise CorruptMessage(f"a batch of {size} bytes and magic {magic}")
            if is_named or magic != MAGIC or not attributes & TRANSACTIONAL_FLAG:
                continue
            if LOG_OVERHEAD_BYTES + size <= len(records):
                raise TransactionalIdAuthorizationFailed()


class Appending:
    """The appends of one request."""

    __slots__ = (
        "_acks",
        "_cluster",
        "_is_admin",
        "_now_ms",
        "_replicas",
        "_version",
        "is_final",
    )

    def __init__(
        self, replicas: Replicas, cluster: Cluster, call: Call[ProduceRequest], now_ms: int
    ) -> None:
        self._replicas = replicas
        self._cluster = cluster
        self._acks = call.request.acks
        self._version = call.version
        self._is_admin = call.client_id == ADMIN_CLIENT_ID
        self._now_ms = now_ms
        #: Whether nothing has to be waited for.
        self.is_final = True

    def append(self, topic: Topic, entry: Topic.Partition) -> Outcome:
        try:
            partition = self._replicas.partition(self._name_of(topic, entry.index), entry.index)
            records = self._checked(partition, entry)
        except KafkaError as failure:
            return Outcome(entry.index, failure=failure)
        finally:
            entry.records = None  # only offsets are kept while the answer waits
        try:
            written = partition.append(records, acks=self._acks, now_ms=self._now_ms)
        except KafkaError as failure:
            return Outcome(entry.index, partition, failure=failure)
        if not partition.is_acknowledged(written, acks=self._acks):
            self.is_final = False
        return Outcome(entry.index, partition, written)

    def _name_of(self, topic: Topic, index: int) -> str:
        name = topic.name
        if self._version >= _FIRST_VERSION_OF_TOPIC_IDS:
            found = self._cluster.name_of(topic.topic_id)
            if found is None:
                raise UnknownTopicId(f"no topic has the id {topic.topic_id}")
            name = found
        if not self._cluster.has_partition(name, index):
            raise UnknownTopicOrPartition(f"there is no {name}-{index}")
        return name

    def _checked(self, partition: Partition, entry: Topic.Partition) -> memoryview:
        records = entry.records
        if not isinstance(records, memoryview):
            raise InvalidRecord("no records")
        check_request(records, version=self._version)
        if self._acks not in ACKS:
            raise InvalidRequiredAcks(f"acks={self._acks}")
        if partition.topic_partition.topic in INTERNAL_TOPICS and not self._is_admin:
            raise InvalidTopic(f"{partition.topic_partition.topic} is written by brokers only")
        return records


def _check_all_well(request: ProduceRequest, outcomes: list[list[Outcome]]) -> None:
    failed = [
        f"{topic.name}-{outcome.index}: {outcome.failure}"
        for topic, outcomes_of in zip(request.topic_data, outcomes, strict=True)
        for outcome in outcomes_of
        if outcome.failure is not None
    ]
    if failed:
        raise Disconnect(f"acks=0, and not all was appended: {'; '.join(failed)}")


async def _answer_later(request: ProduceRequest, outcomes: list[list[Outcome]]) -> ProduceResponse:
    """Each in turn: what the first waited for, the others had time for as well."""
    timeout_s = request.timeout_ms / 1000
    for outcomes_of in outcomes:
        for outcome in outcomes_of:
            if outcome.partition is not None and outcome.written is not None:
                try:
                    await outcome.partition.wait_until_acknowledged(
                        outcome.written, acks=request.acks, timeout_s=timeout_s
                    )
                except KafkaError as failure:
                    outcome.failure = failure
    return _response(request, outcomes)


def _response(request: ProduceRequest, outcomes: list[list[Outcome]]) -> ProduceResponse:
    return ProduceResponse(
        responses=[
            ProduceResponse.Topic(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[_line(outcome) for outcome in outcomes_of],
            )
            for topic, outcomes_of in zip(request.topic_data, outcomes, strict=True)
            if outcomes_of
        ]
    )


def _line(outcome: Outcome) -> Line:
    if outcome.failure is not None:
        return _failed_line(outcome, outcome.failure)
    partition, written = outcome.partition, outcome.written
    assert partition is not None, outcome
    assert written is not None, outcome
    return Line(
        index=outcome.index,
        error_code=0,
        base_offset=written.first_offset,
        log_append_time_ms=written.append_time_ms,
        log_start_offset=partition.log.start_offset,
    )


def _failed_line(outcome: Outcome, failure: KafkaError) -> Line:
    line = Line(index=outcome.index, error_code=code_of(failure), base_offset=NO_OFFSET)
    if outcome.partition is not None and not isinstance(failure, _WITHOUT_START):
        line.log_start_offset = outcome.partition.log.start_offset
    if isinstance(failure, InvalidRecords | InvalidTimestamps):
        line.error_message = failure.message
        line.record_errors = [
            Line.RecordError(batch_index=place, batch_index_error_message=message)
            for place, message in failure.record_errors
        ]
    return line


def refused(call: Call[ProduceRequest], failure: KafkaError) -> ProduceResponse:
    """All of it, for one reason."""
    if call.request.acks == NO_ANSWER:
        raise Disconnect(f"acks=0, and nothing was appended: {failure}")
    outcomes = [
        [Outcome(entry.index, failure=failure) for entry in topic.partition_data]
        for topic in call.request.topic_data
    ]
    response = _response(call.request, outcomes)
    for topic in response.responses:
        for line in topic.partition_responses:
            line.error_message = words(failure)
    return response
