"""Produce: append batches to the partitions that this broker leads.

Each partition succeeds or fails alone; the response has a line for each.  With acks=0 there is no
response; if a partition failed, the connection is closed, so that the client asks for metadata.

Where more records have to be read than fit into a turn on the loop, another process reads them
first; then all batches are appended, those that nobody had to read among them.  Before that, the
coordinator of a transaction is asked about the partitions in which this request would begin it.

Invariant: nothing but that, and turns on the loop, is awaited before every batch is in its log.  A
connection is busy meanwhile, so its requests reach the logs in the order in which they were sent.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial
from struct import Struct
from typing import Any, Protocol

from odradek.broker.call import Call, Disconnect, Parked
from odradek.broker.handlers.leader_hints import Cluster as Leaders
from odradek.broker.handlers.leader_hints import LeaderHints
from odradek.broker.handlers.produce_lines import NO_ANSWER, NOT_TOLD, answered, refused, tell
from odradek.broker.handlers.produce_verification import Verification, verification_of
from odradek.broker.handlers.produce_waits import Waiting, hinted, parked
from odradek.broker.handlers.unread_records import Reader, Unread, check_all, too_many
from odradek.broker.record_reader import RECORDS_PER_TURN
from odradek.broker.replicas.partition import ALL_IN_SYNC, Partition
from odradek.broker.transactions.verification import Verifier
from odradek.broker.turns import FEW, Turn
from odradek.protocol.api.produce import ProduceRequest, ProduceResponse
from odradek.protocol.errors import (
    CorruptMessage,
    InvalidRecord,
    InvalidRequiredAcks,
    InvalidTopic,
    KafkaError,
    NotLeader,
    TransactionalIdAuthorizationFailed,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from odradek.protocol.records.batch import LOG_OVERHEAD_BYTES, MAGIC, TRANSACTIONAL_FLAG
from odradek.protocol.types import Uuid
from odradek.storage.admission.batch_validation import (
    FIRST_VERSION_OF_ZSTD,
    UNTOLD_COUNT,
    check_request,
)
from odradek.storage.admission.checked_batch import CheckedBatch

__all__ = ["handle", "refused"]

LEADER_ONLY = 1
ACKS = frozenset({NO_ANSWER, LEADER_ONLY, ALL_IN_SYNC})
#: The one client that may write to internal topics: what Kafka's own tools call themselves.
ADMIN_CLIENT_ID = "__admin_client"
#: Of a client that may have sent thousands.
FAILURES_TOLD_MAX = 10
_FIRST_VERSION_OF_HINTS = 10
_FIRST_VERSION_OF_TOPIC_IDS = 13
#: Size, magic, attributes and count of a batch, from the position of its size on.  What is less
#: than none is a great many.
_FIRST_BATCH = Struct(">i4xb4xh34xI")
_SIZE_POSITION = 8
_CODEC_BITS = 0x07
_LONG_ENOUGH = _SIZE_POSITION + _FIRST_BATCH.size
_FIRST_MESSAGE = Struct(">i4xb4xh")
_LONG_ENOUGH_OF_OLD = _SIZE_POSITION + _FIRST_MESSAGE.size
_SMALLEST_BYTES = 14

Topic = ProduceRequest.Topic
Line = ProduceResponse.Topic.Partition
Answer = ProduceResponse | Parked[ProduceResponse] | None


class Replicas(Protocol):
    """The part of the replica manager that producing needs."""

    def partition(self, topic: str, index: int, /) -> Partition: ...


class Cluster(Leaders, Protocol):
    """The part of the cluster's picture that producing needs."""

    def has_partition(self, topic: str, partition: int, /) -> bool: ...

    def name_of(self, topic_id: Uuid, /) -> str | None: ...


def handle(
    replicas: Replicas,
    cluster: Cluster,
    reader: Reader,
    verifier: Verifier,
    now_ms: Callable[[], int],
    call: Call[ProduceRequest],
) -> ProduceResponse | Awaitable[Answer] | None:
    request = call.request
    appending = Appending(replicas, cluster, call, now_ms())
    may_take_long = appending.check_first_batches()
    if request.transactional_id is not None and appending.needs_verification():
        assert appending.verification is not None
        verify = appending.verification.ask(verifier)
        if verify is not None:
            # Parked: it must not count as in progress, as the coordinator may wait for requests of
            # other brokers that are to be read yet.
            rest = partial(_append_verified, appending, verify, reader, now_ms)
            return Parked(rest, needs_frame=True)
    if may_take_long and (later := _append_later(appending, reader, now_ms)):
        return later
    response = ProduceResponse(responses=appending.append_all(request.topic_data))
    return _answer(appending, request, response)


