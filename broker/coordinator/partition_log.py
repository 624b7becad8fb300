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

from odradek.broker.coordinator.batches import KeyValue, built_batch, plain_batch
from odradek.broker.coordinator.lone_records import lone_record
from odradek.broker.coordinator.replay import Replay
from odradek.broker.replicas.partition import ALL_IN_SYNC, Partition
from odradek.broker.turns import Turn
from odradek.protocol.errors import CorruptMessage, KafkaError
from odradek.protocol.records.batch import NO_SEQUENCE, whole_batch_bytes
from odradek.protocol.records.builder import BatchFields
from odradek.protocol.records.compression import Codec
from odradek.protocol.records.record_set import batch_at
from odradek.storage import files
from odradek.storage.log import Written
from odradek.storage.producers.append import AppendOrigin
from odradek.storage.producers.verification_guards import VerificationGuard

log = logging.getLogger(__name__)

_COORDINATOR = AppendOrigin.COORDINATOR

#: Who is told when it is replicated, or why it is not known to be.
Told = Callable[[KafkaError | None], None]


class LogOptions(Protocol):
    """The settings that matter here."""

    @property
    def commit_timeout_ms(self) -> int: ...

    @property
    def load_buffer_bytes(self) -> int: ...

    @property
    def topic_codec(self) -> Codec: ...


@dataclass(frozen=True, slots=True)
class Means:
    """What a log of a coordinator needs to work."""

    options: LogOptions
    now_ms: Callable[[], int]
    #: Starts a task.
    start: Callable[[Coroutine[Any, Any, None], str], object]
    #: Runs what sleeps in the kernel, in a log directory.
    run_in: Callable[..., Awaitable[Any]]
    #: Called when much has come that will stay, and when some of that is garbage now.
    has_loaded: Callable[[], None] = lambda: None
    has_dropped: Callable[[], None] = lambda: None


#: So many batches are looked at before somebody may want to know the time.
_AT_ONCE = 50


def replayed_in(piece: bytes, replay: Replay) -> Iterator[int]:
    """Take over all whole batches, and tell now and then which offset comes next."""
    view, position, count, next_offset = memoryview(piece), 0, 0, 0
    while True:
        lone = lone_record(piece, view, position)
        if lone is not None:
            offset, key, value, position = lone
            replay.take_record(offset, key, value)
            next_offset = offset + 1
        else:
            size_bytes = whole_batch_bytes(piece, position)
            if not size_bytes:
                break
            batch = batch_at(piece, position)
            batch.check_crc()
            replay.take(batch)
            next_offset, position = batch.next_offset, position + size_bytes
        count += 1
        if count % _AT_ONCE == 0:
            yield next_offset
    if position:
        yield next_offset


