"""Track how far each partition is readable while a broker writes.

A partition is readable up to the high watermark, but not beyond the log end, because the log may
have lost records that the checkpoint covers; at read_committed, up to the last stable offset.  The
tracker keeps the transactions and the log end between refreshes, so that each refresh reads only
what was appended since the previous one.

Owner: the driver process of one stream.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from odradek.spark_jobs.scan.catalog import PartitionLog, Segment, find_partition_logs
from odradek.spark_jobs.scan.lookup import find_log_end_offset
from odradek.spark_jobs.scan.options import ScanOptions
from odradek.spark_jobs.scan.plan import needs_transaction_state, retry_on_missing_file
from odradek.spark_jobs.scan.transactions import (
    PartitionTransactions,
    load_transactions,
    update_transactions,
)

PartitionKey = tuple[str, int]  # topic and partition


@dataclass(frozen=True, slots=True)
class TrackedPartition:
    """A partition as of the last refresh."""

    log: PartitionLog
    readable_end_offset: int  # records from this offset on are not readable yet
    log_end_offset: int  # regardless of the high watermark
    transactions: PartitionTransactions = field(default_factory=PartitionTransactions)


@dataclass(slots=True)
class _TransactionProgress:
    transactions: PartitionTransactions
    end_offset: int  # the transactions are known up to this offset


@dataclass(frozen=True, slots=True)
class _CachedLogEnd:
    last_segment: Segment | None
    offset: int

    def is_current_for(self, last_segment: Segment | None, high_watermark: int | None) -> bool:
        if last_segment is None or self.last_segment is None or high_watermark is None:
            return False
        is_longer = (last_segment.path, last_segment.size_bytes) >= (
            self.last_segment.path,
            self.last_segment.size_bytes,
        )
        return is_longer and self.offset >= high_watermark


class PartitionTracker:
    """Tracks the partitions that the options select, including new topics."""

    def __init__(self, options: ScanOptions) -> None:
        # A named topic may be deleted while the stream runs; the stream reader reports that itself.
        self._options = replace(options, fail_on_data_loss=False)
        self._transaction_progress: dict[PartitionKey, _TransactionProgress] = {}
        self._log_ends: dict[PartitionKey, _CachedLogEnd] = {}

    def refresh(self) -> dict[PartitionKey, TrackedPartition]:
        return retry_on_missing_file(self._refresh)

    def forget_before(self, offsets: dict[PartitionKey, int]) -> None:
        """Drop aborted transactions below these offsets, which will not be read again."""
        for key, progress in self._transaction_progress.items():
            offset = offsets.get(key, 0)
            aborted = progress.transactions.aborted
            progress.transactions.aborted = {
                transaction for transaction in aborted if transaction.last_offset >= offset
            }

    def _refresh(self) -> dict[PartitionKey, TrackedPartition]:
        tracked = {
            (log.topic, log.partition): self._track(log)
            for log in find_partition_logs(self._options)
        }
        # Forget deleted partitions: a topic that is created again starts from scratch.
        for key in self._log_ends.keys() - tracked.keys():
            self._log_ends.pop(key)
            self._transaction_progress.pop(key, None)
        return tracked

    def _track(self, log: PartitionLog) -> TrackedPartition:
        log_end = end_offset = self._log_end(log)
        if log.high_watermark is not None:
            end_offset = min(log.high_watermark, log_end)
        if not needs_transaction_state(self._options):
            return TrackedPartition(log, end_offset, log_end)
        key = (log.topic, log.partition)
        progress = self._transaction_progress.get(key)
        if progress is None or progress.end_offset > end_offset:
            progress = self._transaction_progress[key] = _TransactionProgress(
                load_transactions(log), end_offset
            )
        elif progress.end_offset < end_offset:
            update_transactions(
                log, progress.transactions, start_offset=progress.end_offset, end_offset=end_offset
            )
            progress.end_offset = end_offset
        stable_offset = progress.transactions.last_stable_offset(end_offset)
        return TrackedPartition(log, stable_offset, log_end, progress.transactions)

    def _log_end(self, log: PartitionLog) -> int:
        """Return the cached log end if it is far enough and the log has not become shorter."""
        key, last = (log.topic, log.partition), log.segments[-1] if log.segments else None
        cached = self._log_ends.get(key)
        if cached is None or not cached.is_current_for(last, log.high_watermark):
            cached = self._log_ends[key] = _CachedLogEnd(last, find_log_end_offset(log))
        return cached.offset