async def _append_verified(
    appending: Appending,
    verify: Callable[[], Awaitable[None]],
    reader: Reader,
    now_ms: Callable[[], int],
) -> Answer:
    await verify()
    appending.now_ms, request = now_ms(), appending.call.request
    if later := _append_later(appending, reader, now_ms):
        return await later
    response = ProduceResponse(responses=appending.append_all(request.topic_data))
    return _answer(appending, request, response)


def _append_later(
    appending: Appending, reader: Reader, now_ms: Callable[[], int]
) -> Awaitable[Answer] | None:
    """None if it takes no longer than a turn after all."""
    many: list[Unread] = []
    if not appending.has_many_entries:
        many = too_many(appending.unread())
        if not many:
            return None
    return _append_in_turns(appending, many, reader, now_ms)


async def _append_in_turns(
    appending: Appending, many: list[Unread], reader: Reader, now_ms: Callable[[], int]
) -> Answer:
    turn, request = Turn(), appending.call.request
    if appending.has_many_entries:
        many = too_many(await turn.listed(appending.unread()))
    if many:
        await check_all(many, reader, now_ms)
        appending.now_ms = now_ms()
    response = ProduceResponse(responses=[])
    for topic in request.topic_data:
        if topic.partition_data:
            lines = await turn.listed(appending.appended(topic))
            response.responses.append(answered(topic, lines))
    return _answer(appending, request, response)


def _answer(appending: Appending, request: ProduceRequest, response: ProduceResponse) -> Answer:
    """Once all is appended that can be."""
    if request.acks == NO_ANSWER:
        if appending.failures:
            failures = "; ".join(appending.failures[:FAILURES_TOLD_MAX])
            raise Disconnect(f"acks=0, and not all was appended: {failures}")
        return None
    if appending.waiting:
        return parked(appending, request, response)
    return hinted(appending, response)