class PartitionLog:
    """Of a partition that this broker leads."""

    def __init__(self, partition: Partition, means: Means) -> None:
        self.partition = partition
        self._means = means
        self._codec = means.options.topic_codec

    @property
    def index(self) -> int:
        return self.partition.topic_partition.partition

    @property
    def end_offset(self) -> int:
        return self.partition.log.end_offset

    @property
    def batch_bytes_max(self) -> int:
        """A larger one is refused."""
        return self.partition.log.settings.max_message_bytes

    @property
    def is_settled(self) -> bool:
        """Whether all that was appended is on all that are in sync."""
        return self.partition.is_on_all_in_sync(self.partition.hosted.log.end_offset)

    # Appending

    def append(self, records: Sequence[KeyValue]) -> Written:
        """All or none of them; raises what the partition does, and nothing has changed then."""
        now_ms = self._means.now_ms()
        codec = self._codec
        if codec is Codec.NONE:
            batch = plain_batch(records, timestamp=now_ms)
        else:
            batch = built_batch(records, timestamp=now_ms, fields=BatchFields(codec=codec))
        return self._append(batch, now_ms)

    def start_verification(
        self, producer_id: int, *, producer_epoch: int, bumps_epochs: bool
    ) -> VerificationGuard | None:
        """What the first append of a transaction must present; None if nobody has to be asked."""
        states = self.partition.log.producers
        if not (bumps_epochs or states.settings.transaction_partition_verification_enable):
            return None
        return states.start_verification(
            producer_id,
            epoch=producer_epoch,
            sequence=NO_SEQUENCE,
            now_ms=self._means.now_ms(),
            bumps_epochs=bumps_epochs,
        )

    def append_in_transaction(
        self,
        records: Sequence[KeyValue],
        *,
        producer_id: int,
        producer_epoch: int,
        guard: VerificationGuard | None = None,
    ) -> Written:
        """Counts when a marker of the producer has followed."""
        now_ms = self._means.now_ms()
        fields = BatchFields(
            codec=self._codec,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=0,
            is_transactional=True,
        )
        return self._append(built_batch(records, timestamp=now_ms, fields=fields), now_ms, guard)

    def _append(
        self, batch: bytearray, now_ms: int, guard: VerificationGuard | None = None
    ) -> Written:
        return self.partition.append(
            batch, acks=ALL_IN_SYNC, now_ms=now_ms, origin=_COORDINATOR, guard=guard
        )

    # Waiting for replicas

    def is_replicated(self, written: Written) -> bool:
        return self.partition.is_acknowledged(written, acks=ALL_IN_SYNC)

    async def wait_until_replicated(self, written: Written) -> None:
        """Raises what stands against it."""
        timeout_s = self._means.options.commit_timeout_ms / 1000
        await self.partition.wait_until_acknowledged(written, acks=ALL_IN_SYNC, timeout_s=timeout_s)

    async def wait_until_settled(self) -> None:
        """Until all that is there now is replicated."""
        last = self.end_offset - 1
        await self.wait_until_replicated(Written(last, last))

    async def wait_for_all_in_sync(self) -> None:
        """Until they have all that is there now, however long it takes.

        Raises NotLeader once another leads: in a new epoch of this leader it is waited on.
        """
        end, watermark = self.end_offset, self.partition.high_watermark
        while not self.partition.is_on_all_in_sync(end):
            try:
                await watermark.wait_for(
                    end, timeout_s=self._means.options.commit_timeout_ms / 1000
                )
            except KafkaError:
                self.partition.leading()
            name = self.partition.topic_partition
            log.info("%s is replicated up to %d, to be %d", name, watermark.value, end)

    def when_replicated(self, written: Written, tell: Told) -> None:
        """At once, if it is."""
        if self.is_replicated(written):
            tell(None)
        else:
            self._means.start(self._tell_when_replicated(written, tell), "replication")

    async def _tell_when_replicated(self, written: Written, tell: Told) -> None:
        try:
            await self.wait_until_replicated(written)
        except KafkaError as failure:
            tell(failure)
        else:
            tell(None)

    # Reading

    async def replayed(self) -> Replay:
        """What is in the log up to its present end; raises CorruptMessage, KafkaStorageError."""
        replay, turn = Replay(), Turn()
        with self.partition.hosted as log:
            offset, end = log.start_offset, log.end_offset
        while offset < end:
            piece = await self._piece(offset, end)
            if not piece:
                break  # compaction has left nothing up to the end
            reached = offset
            for next_offset in replayed_in(piece, replay):
                reached = next_offset
                if turn.is_over:
                    await turn.next()
            if reached == offset:
                raise CorruptMessage(f"{self.partition.topic_partition} stops at {offset}")
            offset = reached
        return replay

    async def _piece(self, offset: int, end: int) -> bytes:
        max_bytes = self._means.options.load_buffer_bytes
        hosted = self.partition.hosted
        with hosted as log:
            region = log.read(max(offset, log.start_offset), max_bytes=max_bytes, up_to=end)
            if not region.length:
                return b""
            read = files.read_at, region.descriptor, region.length, region.position
            piece: bytes = await self._means.run_in(hosted.directory, *read)
            return piece
