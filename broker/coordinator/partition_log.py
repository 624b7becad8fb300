"""One partition of an internal topic, as its coordinator writes it and reads it.

Appending is done at once; what is appended counts at once, too.  Answers that tell of it wait until
it is replicated: by ``when_replicated``, or where somebody awaits, by ``wait_until_replicated``.

Reading goes from the start to the end, in pieces that are read by a thread and looked at in turns.

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

log = logging.getLogger(__name__)

_COORDINATOR = AppendOrigin.COORDINATOR

#: Who is told when it is replicated, or why it is not known to be.
ReplicationCallback = Callable[[KafkaError | None], None]


class CoordinatorLogSettings(Protocol):
    """The settings that matter here."""

    @property
    def commit_timeout_ms(self) -> int: ...

    @property
    def load_buffer_bytes(self) -> int: ...

    @property
    def topic_codec(self) -> Codec: ...


@dataclass(frozen=True, slots=True)
class CoordinatorContext:
    """What a log of a coordinator needs to work."""

    settings: CoordinatorLogSettings
    now_ms: Callable[[], int]
    #: Starts a task.
    start_task: Callable[[Coroutine[Any, Any, None], str], object]
    #: Runs what sleeps in the kernel, in a log directory.
    run_blocking: Callable[..., Awaitable[Any]]
    #: Called when much has come that will stay, and when some of that is garbage now.
    on_shard_loaded: Callable[[], None] = lambda: None
    on_shard_unloaded: Callable[[], None] = lambda: None


#: So many batches are looked at before somebody may want to know the time.
_BATCHES_PER_TIME_CHECK = 50


def replay_batches(buffer: bytes, replay: Replay) -> Iterator[int]:
    """Take over all whole batches, and tell now and then which offset comes next."""
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
    """Of a partition that this broker leads."""

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
        """A larger one is refused."""
        return self.partition.log.settings.max_message_bytes

    @property
    def is_fully_replicated(self) -> bool:
        """Whether all that was appended is on all that are in sync."""
        return self.partition.is_replicated_to_isr(self.partition.hosted_log.log.log_end_offset)

    # Appending

    def append(self, records: Sequence[KeyValue]) -> LogAppendInfo:
        """All or none of them; raises what the partition does, and nothing has changed then."""
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
        """What the first append of a transaction must present; None if nobody has to be asked."""
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
        """Counts when a marker of the producer has followed."""
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
        """Raises what stands against it."""
        timeout_s = self._context.settings.commit_timeout_ms / 1000
        await self.partition.wait_until_acknowledged(
            append_info, acks=ACKS_ALL, timeout_s=timeout_s
        )

    async def wait_until_fully_replicated(self) -> None:
        """Until all that is there now is replicated."""
        last = self.log_end_offset - 1
        await self.wait_until_replicated(LogAppendInfo(last, last))

    async def wait_for_isr(self) -> None:
        """Until they have all that is there now, however long it takes.

        Raises NotLeader once another leads: in a new epoch of this leader it is waited on.
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
                "%s is replicated up to %d, to be %d", topic_partition, high_watermark.value, end
            )

    def when_replicated(self, append_info: LogAppendInfo, callback: ReplicationCallback) -> None:
        """At once, if it is."""
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
        """What is in the log up to its present end; raises CorruptMessage, KafkaStorageError."""
        replay, time_slice = Replay(), TimeSlice()
        with self.partition.hosted_log as log:
            offset, end = log.log_start_offset, log.log_end_offset
        while offset < end:
            chunk = await self._read_chunk(offset, end)
            if not chunk:
                break  # compaction has left nothing up to the end
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
