"""Decides whether a batch is retained in a compacted log, and with which of its records.

Kafka: Cleaner.shouldRetainRecord and MemoryRecords.RecordFilter.

    record             is retained if no later record has its key; without a key it is dropped
    tombstone          is retained like a record, until the delete horizon of its batch has passed.
                       The horizon is set when compaction first finds the tombstone to be the latest
                       record of its key, to now + delete.retention.ms.  A consumer that has read
                       the value has that long to read the tombstone
    aborted data       is dropped
    marker             is retained while data of its transaction is in the log, and then until a
                       delete horizon that is set when no data is left.  A marker that is the only
                       source of its producer's epoch is retained (Kafka empties it in the end and
                       then loses the epoch)
    batch              is dropped with its last record.  It is retained without records if it holds
                       its producer's last sequence, or if it is the last of the cleaned range: the
                       next offset and sequence must be known after a restart
    beyond the map     everything is retained, except aborted data

A batch that keeps all records is copied unchanged.  A batch that loses records keeps its offsets,
last offset delta, codec and timestamps, and its max timestamp is recomputed.  Magic 0 and 1 have no
delete horizon: there a tombstone is retained while ``retains_legacy_tombstones`` is set for its
segment.

Owner: the worker process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from odradek.protocol.records.batch import RecordBatch
from odradek.protocol.records.builder import empty_batch, fields_of
from odradek.protocol.records.legacy_batch import LegacyBatch
from odradek.protocol.records.legacy_builder import LegacyBuilder, LegacyFormat
from odradek.protocol.records.record import TimestampType
from odradek.protocol.records.record_set import AnyBatch
from odradek.storage.cleaner.batch_records import (
    BatchRecords,
    max_timestamp_of,
    parse_records,
    rewrite_batch,
)
from odradek.storage.cleaner.cleaned_transaction_metadata import CleanedTransactionMetadata
from odradek.storage.cleaner.offset_map import OffsetMap
from odradek.storage.files import Buffer
from odradek.storage.transaction_index import AbortedTxn

_TIMESTAMP_MAX = 2**63 - 1


class LastRecord(NamedTuple):
    """The offset of a producer's last data batch; None if only a marker with its epoch is left."""

    last_data_offset: int | None
    producer_epoch: int


class RetainedBatch(NamedTuple):
    """A batch as it is written to the cleaned segment."""

    buffer: Buffer
    last_offset: int
    max_timestamp: int
    record_count: int
    is_unchanged: bool  # the bytes are those of the original batch


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFilterParams:
    """The inputs of the decision besides the offset map and the transactions."""

    now_ms: int
    delete_retention_ms: int
    end_offset: int  # of the range that is being compacted
    last_records_of_active_producers: Mapping[int, LastRecord]

    @property
    def new_delete_horizon_ms(self) -> int:
        return min(self.now_ms + self.delete_retention_ms, _TIMESTAMP_MAX)


