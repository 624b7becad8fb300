"""Produce: append batches to the partitions that this broker leads.

Each partition succeeds or fails individually; the response has an entry for each.  With acks=0
there is no response; if a partition fails, the connection is closed, which makes the client refresh
its metadata.

If more records have to be validated than fit into a time slice, the worker process validates them
first.  Then all batches are appended, including those that needed no validation.  Before that, the
transaction coordinator verifies the partitions in which this request would begin a transaction.

Invariant: only the worker process, the transaction coordinator and time slices are awaited before
every batch is in its log.  The connection is busy meanwhile, so its requests reach the logs in the
order in which they were sent.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial
from struct import Struct
from typing import Any, Protocol

from odradek.broker.handlers.current_leaders import CurrentLeaders
from odradek.broker.handlers.current_leaders import LeaderMetadata as Leaders
from odradek.broker.handlers.delayed_produce import (
    ProducePartitionStatus,
    add_node_endpoints,
    delay_response,
)
from odradek.broker.handlers.offloaded_validation import (
    RecordValidator,
    UnvalidatedRecords,
    select_for_worker,
    validate_all,
)
from odradek.broker.handlers.produce_responses import (
    ACKS_NONE,
    INVALID_OFFSET,
    error_response,
    set_error,
    topic_response,
)
from odradek.broker.handlers.produce_verification import (
    TransactionVerification,
    create_verification,
)
from odradek.broker.record_inspector import INLINE_RECORDS_MAX
from odradek.broker.replicas.partition import ACKS_ALL, Partition
from odradek.broker.request import DelayedOperation, Disconnect, Request
from odradek.broker.time_slice import INLINE_ENTRIES_MAX, TimeSlice
from odradek.broker.transactions.add_partitions_to_txn_manager import AddPartitionsToTxnManager
from odradek.protocol.api.produce import ProduceRequest, ProduceResponse
from odradek.protocol.errors import (
    CorruptMessage,
    InvalidRecord,
    InvalidRequiredAcks,
    InvalidTopic,
    KafkaError,
    NotLeaderOrFollower,
    TransactionalIdAuthorizationFailed,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from odradek.protocol.records.batch import LOG_OVERHEAD_BYTES, MAGIC, TRANSACTIONAL_FLAG
from odradek.protocol.types import Uuid
from odradek.storage.validation.log_validator import (
    FIRST_VERSION_OF_ZSTD,
    UNKNOWN_RECORD_COUNT,
    validate_produce_records,
)
from odradek.storage.validation.validated_batch import ValidatedBatch

__all__ = ["error_response", "handle"]

ACKS_LEADER = 1
VALID_ACKS = frozenset({ACKS_NONE, ACKS_LEADER, ACKS_ALL})
#: The only client id that may write to internal topics: Kafka's own tools use it.
ADMIN_CLIENT_ID = "__admin_client"
#: A request may have thousands of errors.
ERRORS_SHOWN_MAX = 10
_FIRST_VERSION_WITH_CURRENT_LEADER = 10
_FIRST_VERSION_WITH_TOPIC_IDS = 13
#: Size, magic, attributes and record count of a batch, starting at the size.  The count is read as
#: unsigned, so a negative count means too many records to validate inline.
_FIRST_BATCH_STRUCT = Struct(">i4xb4xh34xI")
_SIZE_POSITION = 8
_COMPRESSION_CODEC_MASK = 0x07
_FIRST_BATCH_BYTES_MIN = _SIZE_POSITION + _FIRST_BATCH_STRUCT.size
_FIRST_MESSAGE_STRUCT = Struct(">i4xb4xh")
_FIRST_MESSAGE_BYTES_MIN = _SIZE_POSITION + _FIRST_MESSAGE_STRUCT.size
_RECORD_OVERHEAD_V0_BYTES = 14

Topic = ProduceRequest.Topic
PartitionResponse = ProduceResponse.Topic.Partition
HandlerResult = ProduceResponse | DelayedOperation[ProduceResponse] | None


class HostedPartitions(Protocol):
    """The part of the replica manager that this handler needs."""

    def partition(self, topic: str, index: int, /) -> Partition: ...


class ClusterMetadata(Leaders, Protocol):
    """The part of the metadata cache that this handler needs."""

    def has_partition(self, topic: str, partition: int, /) -> bool: ...

    def topic_name(self, topic_id: Uuid, /) -> str | None: ...


def handle(
    replica_manager: HostedPartitions,
    metadata_cache: ClusterMetadata,
    record_validator: RecordValidator,
    add_partitions_to_txn_manager: AddPartitionsToTxnManager,
    now_ms: Callable[[], int],
    request: Request[ProduceRequest],
) -> ProduceResponse | Awaitable[HandlerResult] | None:
    body = request.body
    appender = ProduceAppender(replica_manager, metadata_cache, request, now_ms())
    may_take_long = appender.check_first_batches()
    if body.transactional_id is not None and appender.needs_verification():
        assert appender.verification is not None
        verify = appender.verification.verify(add_partitions_to_txn_manager)
        if verify is not None:
            # A delayed operation does not count as a request in progress.  The coordinator may wait
            # for requests of other brokers that this broker has yet to read.
            append_later = partial(_append_verified, appender, verify, record_validator, now_ms)
            return DelayedOperation(append_later, needs_frame=True)
    if may_take_long and (delayed := _maybe_append_sliced(appender, record_validator, now_ms)):
        return delayed
    response = ProduceResponse(responses=appender.append_all(body.topic_data))
    return _respond(appender, body, response)


async def _append_verified(
    appender: ProduceAppender,
    verify: Callable[[], Awaitable[None]],
    record_validator: RecordValidator,
    now_ms: Callable[[], int],
) -> HandlerResult:
    await verify()
    appender.now_ms, body = now_ms(), appender.request.body
    if delayed := _maybe_append_sliced(appender, record_validator, now_ms):
        return await delayed
    response = ProduceResponse(responses=appender.append_all(body.topic_data))
    return _respond(appender, body, response)


def _maybe_append_sliced(
    appender: ProduceAppender, record_validator: RecordValidator, now_ms: Callable[[], int]
) -> Awaitable[HandlerResult] | None:
    """Return None if one time slice is enough after all."""
    unvalidated: list[UnvalidatedRecords] = []
    if not appender.has_many_entries:
        unvalidated = select_for_worker(appender.unvalidated())
        if not unvalidated:
            return None
    return _append_sliced(appender, unvalidated, record_validator, now_ms)


async def _append_sliced(
    appender: ProduceAppender,
    unvalidated: list[UnvalidatedRecords],
    record_validator: RecordValidator,
    now_ms: Callable[[], int],
) -> HandlerResult:
    time_slice, body = TimeSlice(), appender.request.body
    if appender.has_many_entries:
        unvalidated = select_for_worker(await time_slice.collect(appender.unvalidated()))
    if unvalidated:
        await validate_all(unvalidated, record_validator, now_ms)
        appender.now_ms = now_ms()
    response = ProduceResponse(responses=[])
    for topic in body.topic_data:
        if topic.partition_data:
            partition_responses = await time_slice.collect(appender.append_topic(topic))
            response.responses.append(topic_response(topic, partition_responses))
    return _respond(appender, body, response)


def _respond(
    appender: ProduceAppender, body: ProduceRequest, response: ProduceResponse
) -> HandlerResult:
    """Respond after every batch was appended or rejected."""
    if body.acks == ACKS_NONE:
        if appender.errors:
            errors = "; ".join(appender.errors[:ERRORS_SHOWN_MAX])
            raise Disconnect(f"error during produce request with acks=0: {errors}")
        return None
    if appender.unacknowledged:
        return delay_response(appender, body, response)
    return add_node_endpoints(appender, response)


class ProduceAppender:
    """The appends of one request."""

    __slots__ = (
        "_acks",
        "_is_fast_path",
        "_metadata_cache",
        "_replica_manager",
        "_version",
        "current_leaders",
        "errors",
        "has_many_entries",
        "now_ms",
        "request",
        "unacknowledged",
        "verification",
    )

    def __init__(
        self,
        replica_manager: HostedPartitions,
        metadata_cache: ClusterMetadata,
        request: Request[ProduceRequest],
        now_ms: int,
    ) -> None:
        self._replica_manager = replica_manager
        self._metadata_cache = metadata_cache
        self.request = request
        self._acks = request.body.acks
        self._version = request.version
        self.now_ms = now_ms
        #: Whether the check of the first batches is sufficient.
        self._is_fast_path = False
        self.errors: list[str] = []
        self.unacknowledged: list[ProducePartitionStatus] = []
        #: Created for the first partition that has another leader.
        self.current_leaders: CurrentLeaders | None = None
        #: For partitions in which a transaction would begin.
        self.verification: TransactionVerification | None = None

    def check_first_batches(self) -> bool:
        """Reject the request if a first batch is corrupt, or needs a transactional id and has none.

        Return whether appending all batches may take longer than a time slice.
        """
        count, cost, body = 0, 0, self.request.body
        has_transactional_id = body.transactional_id is not None
        is_fast_path = self._acks in VALID_ACKS and self._version >= FIRST_VERSION_OF_ZSTD
        for topic in body.topic_data:
            count += len(topic.partition_data)
            for entry in topic.partition_data:
                records = entry.records
                if not isinstance(records, memoryview) or len(records) < _FIRST_BATCH_BYTES_MIN:
                    is_fast_path, cost = False, UNKNOWN_RECORD_COUNT
                    _check_short_batch(records, has_transactional_id=has_transactional_id)
                    continue
                size, magic, attributes, record_count = _FIRST_BATCH_STRUCT.unpack_from(
                    records, _SIZE_POSITION
                )
                # An upper bound of the validation cost.  For compressed records it is unknown.
                cost += (
                    UNKNOWN_RECORD_COUNT
                    if attributes & _COMPRESSION_CODEC_MASK
                    else record_count + (size >> 6)
                )
                if size < _RECORD_OVERHEAD_V0_BYTES or not 0 <= magic <= MAGIC:
                    raise CorruptMessage(f"invalid batch: size {size}, magic {magic}")
                if magic != MAGIC or LOG_OVERHEAD_BYTES + size != len(records):
                    is_fast_path, cost = False, UNKNOWN_RECORD_COUNT
                if has_transactional_id or magic != MAGIC or not attributes & TRANSACTIONAL_FLAG:
                    continue
                if LOG_OVERHEAD_BYTES + size <= len(records):
                    raise TransactionalIdAuthorizationFailed()
        self._is_fast_path = is_fast_path
        self.has_many_entries = count > INLINE_ENTRIES_MAX
        return cost > INLINE_RECORDS_MAX or self.has_many_entries

    def needs_verification(self) -> bool:
        """Return whether the coordinator has to verify the transaction.

        Raises InvalidProducerIdMapping.
        """
        body = self.request.body
        assert body.transactional_id is not None
        self.verification = create_verification(
            body.transactional_id,
            ((partition, records) for _, partition, records in self._valid_entries()),
            version=self._version,
            now_ms=self.now_ms,
        )
        if self.verification is None:
            return False
        self._is_fast_path = False
        return True

    def unvalidated(self) -> Iterator[UnvalidatedRecords]:
        """Yield the entries that pass all checks other than the validation of their records."""
        return (UnvalidatedRecords(*each) for each in self._valid_entries())

    def _valid_entries(self) -> Iterator[tuple[Topic.Partition, Partition, memoryview]]:
        for topic in self.request.body.topic_data:
            for entry in topic.partition_data:
                try:
                    partition = self._partition(topic, entry.index)
                    partition.require_leader()
                    records: Any = entry.records
                    if not self._is_fast_path or partition.is_internal:
                        records = self._validate(partition, records)
                except KafkaError:
                    continue  # the append returns the error
                yield entry, partition, records

    def append_all(self, topics: Iterable[Topic]) -> list[ProduceResponse.Topic]:
        """Append the records of all topics.  Some of the returned responses may have to wait."""
        topic_responses = []
        for topic in topics:
            if topic.partition_data:
                partition_responses = []
                for entry in topic.partition_data:
                    partition_responses.append(self._append(topic, entry))  # noqa: PERF401 - faster
                topic_responses.append(topic_response(topic, partition_responses))
        return topic_responses

    def append_topic(self, topic: Topic) -> Iterator[PartitionResponse]:
        """Append the records of one topic, and yield the partition responses."""
        return (self._append(topic, entry) for entry in topic.partition_data)

    def _append(self, topic: Topic, entry: Topic.Partition) -> PartitionResponse:
        index, checked_partition = entry.index, None
        records: Any = entry.records  # a memoryview, or a ValidatedBatch of the worker process
        entry.records = None  # a delayed response needs only the offsets
        try:
            partition = self._partition(topic, index)
            guard = None
            if not self._is_fast_path or partition.is_internal:
                records = self._validate(partition, records)
                if self.verification is not None:
                    guard = self.verification.verification_guard(partition.topic_partition)
            checked_partition = partition
            append_info = partition.append(
                records, acks=self._acks, now_ms=self.now_ms, verification_guard=guard
            )
        except KafkaError as error:
            partition_response = PartitionResponse(
                index=index, error_code=0, base_offset=INVALID_OFFSET
            )
            self.set_error(partition_response, topic, checked_partition, error)
            return partition_response
        partition_response = PartitionResponse(
            index=index,
            error_code=0,
            base_offset=append_info.first_offset,
            log_append_time_ms=append_info.append_time_ms,
            log_start_offset=partition.hosted_log.log.log_start_offset,
        )
        if not partition.is_acknowledged(append_info, acks=self._acks):
            self.unacknowledged.append(
                ProducePartitionStatus(partition_response, topic, partition, append_info)
            )
        return partition_response

    def set_error(
        self,
        partition_response: PartitionResponse,
        topic: Topic,
        partition: Partition | None,
        error: KafkaError,
    ) -> None:
        """``partition`` is None if the entry was rejected before the append."""
        self.errors.append(f"{topic.name}-{partition_response.index}: {error}")
        set_error(partition_response, partition, error)
        if (
            isinstance(error, NotLeaderOrFollower)
            and self._version >= _FIRST_VERSION_WITH_CURRENT_LEADER
        ):
            self._set_current_leader(partition_response, topic, partition)

    def _set_current_leader(
        self, partition_response: PartitionResponse, topic: Topic, partition: Partition | None
    ) -> None:
        if self.current_leaders is None:
            self.current_leaders = CurrentLeaders(
                self._metadata_cache, self.request.context.listener
            )
        # The topic may have been deleted while the response was delayed.
        name = topic.name or self._metadata_cache.topic_name(topic.topic_id) or ""
        leader = self.current_leaders.current_leader(name, partition_response.index, partition)
        partition_response.current_leader = PartitionResponse.LeaderIdAndEpoch(
            leader_id=leader.id, leader_epoch=leader.epoch
        )

    def _partition(self, topic: Topic, index: int) -> Partition:
        name = topic.name
        if self._version >= _FIRST_VERSION_WITH_TOPIC_IDS:
            topic_name = self._metadata_cache.topic_name(topic.topic_id)
            if topic_name is None:
                raise UnknownTopicId(f"unknown topic id {topic.topic_id}")
            name = topic_name
        if not self._metadata_cache.has_partition(name, index):
            raise UnknownTopicOrPartition(f"unknown partition {name}-{index}")
        return self._replica_manager.partition(name, index)

    def _validate(self, partition: Partition, records: Any) -> Any:
        received = records.records if isinstance(records, ValidatedBatch) else records
        if not isinstance(received, memoryview):
            raise InvalidRecord("no records")
        validate_produce_records(received, version=self._version)
        if self._acks not in VALID_ACKS:
            raise InvalidRequiredAcks(f"acks={self._acks}: must be -1, 0 or 1")
        if partition.is_internal and self.request.client_id != ADMIN_CLIENT_ID:
            raise InvalidTopic(
                f"internal topic {partition.topic_partition.topic}: clients must not write to it"
            )
        return records


def _check_short_batch(records: object, *, has_transactional_id: bool) -> None:
    """Check the first message of records that are too short for a batch of magic 2."""
    if not isinstance(records, memoryview) or len(records) < _FIRST_MESSAGE_BYTES_MIN:
        return
    size, magic, attributes = _FIRST_MESSAGE_STRUCT.unpack_from(records, _SIZE_POSITION)
    if size < _RECORD_OVERHEAD_V0_BYTES or not 0 <= magic <= MAGIC:
        raise CorruptMessage(f"invalid batch: size {size}, magic {magic}")
    is_transactional = magic == MAGIC and attributes & TRANSACTIONAL_FLAG
    if is_transactional and not has_transactional_id and LOG_OVERHEAD_BYTES + size <= len(records):
        raise TransactionalIdAuthorizationFailed()
