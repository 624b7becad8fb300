"""A coordinator's log in memory: real batches, numbered and replayed as in a partition."""

import asyncio
from collections.abc import Callable, Sequence

from odradek.broker.coordinator.batches import KeyValue, build_batch, build_plain_batch
from odradek.broker.coordinator.replay import Replay
from odradek.protocol.errors import KafkaError, MessageTooLarge
from odradek.protocol.records.batch import RecordBatch
from odradek.protocol.records.builder import BatchFields
from odradek.protocol.records.control_records import EndTransactionMarker, build_marker_batch
from odradek.storage.unified_log import LogAppendInfo


class MemoryLog:
    """``failure`` is what every append raises; while ``is_held`` nothing is replicated.

    One larger than ``max_message_bytes`` is refused.
    """

    partition_index = 0

    def __init__(self) -> None:
        self.batches: list[RecordBatch] = []
        self.log_end_offset = 0
        #: What was written before is replicated.
        self.replicated_offset = 0
        self.failure: KafkaError | None = None
        self.is_held = False
        self.max_message_bytes = 1_048_588
        self._waiting: list[tuple[LogAppendInfo, Callable[[KafkaError | None], None]]] = []
        #: Called before anything is written.
        self.on_write: Callable[[], None] = lambda: None

    @property
    def is_fully_replicated(self) -> bool:
        return not self.is_held

    def append(self, records: Sequence[KeyValue]) -> LogAppendInfo:
        return self._append(build_plain_batch(records, timestamp=1))

    def append_in_transaction(
        self, records: Sequence[KeyValue], *, producer_id: int, producer_epoch: int, guard=None
    ) -> LogAppendInfo:
        fields = BatchFields(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=0,
            is_transactional=True,
        )
        return self._append(build_batch(records, timestamp=1, fields=fields))

    def mark(self, producer_id: int, *, is_commit: bool) -> None:
        marker = EndTransactionMarker(is_commit, coordinator_epoch=0)
        self._append(
            build_marker_batch(marker, timestamp=1, producer_id=producer_id, producer_epoch=0)
        )

    def _append(self, raw: bytearray) -> LogAppendInfo:
        if self.failure is not None:
            raise self.failure
        if len(raw) > self.max_message_bytes:
            raise MessageTooLarge()
        self.on_write()
        batch = RecordBatch(raw)
        batch.assign_offsets(self.log_end_offset, 0)
        batch.check_crc()
        self.batches.append(batch)
        first, self.log_end_offset = self.log_end_offset, batch.next_offset
        if not self.is_held:
            self.replicated_offset = self.log_end_offset
        return LogAppendInfo(first, self.log_end_offset - 1)

    def is_replicated(self, written: LogAppendInfo) -> bool:
        return not self.is_held

    def when_replicated(self, append_info, callback) -> None:
        if self.is_held:
            self._waiting.append((append_info, callback))
        else:
            callback(None)

    async def wait_until_replicated(self, written: LogAppendInfo) -> None:
        told: asyncio.Future[KafkaError | None] = asyncio.get_running_loop().create_future()
        self.when_replicated(written, told.set_result)
        failure = await told
        if failure is not None:
            raise failure

    def release(self, failure: KafkaError | None = None) -> None:
        """All that waited is replicated now, or known not to be."""
        self.is_held = False
        self.release_before(self.log_end_offset, failure)

    def release_before(self, offset: int, failure: KafkaError | None = None) -> None:
        """What was written before this offset is, and nothing else."""
        if failure is None:
            self.replicated_offset = max(offset, self.replicated_offset)
        waiting, self._waiting = self._waiting, []
        for written, tell in waiting:
            if written.last_offset < offset:
                tell(failure)
            else:
                self._waiting.append((written, tell))

    def replay(self, *, only_replicated: bool = False) -> Replay:
        replay = Replay()
        for batch in self.batches:
            if not only_replicated or batch.next_offset <= self.replicated_offset:
                replay.add_batch(batch)
        return replay
