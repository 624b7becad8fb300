"""Appends to and reads one partition of an internal topic, for its coordinator.

Kafka: CoordinatorPartitionWriter and CoordinatorLoader.

An append completes at once, and its records take effect at once.  Responses that depend on it wait
until it is replicated: by ``when_replicated`` with a callback, or by ``wait_until_replicated`` in a
coroutine.

A replay reads from the log start offset to the log end offset.  A disk thread reads the chunks, and
the event loop applies them in time slices.

Owner: the event loop.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from odradek.broker.coordinator.batches import KeyValue, build_batch, build_plain_batch
from odradek.broker.coordinator.replay import Replay
from odradek.broker.coordinator.single_record_batch import read_single_record_batch
from odradek.broker.replicas.partition import ACKS_ALL, Partition
from odradek.broker.time_slice import TimeSlice
from odradek.protocol.errors import CorruptMessage, KafkaError
from odradek.protocol.records.batch import NO_SEQUENCE, whole_batch_bytes
from odradek.protocol.records.builder import BatchFields
from odradek.protocol.records.compression import Codec
from odradek.protocol.records.record_set import batch_at
from odradek.storage import files
from odradek.storage.producer_state.producer_state_entry import AppendOrigin
from odradek.storage.producer_state.verification_guards import VerificationGuard
from odradek.storage.unified_log import LogAppendInfo

log = logging.getLogger("kafka.coordinator")

_COORDINATOR = AppendOrigin.COORDINATOR

#: Called with None when the append is replicated, or with the error if that is not certain.
ReplicationCallback = Callable[[KafkaError | None], None]


class CoordinatorLogSettings(Protocol):
    """The settings that a coordinator's log needs."""

    @property
    def commit_timeout_ms(self) -> int: ...

    @property
    def load_buffer_bytes(self) -> int: ...

    @property
    def topic_codec(self) -> Codec: ...


@dataclass(frozen=True, slots=True)
class CoordinatorContext:
    """The dependencies of a coordinator's log."""

    settings: CoordinatorLogSettings
    now_ms: Callable[[], int]
    #: Starts a background task.
    start_task: Callable[[Coroutine[Any, Any, None], str], object]
    #: Runs a blocking system call on a disk thread of a log directory.
    run_blocking: Callable[..., Awaitable[Any]]
    #: Called after a load has allocated long-lived objects, and after an unload has freed them.
    on_shard_loaded: Callable[[], None] = lambda: None
    on_shard_unloaded: Callable[[], None] = lambda: None


#: Batches that are replayed between two checks of the time slice.
_BATCHES_PER_TIME_CHECK = 50


def replay_batches(buffer: bytes, replay: Replay) -> Iterator[int]:
    """Add all complete batches to ``replay``; yield the next offset from time to time."""
    view, position, count, next_offset = memoryview(buffer), 0, 0, 0
    while True:
        single = read_single_record_batch(buffer, view, position)
        if single is not None:
            offset, key, value, position = single
            replay.add_record(offset, key, value)
            next_offset = offset + 1
        else:
            size_bytes = whole_batch_bytes(buffer, position)
            if not size_bytes:
                break
            batch = batch_at(buffer, position)
            batch.check_crc()
            replay.add_batch(batch)
            next_offset, position = batch.next_offset, position + size_bytes
        count += 1
        if count % _BATCHES_PER_TIME_CHECK == 0:
            yield next_offset
    if position:
        yield next_offset