class RecordFilter:
    """Filters the batches of a log in offset order, from the first on."""

    def __init__(
        self,
        params: RecordFilterParams,
        offset_map: OffsetMap,
        transaction_metadata: CleanedTransactionMetadata,
    ) -> None:
        self._params = params
        self._offset_map = offset_map
        self._transaction_metadata = transaction_metadata
        #: The aborted transaction to add to the index of the segment that gets the last batch.
        self.aborted_txn: AbortedTxn | None = None
        self.retains_legacy_tombstones = True  # for magic 0 and 1, set per segment
        self.keyless_records = 0
        self.records_read = 0

    def filter_batch(self, batch: AnyBatch) -> RetainedBatch | None:
        """Return the retained part of the batch; None if the batch is dropped."""
        self.aborted_txn = None
        if isinstance(batch, LegacyBatch):
            return self._filter_legacy_batch(batch)
        self.records_read += batch.count
        if batch.is_control:
            return self._filter_marker(batch)
        if self._transaction_metadata.on_batch_read(batch):
            return self._retain_empty_if_needed(batch)
        if batch.base_offset >= self._offset_map.end_offset:
            return _retain_whole(batch)
        return self._filter_records(batch)

    def _filter_marker(self, batch: RecordBatch) -> RetainedBatch | None:
        is_done, self.aborted_txn = self._transaction_metadata.on_control_batch_read(batch)
        horizon_ms = batch.delete_horizon_ms
        if not is_done or self._is_last_record_of_producer(batch):
            return _retain_whole(batch)
        if batch.count == 0 or (horizon_ms is not None and horizon_ms <= self._params.now_ms):
            return self._retain_empty_if_needed(batch)
        if horizon_ms is not None:
            return _retain_whole(batch)
        records = parse_records(batch)
        return self._rewrite(batch, records, range(batch.count), sets_delete_horizon=True)

    def _filter_records(self, batch: RecordBatch) -> RetainedBatch | None:
        records, horizon_ms = parse_records(batch), batch.delete_horizon_ms
        self.keyless_records += records.keys.count(None)
        retained_slots = self._offset_map.latest_slots(records, batch.base_offset)
        if horizon_ms is not None and horizon_ms <= self._params.now_ms:
            retained_slots = [slot for slot in retained_slots if slot not in records.tombstones]
        if not retained_slots:
            return self._retain_empty_if_needed(batch)
        has_tombstone = not records.tombstones.isdisjoint(retained_slots)
        needs_delete_horizon = has_tombstone and horizon_ms is None
        if len(retained_slots) == batch.count and not needs_delete_horizon:
            return _retain_whole(batch)
        return self._rewrite(
            batch, records, retained_slots, sets_delete_horizon=needs_delete_horizon
        )

    def _filter_legacy_batch(self, batch: LegacyBatch) -> RetainedBatch | None:
        records = list(batch.records())
        self.records_read += len(records)
        if batch.last_offset >= self._offset_map.end_offset:
            return _retain_whole(batch)
        legacy_format = _legacy_format(batch)
        builder = LegacyBuilder(legacy_format)
        last_offset = -1
        for record in records:
            if record.key is None:
                self.keyless_records += 1
            elif self._offset_map.is_latest(record.key, record.offset) and (
                record.value is not None or self.retains_legacy_tombstones
            ):
                builder.append(record)
                last_offset = record.offset
        if builder.count == len(records):
            return _retain_whole(batch)
        if not builder.count:
            return None
        return RetainedBatch(
            builder.build(),
            last_offset,
            builder.max_timestamp,
            record_count=builder.count,
            is_unchanged=False,
        )

    def _rewrite(
        self,
        batch: RecordBatch,
        records: BatchRecords,
        slots: Sequence[int],
        *,
        sets_delete_horizon: bool,
    ) -> RetainedBatch:
        max_timestamp = max_timestamp_of(batch, records, slots)
        buffer = rewrite_batch(
            batch,
            records,
            slots,
            max_timestamp=max_timestamp,
            new_delete_horizon_ms=self._params.new_delete_horizon_ms
            if sets_delete_horizon
            else None,
        )
        return RetainedBatch(
            buffer, batch.last_offset, max_timestamp, record_count=len(slots), is_unchanged=False
        )

    def _retain_empty_if_needed(self, batch: RecordBatch) -> RetainedBatch | None:
        if batch.next_offset == self._params.end_offset or self._is_last_record_of_producer(batch):
            return _retain_empty(batch)
        return None

    def _is_last_record_of_producer(self, batch: RecordBatch) -> bool:
        last = (
            self._params.last_records_of_active_producers.get(batch.producer_id)
            if batch.has_producer_id
            else None
        )
        if last is None:
            return False
        if last.last_data_offset is not None:
            return batch.last_offset == last.last_data_offset
        return batch.is_control and batch.producer_epoch == last.producer_epoch


def _retain_whole(batch: AnyBatch) -> RetainedBatch:
    return RetainedBatch(
        batch.view,
        batch.last_offset,
        batch.max_timestamp,
        record_count=batch.count,
        is_unchanged=True,
    )


def _retain_empty(batch: RecordBatch) -> RetainedBatch:
    """The batch without its records."""
    if batch.count == 0:
        return _retain_whole(batch)
    header = empty_batch(
        fields_of(batch), last_offset=batch.last_offset, max_timestamp=batch.max_timestamp
    )
    return RetainedBatch(
        header, batch.last_offset, batch.max_timestamp, record_count=0, is_unchanged=False
    )


def _legacy_format(batch: LegacyBatch) -> LegacyFormat:
    is_append_time = batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    return LegacyFormat(
        magic=batch.magic,
        codec=batch.codec,
        append_time_ms=batch.max_timestamp if is_append_time else None,
    )