class Appending:
    """The appends of one request."""

    __slots__ = (
        "_acks",
        "_are_usual",
        "_cluster",
        "_replicas",
        "_version",
        "call",
        "failures",
        "has_many_entries",
        "hints",
        "now_ms",
        "verification",
        "waiting",
    )

    def __init__(
        self, replicas: Replicas, cluster: Cluster, call: Call[ProduceRequest], now_ms: int
    ) -> None:
        self._replicas = replicas
        self._cluster = cluster
        self.call = call
        self._acks = call.request.acks
        self._version = call.version
        self.now_ms = now_ms
        #: Whether no more has to be looked at than the first batches.
        self._are_usual = False
        self.failures: list[str] = []
        self.waiting: list[Waiting] = []
        #: Made if there is any.
        self.hints: LeaderHints | None = None
        #: Of partitions in which a transaction would begin.
        self.verification: Verification | None = None

    def check_first_batches(self) -> bool:
        """One that is no batch, or of a transaction that nobody named, spoils the whole request.

        Whether it may take longer than a turn to append them all.
        """
        count, claimed, request = 0, 0, self.call.request
        is_named = request.transactional_id is not None
        are_usual = self._acks in ACKS and self._version >= FIRST_VERSION_OF_ZSTD
        for topic in request.topic_data:
            count += len(topic.partition_data)
            for entry in topic.partition_data:
                records = entry.records
                if not isinstance(records, memoryview) or len(records) < _LONG_ENOUGH:
                    are_usual, claimed = False, UNTOLD_COUNT
                    _check_short(records, is_named=is_named)
                    continue
                size, magic, attributes, here = _FIRST_BATCH.unpack_from(records, _SIZE_POSITION)
                # No less than the cost of reading will be.  Nothing tells what is compressed.
                claimed += UNTOLD_COUNT if attributes & _CODEC_BITS else here + (size >> 6)
                if size < _SMALLEST_BYTES or not 0 <= magic <= MAGIC:
                    raise CorruptMessage(f"a batch of {size} bytes and magic {magic}")
                if magic != MAGIC or LOG_OVERHEAD_BYTES + size != len(records):
                    are_usual, claimed = False, UNTOLD_COUNT
                if is_named or magic != MAGIC or not attributes & TRANSACTIONAL_FLAG:
                    continue
                if LOG_OVERHEAD_BYTES + size <= len(records):
                    raise TransactionalIdAuthorizationFailed()
        self._are_usual = are_usual
        self.has_many_entries = count > FEW
        return claimed > RECORDS_PER_TURN or self.has_many_entries

    def needs_verification(self) -> bool:
        """Whether somebody has to be asked about the transaction.

        Raises InvalidProducerIdMapping.
        """
        request = self.call.request
        assert request.transactional_id is not None
        self.verification = verification_of(
            request.transactional_id,
            ((partition, records) for _, partition, records in self._sound()),
            version=self._version,
            now_ms=self.now_ms,
        )
        if self.verification is None:
            return False
        self._are_usual = False
        return True

    def unread(self) -> Iterator[Unread]:
        """One by one, those to which nothing is opposed but what their records may show."""
        return (Unread(*each) for each in self._sound())

    def _sound(self) -> Iterator[tuple[Topic.Partition, Partition, memoryview]]:
        for topic in self.call.request.topic_data:
            for entry in topic.partition_data:
                try:
                    partition = self._partition(topic, entry.index)
                    partition.leading()
                    records: Any = entry.records
                    if not self._are_usual or partition.is_internal:
                        records = self._checked(partition, records)
                except KafkaError:
                    continue  # which is told when it is appended
                yield entry, partition, records

    def append_all(self, topics: Iterable[Topic]) -> list[ProduceResponse.Topic]:
        """Append the records of all topics; their lines, of which some may have to wait."""
        told = []
        for topic in topics:
            if topic.partition_data:
                lines = []
                for entry in topic.partition_data:
                    lines.append(self._append(topic, entry))  # noqa: PERF401 - a call less
                told.append(answered(topic, lines))
        return told

    def appended(self, topic: Topic) -> Iterator[Line]:
        """The same lines of one topic, one by one."""
        return (self._append(topic, entry) for entry in topic.partition_data)

    def _append(self, topic: Topic, entry: Topic.Partition) -> Line:
        index, checked = entry.index, None
        records: Any = entry.records  # a view, if they are usual, or what was found in them
        entry.records = None  # only offsets are kept while the answer waits
        try:
            partition = self._partition(topic, index)
            guard = None
            if not self._are_usual or partition.is_internal:
                records = self._checked(partition, records)
                if self.verification is not None:
                    guard = self.verification.guard(partition.topic_partition)
            checked = partition
            written = partition.append(records, acks=self._acks, now_ms=self.now_ms, guard=guard)
        except KafkaError as failure:
            line = Line(index=index, error_code=0, base_offset=NOT_TOLD)
            self.failed(line, topic, checked, failure)
            return line
        line = Line(
            index=index,
            error_code=0,
            base_offset=written.first_offset,
            log_append_time_ms=written.append_time_ms,
            log_start_offset=partition.hosted.log.start_offset,
        )
        if not partition.is_acknowledged(written, acks=self._acks):
            self.waiting.append(Waiting(line, topic, partition, written))
        return line

    def failed(
        self, line: Line, topic: Topic, partition: Partition | None, failure: KafkaError
    ) -> None:
        """The line tells of it; without a partition, nothing was asked of one."""
        self.failures.append(f"{topic.name}-{line.index}: {failure}")
        tell(line, partition, failure)
        if isinstance(failure, NotLeader) and self._version >= _FIRST_VERSION_OF_HINTS:
            self._hint(line, topic, partition)

    def _hint(self, line: Line, topic: Topic, partition: Partition | None) -> None:
        if self.hints is None:
            self.hints = LeaderHints(self._cluster, self.call.peer.listener)
        # It may have been deleted while the answer waited.
        name = topic.name or self._cluster.name_of(topic.topic_id) or ""
        leader = self.hints.leader_of(name, line.index, partition)
        line.current_leader = Line.LeaderIdAndEpoch(leader_id=leader.id, leader_epoch=leader.epoch)

    def _partition(self, topic: Topic, index: int) -> Partition:
        name = topic.name
        if self._version >= _FIRST_VERSION_OF_TOPIC_IDS:
            found = self._cluster.name_of(topic.topic_id)
            if found is None:
                raise UnknownTopicId(f"no topic has the id {topic.topic_id}")
            name = found
        if not self._cluster.has_partition(name, index):
            raise UnknownTopicOrPartition(f"there is no {name}-{index}")
        return self._replicas.partition(name, index)

    def _checked(self, partition: Partition, records: Any) -> Any:
        received = records.received if isinstance(records, CheckedBatch) else records
        if not isinstance(received, memoryview):
            raise InvalidRecord("no records")
        check_request(received, version=self._version)
        if self._acks not in ACKS:
            raise InvalidRequiredAcks(f"acks={self._acks}")
        if partition.is_internal and self.call.client_id != ADMIN_CLIENT_ID:
            raise InvalidTopic(f"{partition.topic_partition.topic} is written by brokers only")
        return records


def _check_short(records: object, *, is_named: bool) -> None:
    """The first batch of what is too short for one of today's, but perhaps not for an old one."""
    if not isinstance(records, memoryview) or len(records) < _LONG_ENOUGH_OF_OLD:
        return
    size, magic, attributes = _FIRST_MESSAGE.unpack_from(records, _SIZE_POSITION)
    if size < _SMALLEST_BYTES or not 0 <= magic <= MAGIC:
        raise CorruptMessage(f"a batch of {size} bytes and magic {magic}")
    is_transactional = magic == MAGIC and attributes & TRANSACTIONAL_FLAG
    if is_transactional and not is_named and LOG_OVERHEAD_BYTES + size <= len(records):
        raise TransactionalIdAuthorizationFailed()
