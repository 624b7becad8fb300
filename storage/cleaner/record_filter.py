"""Does this batch stay in a compacted log, and with which of its records?

    record             stays if no later one has its key; one without a key never does
    tombstone          likewise, until the delete horizon of its batch has passed.  The horizon is
                       set when compaction first finds it the latest: now and delete.retention.ms
                       more, so that whoever has read the value has that long to read of its end
    aborted data       goes
    marker             stays while data of its transaction is there, and until a delete horizon
                       that is set when there is none left.  One that alone tells its producer's
                       epoch stays (Kafka empties it in the end, and then forgets the epoch)
    batch              goes with its last record, but is kept without records if its last sequence
                       is its producer's, or if it ends what is being compacted: the next offset
                       and sequence must be known after a restart
    beyond the map     everything stays, except aborted data

What stays whole is copied as it is.  What loses records keeps its offsets, its last offset delta,
its codec, its timestamps; the largest of them is found again.  Magic 0 and 1 have no delete
horizon: there a tombstone stays as long as its segment is younger than a time that is given.

Owner: the worker process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from odradek.protocol.records.batch import RecordBatch
from odradek.protocol.records.builder import empty_batch, fields_of
from odradek.protocol.records.legacy import LegacyBatch
from odradek.protocol.records.legacy_builder import LegacyBuilder, LegacyFormat
from odradek.protocol.records.record import TimestampType
from odradek.protocol.records.record_set import AnyBatch
from odradek.storage.cleaner.offset_map import OffsetMap
from odradek.storage.cleaner.records import WalkedRecords, largest_timestamp, walk, with_records
from odradek.storage.cleaner.transactions import TransactionsRead
from odradek.storage.files import Buffer
from odradek.storage.transaction_index import AbortedTransaction

_TIMESTAMP_MAX = 2**63 - 1


class LastRecord(NamedTuple):
    """Where the last sequence of a producer is; None if only a marker with its epoch is left."""

    last_offset: int | None
    epoch: int


class Kept(NamedTuple):
    """A batch as it stays."""

    buffer: Buffer
    last_offset: int
    max_timestamp: int
    record_count: int
    is_whole: bool  # as it was


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionRules:
    """What decides, besides the offset map and the transactions."""

    now_ms: int
    delete_retention_ms: int
    end_offset: int  # of all that is being compacted
    producers: Mapping[int, LastRecord]

    @property
    def new_horizon_ms(self) -> int:
        return min(self.now_ms + self.delete_retention_ms, _TIMESTAMP_MAX)


class Retention:
    """Judges the batches of a log one after the other, from its first on."""

    def __init__(
        self, rules: RetentionRules, offsets: OffsetMap, transactions: TransactionsRead
    ) -> None:
        self._rules = rules
        self._offsets = offsets
        self._transactions = transactions
        #: For the index of the segment that the batch just judged goes to.
        self.aborted: AbortedTransaction | None = None
        self.keeps_old_tombstones = True  # of magic 0 and 1
        self.keyless_count = 0
        self.read_count = 0

    def judge(self, batch: AnyBatch) -> Kept | None:
        """What stays of the batch; None if nothing does."""
        self.aborted = None
        if isinstance(batch, LegacyBatch):
            return self._judge_legacy(batch)
        self.read_count += batch.count
        if batch.is_control:
            return self._judge_marker(batch)
        if self._transactions.is_aborted(batch):
            return self._without_records(batch)
        if batch.base_offset >= self._offsets.end_offset:
            return _whole(batch)
        return self._judge_records(batch)

    def _judge_marker(self, batch: RecordBatch) -> Kept | None:
        is_done, self.aborted = self._transactions.end(batch)
        horizon_ms = batch.delete_horizon_ms
        if not is_done or self._is_last_of_producer(batch):
            return _whole(batch)
        if batch.count == 0 or (horizon_ms is not None and horizon_ms <= self._rules.now_ms):
            return self._without_records(batch)
        if horizon_ms is not None:
            return _whole(batch)
        records = walk(batch)
        return self._rewritten(batch, records, range(batch.count), has_new_horizon=True)

    def _judge_records(self, batch: RecordBatch) -> Kept | None:
        records, horizon_ms = walk(batch), batch.delete_horizon_ms
        self.keyless_count += records.keys.count(None)
        kept = self._offsets.latest(records, batch.base_offset)
        if horizon_ms is not None and horizon_ms <= self._rules.now_ms:
            kept = [slot for slot in kept if slot not in records.tombstones]
        if not kept:
            return self._without_records(batch)
        has_tombstone = not records.tombstones.isdisjoint(kept)
        has_new_horizon = has_tombstone and horizon_ms is None
        if len(kept) == batch.count and not has_new_horizon:
            return _whole(batch)
        return self._rewritten(batch, records, kept, has_new_horizon=has_new_horizon)

    def _judge_legacy(self, batch: LegacyBatch) -> Kept | None:
        records = list(batch.records())
        self.read_count += len(records)
        if batch.last_offset >= self._offsets.end_offset:
            return _whole(batch)
        form = _legacy_form(batch)
        builder = LegacyBuilder(form)
        last_offset = -1
        for record in records:
            if record.key is None:
                self.keyless_count += 1
            elif self._offsets.is_latest(record.key, record.offset) and (
                record.value is not None or self.keeps_old_tombstones
            ):
                builder.append(record)
                last_offset = record.offset
        if builder.count == len(records):
            return _whole(batch)
        if not builder.count:
            return None
        return Kept(
            builder.build(),
            last_offset,
            builder.max_timestamp,
            record_count=builder.count,
            is_whole=False,
        )

    def _rewritten(
        self,
        batch: RecordBatch,
        records: WalkedRecords,
        slots: Sequence[int],
        *,
        has_new_horizon: bool,
    ) -> Kept:
        max_timestamp = largest_timestamp(batch, records, slots)
        buffer = with_records(
            batch,
            records,
            slots,
            max_timestamp=max_timestamp,
            new_horizon_ms=self._rules.new_horizon_ms if has_new_horizon else None,
        )
        return Kept(
            buffer, batch.last_offset, max_timestamp, record_count=len(slots), is_whole=False
        )

    def _without_records(self, batch: RecordBatch) -> Kept | None:
        if batch.next_offset == self._rules.end_offset or self._is_last_of_producer(batch):
            return _emptied(batch)
        return None

    def _is_last_of_producer(self, batch: RecordBatch) -> bool:
        last = self._rules.producers.get(batch.producer_id) if batch.has_producer_id else None
        if last is None:
            return False
        if last.last_offset is not None:
            return batch.last_offset == last.last_offset
        return batch.is_control and batch.producer_epoch == last.epoch


def _whole(batch: AnyBatch) -> Kept:
    return Kept(
        batch.view, batch.last_offset, batch.max_timestamp, record_count=batch.count, is_whole=True
    )


def _emptied(batch: RecordBatch) -> Kept:
    """The batch without its records."""
    if batch.count == 0:
        return _whole(batch)
    header = empty_batch(
        fields_of(batch), last_offset=batch.last_offset, max_timestamp=batch.max_timestamp
    )
    return Kept(header, batch.last_offset, batch.max_timestamp, record_count=0, is_whole=False)


def _legacy_form(batch: LegacyBatch) -> LegacyFormat:
    is_append_time = batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    return LegacyFormat(
        magic=batch.magic,
        codec=batch.codec,
        append_time_ms=batch.max_timestamp if is_append_time else None,
    )