class CoordinatorPartitionLog:
    """The log of a partition that this broker leads."""

    def __init__(self, partition: Partition, context: CoordinatorContext) -> None:
        self.partition = partition
        self._context = context
        self._codec = context.settings.topic_codec

    @property
    def partition_index(self) -> int:
        return self.partition.topic_partition.partition

    @property
    def log_end_offset(self) -> int:
        return self.partition.log.log_end_offset

    @property
    def max_message_bytes(self) -> int:
        """The limit above which a batch is rejected."""
        return self.partition.log.settings.max_message_bytes

    @property
    def is_fully_replicated(self) -> bool:
        """Whether all in-sync replicas have the whole log."""
        return self.partition.is_replicated_to_isr(self.partition.hosted_log.log.log_end_offset)

    # Appending

    def append(self, records: Sequence[KeyValue]) -> LogAppendInfo:
        """Append all records or none; on an error of the partition nothing has changed."""
        now_ms = self._context.now_ms()
        codec = self._codec
        if codec is Codec.NONE:
            batch = build_plain_batch(records, timestamp=now_ms)
        else:
            batch = build_batch(records, timestamp=now_ms, fields=BatchFields(codec=codec))
        return self._append(batch, now_ms)

    def start_verification(
        self, producer_id: int, *, producer_epoch: int, supports_epoch_bump: bool
    ) -> VerificationGuard | None:
        """Return the guard for the first append of a transaction; None if it needs no guard."""
        states = self.partition.log.producer_state_manager
        if not (supports_epoch_bump or states.settings.transaction_partition_verification_enable):
            return None
        return states.start_verification(
            producer_id,
            epoch=producer_epoch,
            sequence=NO_SEQUENCE,
            now_ms=self._context.now_ms(),
            supports_epoch_bump=supports_epoch_bump,
        )

    def append_in_transaction(
        self,
        records: Sequence[KeyValue],
        *,
        producer_id: int,
        producer_epoch: int,
        guard: VerificationGuard | None = None,
    ) -> LogAppendInfo:
        """Append records that take effect when the producer's commit marker follows."""
        now_ms = self._context.now_ms()
        fields = BatchFields(
            codec=self._codec,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=0,
            is_transactional=True,
        )
        return self._append(build_batch(records, timestamp=now_ms, fields=fields), now_ms, guard)

    def _append(
        self, batch: bytearray, now_ms: int, guard: VerificationGuard | None = None
    ) -> LogAppendInfo:
        return self.partition.append(
            batch, acks=ACKS_ALL, now_ms=now_ms, origin=_COORDINATOR, verification_guard=guard
        )

    # Waiting for replicas

    def is_replicated(self, append_info: LogAppendInfo) -> bool:
        return self.partition.is_acknowledged(append_info, acks=ACKS_ALL)

    async def wait_until_replicated(self, append_info: LogAppendInfo) -> None:
        """Raise the error if the append is not replicated in time."""
        timeout_s = self._context.settings.commit_timeout_ms / 1000
        await self.partition.wait_until_acknowledged(
            append_info, acks=ACKS_ALL, timeout_s=timeout_s
        )

    async def wait_until_fully_replicated(self) -> None:
        """Wait until the present content of the log is replicated."""
        last = self.log_end_offset - 1
        await self.wait_until_replicated(LogAppendInfo(last, last))

    async def wait_for_isr(self) -> None:
        """Wait without a limit until all in-sync replicas have the present content of the log.

        Raises NotLeaderOrFollower when another broker leads.  A new leader epoch of this broker
        does not end the wait.
        """
        end, high_watermark = self.log_end_offset, self.partition.high_watermark
        while not self.partition.is_replicated_to_isr(end):
            try:
                await high_watermark.wait_for(
                    end, timeout_s=self._context.settings.commit_timeout_ms / 1000
                )
            except KafkaError:
                self.partition.require_leader()
            topic_partition = self.partition.topic_partition
            log.info(
                "%s is replicated up to offset %d, waiting for offset %d",
                topic_partition,
                high_watermark.value,
                end,
            )

    def when_replicated(self, append_info: LogAppendInfo, callback: ReplicationCallback) -> None:
        """Run ``callback`` when the append is replicated, immediately if it already is."""
        if self.is_replicated(append_info):
            callback(None)
        else:
            self._context.start_task(
                self._call_when_replicated(append_info, callback), "replication"
            )

    async def _call_when_replicated(
        self, append_info: LogAppendInfo, callback: ReplicationCallback
    ) -> None:
        try:
            await self.wait_until_replicated(append_info)
        except KafkaError as error:
            callback(error)
        else:
            callback(None)

    # Reading

    async def replay(self) -> Replay:
        """Replay the log up to its present end; raises CorruptMessage or KafkaStorageError."""
        replay, time_slice = Replay(), TimeSlice()
        with self.partition.hosted_log as log:
            offset, end = log.log_start_offset, log.log_end_offset
        while offset < end:
            chunk = await self._read_chunk(offset, end)
            if not chunk:
                break  # compaction has removed everything up to the end
            reached = offset
            for next_offset in replay_batches(chunk, replay):
                reached = next_offset
                if time_slice.is_used_up:
                    await time_slice.yield_to_loop()
            if reached == offset:
                raise CorruptMessage(
                    f"{self.partition.topic_partition} has no complete batch at offset {offset}"
                )
            offset = reached
        return replay

    async def _read_chunk(self, offset: int, end_offset: int) -> bytes:
        max_bytes = self._context.settings.load_buffer_bytes
        hosted_log = self.partition.hosted_log
        with hosted_log as log:
            region = log.read(
                max(offset, log.log_start_offset), max_bytes=max_bytes, max_offset=end_offset
            )
            if not region.length:
                return b""
            read = files.read_at, region.descriptor, region.length, region.position
            chunk: bytes = await self._context.run_blocking(hosted_log.directory, *read)
            return chunk
