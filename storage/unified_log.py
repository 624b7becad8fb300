"""The log of one partition: append, read, roll, flush, and its offsets.  Kafka: UnifiedLog.

    log_start_offset     the first readable offset; only increases, except by truncation
    high_watermark       replicated to the ISR; consumers read up to here
    last_stable_offset   no open transaction begins before it; read_committed reads up to here
    log_end_offset       the next offset to assign
    recovery_point       everything before it has been flushed

The order of an append: validate the batches and assign offsets, check the producer state, write the
bytes, advance ``log_end_offset``, and then update the producer state and the transaction index.  If
the transaction index cannot be written, the records are in the log and the next offset is right,
but the last stable offset does not advance.

A flush blocks in the kernel, so it has three steps: ``plan_flush`` here, ``FlushPlan.run`` on any
thread, ``mark_flushed`` here again.

Invariant: log_start_offset <= high_watermark <= log_end_offset, and recovery_point <=
log_end_offset.
Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from odradek.protocol.errors import OffsetOutOfRange
from odradek.protocol.file_region import FileRegion
from odradek.protocol.records.batch import MAGIC, NO_PARTITION_LEADER_EPOCH
from odradek.protocol.records.record import NO_TIMESTAMP
from odradek.protocol.records.record_set import AnyBatch, magic_of
from odradek.protocol.types import TopicPartition
from odradek.storage import files
from odradek.storage.flush_plan import FlushPlan
from odradek.storage.leader_epoch_file_cache import LeaderEpochFileCache
from odradek.storage.log_segment import LogSegment, SegmentConfig
from odradek.storage.log_segments import LogSegments
from odradek.storage.log_truncation import restart_empty_log_at
from odradek.storage.open_segments import (
    TooManyOpenFiles,
    close_evictable,
    is_too_many_open_files,
    not_retriable,
)
from odradek.storage.producer_state.producer_state_entry import AppendOrigin
from odradek.storage.producer_state.producer_state_manager import ProducerStateManager
from odradek.storage.producer_state.verification_guards import VerificationGuard
from odradek.storage.segment_deletion import delete_segment_files
from odradek.storage.segment_roll import should_roll
from odradek.storage.settings import TopicSettings
from odradek.storage.transaction_index import AbortedTxn
from odradek.storage.validation.append_rules import append_rules_for
from odradek.storage.validation.errors import UnexpectedAppendOffset
from odradek.storage.validation.offset_assignment import (
    RecordsToAppend,
    validate_and_assign_offsets,
    validate_follower_records,
)
from odradek.storage.validation.validated_batch import ValidatedBatch

OFFSET_DELTA_MAX = 2**31 - 1


@dataclass(slots=True, kw_only=True)
class LogComponents:
    """The parts of a log, as loaded from its directory or newly created."""

    segments: LogSegments
    producer_state_manager: ProducerStateManager
    leader_epoch_cache: LeaderEpochFileCache
    log_start_offset: int
    log_end_offset: int
    recovery_point: int


# Treated as immutable, but not frozen: a frozen instance takes five times as long to create, and
# every append creates one.
@dataclass(slots=True)
class LogAppendInfo:
    """The result of an append; treat as immutable.  Without records, the offsets are -1."""

    first_offset: int
    last_offset: int
    append_time_ms: int = NO_TIMESTAMP
    is_duplicate: bool = False
    converted_count: int = 0
    size_bytes: int = 0
    leader_epoch: int | None = None  # epoch of the records, if known


class UnifiedLog:
    """The records of a partition, in segments."""

    def __init__(
        self,
        directory: Path,
        partition: TopicPartition,
        settings: TopicSettings,
        components: LogComponents,
    ) -> None:
        self.directory = directory
        self.partition = partition
        self.segments = components.segments
        self.producer_state_manager = components.producer_state_manager
        self.leader_epoch_cache = components.leader_epoch_cache
        self.log_start_offset = components.log_start_offset
        self.log_end_offset = components.log_end_offset
        self.recovery_point = components.recovery_point
        self.high_watermark = components.log_start_offset
        self.last_flush_ms: int | None = None
        #: Log end offsets after truncations; records beyond them have been written again since.
        self.truncation_offsets: list[int] = []
        self._unflushed_snapshots: list[Path] = []
        self.configure(settings)

    def configure(self, settings: TopicSettings) -> None:
        """Apply changed settings; new segments use them."""
        self.settings = settings
        self.append_rules = append_rules_for(settings)
        self.segment_config = segment_config_for(settings)

    @property
    def size_bytes(self) -> int:
        return self.segments.size_bytes

    @property
    def last_stable_offset(self) -> int:
        unstable = self.producer_state_manager.transactions.first_unstable_offset
        if unstable is not None and unstable < self.high_watermark:
            return max(unstable, self.log_start_offset)
        return self.high_watermark

    # Appending

    def append_as_leader(
        self,
        records: memoryview | bytearray | ValidatedBatch,
        *,
        leader_epoch: int,
        now_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        guard: VerificationGuard | None = None,
    ) -> LogAppendInfo:
        """Validate, assign offsets and append; ``records`` must be writable, patched in place."""
        validated = validate_and_assign_offsets(
            records,
            self.append_rules,
            next_offset=self.log_end_offset,
            leader_epoch=leader_epoch,
            origin=origin,
            now_ms=now_ms,
        )
        if not validated.batches:
            return LogAppendInfo(first_offset=-1, last_offset=-1)
        return self._append(validated, origin, guard, now_ms)

    def append_as_follower(
        self, records: memoryview | bytearray, *, now_ms: int, leader_epoch: int | None = None
    ) -> LogAppendInfo:
        """Append batches whose offsets the leader assigned; ``leader_epoch`` if it is known.

        A leader whose log start offset is inside a batch sends the whole batch.  An empty log then
        restarts at that batch, below its log end offset.  The cleaner must be notified of this
        (``LogCleanerManager.maybe_truncate_checkpoint``).
        """
        try:
            validated = validate_follower_records(
                records, leader_epoch, next_offset=self.log_end_offset
            )
        except UnexpectedAppendOffset as unexpected:
            is_empty = self.log_start_offset == self.log_end_offset
            if not (is_empty and unexpected.last_offset >= self.log_end_offset):
                raise
            delete_segment_files(restart_empty_log_at(self, unexpected.first_offset))
            validated = validate_follower_records(
                records, leader_epoch, next_offset=self.log_end_offset
            )
        if not validated.batches:
            return LogAppendInfo(first_offset=-1, last_offset=-1)
        return self._append(validated, AppendOrigin.REPLICATION, None, now_ms)

    def _append(
        self,
        records_to_append: RecordsToAppend,
        origin: AppendOrigin,
        guard: VerificationGuard | None,
        now_ms: int,
    ) -> LogAppendInfo:
        batches = records_to_append.batches
        append_result = self.producer_state_manager.analyze_and_validate(
            batches, origin, guard=guard
        )
        if append_result.duplicate_batch is not None:
            original = append_result.duplicate_batch
            return LogAppendInfo(
                first_offset=original.first_offset,
                last_offset=original.last_offset,
                append_time_ms=original.timestamp,
                is_duplicate=True,
                leader_epoch=self.leader_epoch_cache.epoch_for_offset(original.last_offset),
            )
        if (
            len(batches) > 1
            or batches[0].partition_leader_epoch != self.leader_epoch_cache.latest_epoch
        ):
            self._maybe_assign_epoch_start_offsets(batches)
        segment = self.segments.active
        if should_roll(self, segment, records_to_append, now_ms):
            segment = self._roll_for_append(records_to_append, now_ms)
        if segment.base_offset > self.log_end_offset:
            # The segment begins beyond the log end: without a batch the log would have a gap.
            with not_retriable():
                segment.append(records_to_append.buffers, batches)
        else:
            segment.append(records_to_append.buffers, batches)
        self.log_end_offset = records_to_append.last_offset + 1
        self.producer_state_manager.update(append_result)
        for transaction in append_result.completed_txns:
            if transaction.is_aborted:
                stable = self.producer_state_manager.transactions.last_stable_offset_for(
                    transaction
                )
                producer_id, first_offset, last_offset, _ = transaction
                segment.transaction_index.append(
                    AbortedTxn(producer_id, first_offset, last_offset, stable)
                )
            self.producer_state_manager.transactions.complete(transaction)
        self.producer_state_manager.update_map_end_offset(self.log_end_offset)
        return LogAppendInfo(
            records_to_append.first_offset,
            records_to_append.last_offset,
            records_to_append.append_time_ms,
            False,
            records_to_append.converted_count,
            records_to_append.size_bytes,
            self.leader_epoch_cache.latest_epoch,
        )

    def _maybe_assign_epoch_start_offsets(self, batches: Sequence[AnyBatch]) -> None:
        latest = self.leader_epoch_cache.latest_epoch
        for batch in batches:
            epoch = batch.partition_leader_epoch
            if epoch == latest:
                continue
            if epoch > NO_PARTITION_LEADER_EPOCH:
                # An epoch below the latest means that no batch of the latest was appended.
                self.leader_epoch_cache.assign(epoch, start_offset=batch.base_offset)
            elif magic_of(batch) < MAGIC:
                # Old formats have no epochs: truncation uses the high watermark again.
                self.leader_epoch_cache.clear()
            latest = self.leader_epoch_cache.latest_epoch

    def _roll_for_append(self, records_to_append: RecordsToAppend, now_ms: int) -> LogSegment:
        """Roll before an append that does not fit.  Kafka: UnifiedLog.maybeRoll."""
        first_offset = records_to_append.first_offset
        if magic_of(records_to_append.batches[0]) < MAGIC:
            # An old wrapper has only its last offset; its first offset is at most this far away.
            first_offset = records_to_append.last_offset - OFFSET_DELTA_MAX
        return self.roll(now_ms=now_ms, base_offset=first_offset)

    def roll(self, *, now_ms: int, base_offset: int | None = None) -> LogSegment:
        """Seal the active segment and create a new one, at the log end offset or beyond it."""
        base_offset = max(self.log_end_offset, base_offset if base_offset is not None else 0)
        active = self.segments.active
        if active.base_offset == base_offset:
            assert active.size_bytes == 0, active
            return active
        active.seal()
        self.producer_state_manager.update_map_end_offset(base_offset)
        snapshot = self.producer_state_manager.take_snapshot(is_synced=False)
        if snapshot is not None:
            self._unflushed_snapshots.append(snapshot)
        segment = LogSegment(self.directory, base_offset, self.segment_config)
        segment.create()
        segment.created_ms = now_ms
        if active.size_bytes == 0 and active is not self.segments.first:
            # Remove the empty segment: two segments must not cover the same offsets.  But one of
            # them must survive any power cut, because its name records the log end offset.  The
            # first segment stays, because its name records the log start offset.
            files.sync_directory(self.directory)
            self.segments.remove([active])
            active.remove()
        self.segments.add(segment)
        return segment

    # Reading

    def read(
        self, offset: int, *, max_bytes: int, max_offset: int, at_least_one: bool = True
    ) -> FileRegion:
        """Return the batches from the one with ``offset`` on, but none that has ``max_offset``.

        The region is empty at the log end.  Raise OffsetOutOfRange outside of the log.
        """
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise OffsetOutOfRange(
                f"{self.partition}: the log has offsets {self.log_start_offset} to "
                f"{self.log_end_offset}; offset {offset} is out of range"
            )
        segment = self.segments.floor_segment(offset) or self.segments.first
        try:
            while offset < max_offset:
                end_position = segment.size_bytes
                following = self.segments.higher_segment(segment)
                if max_offset < (
                    self.log_end_offset if following is None else following.base_offset
                ):
                    end_position = self._position_before(segment, max_offset)
                region = segment.read(
                    offset,
                    max_bytes=max_bytes,
                    end_position=end_position,
                    at_least_one=at_least_one,
                )
                if region is not None:
                    return region
                if following is None:
                    break
                # Compaction has removed everything at or after the offset from this segment.
                segment = following
        except OSError as error:
            if is_too_many_open_files(error) and not segment.is_rebuilding_indexes:
                close_evictable(self.segments)
                raise TooManyOpenFiles(f"reading {self.partition}: {error}") from error
            raise
        return FileRegion(-1, 0, 0)

    def _position_before(self, segment: LogSegment, offset: int) -> int:
        location = segment.translate_offset(offset)
        return segment.size_bytes if location is None else location.position

    def collect_aborted_transactions(self, *, start: int, end: int) -> list[AbortedTxn]:
        """Return the transactions that overlap ``start`` to before ``end``, by first offset."""
        aborted_txns: list[AbortedTxn] = []
        for segment in self.segments.with_aborted_txns_from(start):
            overlapping = segment.transaction_index.collect_aborted_txns(start=start, end=end)
            aborted_txns += overlapping.aborted_txns
            if overlapping.is_complete:
                break
        return sorted(aborted_txns, key=lambda aborted: aborted.first_offset)

    # Offsets

    def update_high_watermark(self, offset: int) -> None:
        """Set the high watermark.  Only truncation and leader changes may decrease it."""
        assert self.log_start_offset <= offset <= self.log_end_offset, (self, offset)
        self.high_watermark = offset
        self.producer_state_manager.transactions.on_high_watermark_updated(offset)

    def maybe_increment_log_start_offset(self, offset: int) -> bool:
        """Drop the records before ``offset``; return False if that is already the case."""
        if offset > self.high_watermark:
            raise OffsetOutOfRange(
                f"{self.partition}: log start offset {offset} would exceed the high watermark "
                f"{self.high_watermark}"
            )
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        self.leader_epoch_cache.truncate_from_start(offset)
        self.producer_state_manager.on_log_start_offset_incremented(offset)
        return True

    # Flushing

    def plan_flush(self, *, flush_offset: int | None = None) -> FlushPlan:
        flush_offset = self.log_end_offset if flush_offset is None else flush_offset
        # At the log end even an empty segment is flushed: its name records the next offset.
        end = flush_offset + 1 if flush_offset == self.log_end_offset else flush_offset
        # Include the segment before: it may have been sealed, and so trimmed, since its flush.
        segments = self.segments.between(self.recovery_point - 1, end)
        return FlushPlan(
            directory=self.directory,
            log_files=tuple(segment.file for segment in segments),
            index_paths=tuple(path for segment in segments for path in segment.index_paths),
            snapshot_paths=tuple(self._unflushed_snapshots),
            leader_epoch_cache=self.leader_epoch_cache,
            flush_offset=flush_offset,
            truncation_count=len(self.truncation_offsets),
        )

    def mark_flushed(self, plan: FlushPlan, *, now_ms: int) -> None:
        """Advance the recovery point after ``plan`` has run, unless truncated since."""
        unflushed = self._unflushed_snapshots
        self._unflushed_snapshots = [path for path in unflushed if path not in plan.snapshot_paths]
        covered = min([plan.flush_offset, *self.truncation_offsets[plan.truncation_count :]])
        self.recovery_point = max(self.recovery_point, covered)
        self.last_flush_ms = now_ms

    def flush(self, *, now_ms: int) -> None:
        """Run all three steps, for callers that may block."""
        plan = self.plan_flush()
        plan.run()
        self.mark_flushed(plan, now_ms=now_ms)

    def close(self, *, now_ms: int) -> None:
        """Flush and close everything; the next open finds a clean log."""
        self.producer_state_manager.take_snapshot()
        for segment in self.segments:
            segment.close()
        self.flush(now_ms=now_ms)
        self.close_handlers()

    def close_handlers(self) -> None:
        """Close all files without changing them: the directory failed or is to be removed."""
        for segment in self.segments:
            segment.close_handlers()

    def __repr__(self) -> str:
        return (
            f"Log({self.partition}, {self.log_start_offset} to {self.log_end_offset}, "
            f"{len(self.segments)} segments)"
        )


@lru_cache(maxsize=256)
def segment_config_for(settings: TopicSettings) -> SegmentConfig:
    return SegmentConfig(
        index_interval_bytes=settings.index_interval_bytes,
        index_bytes_max=settings.segment_index_bytes,
        preallocated_bytes=settings.segment_bytes if settings.preallocate else 0,
    )
