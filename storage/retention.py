"""Retention: deletes segments by age, by size, or before the log start offset.

Kafka: UnifiedLog.deleteOldSegments, deleteRetentionMsBreachedSegments,
deleteRetentionSizeBreachedSegments and deleteLogStartOffsetBreachedSegments.

Whole segments are deleted, from the first on, and only those below the high watermark: the log
start offset never passes the high watermark.  If all segments are deleted, the active one is sealed
first and an empty segment replaces it.

    log start offset   all records are before the log start offset; applies to every cleanup policy
    retention size     the log is at least ``retention.bytes`` large without the segment
    retention time     the largest timestamp is older than ``retention.ms``; if the records have no
                       timestamps, the modification time of the .log file is used

Each deleted segment is reported with the reason, its largest timestamp and its modification time.
The report shows when a clock has jumped, or when records are too old as soon as they are written.

    delete_old_segments      advances the log start offset and removes the segments from the log.
                             Their files keep their names.  A crash leaves segments before the log
                             start offset if that was checkpointed, or leaves everything unchanged
    plan_file_deletion       returns a function that renames the files and blocks in the kernel.
                             Until it is done, nothing may create, truncate or move segments of the
                             log (cleaner/log_cleaner_manager.py)
    mark_snapshots_deleted   renames the producer snapshots afterwards (segment_deletion.py)

Kafka: UnifiedLog.deleteOldSegments.
Owner: the event loop; the function from ``plan_file_deletion`` may run on a disk thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from odradek.protocol.types import TopicPartition
from odradek.storage import files
from odradek.storage.log_segment import LogSegment
from odradek.storage.paths import LogFileType
from odradek.storage.segment_deletion import mark_segment_files_deleted, mark_snapshots_deleted
from odradek.storage.time_index import NO_TIMESTAMP
from odradek.storage.unified_log import UnifiedLog


class SegmentDeletionReason(Enum):
    """Why a segment is deleted."""

    START_OFFSET_BREACH = "log start offset breach"
    RETENTION_SIZE_BREACH = "retention size breach (retention.bytes)"
    RETENTION_MS_BREACH = "retention time breach (retention.ms)"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletableSegment:
    """A segment that was removed from its log and whose files are to be deleted."""

    partition: TopicPartition
    segment: LogSegment
    reason: SegmentDeletionReason
    max_timestamp: int  # NO_TIMESTAMP if its records have none
    last_modified_ms: int  # modification time of the .log file

    def __str__(self) -> str:
        segment = self.segment
        return (
            f"{self.partition}: Deleting segment (baseOffset={segment.base_offset}, "
            f"size={segment.size_bytes}) due to {self.reason.value}; largest timestamp "
            f"{self.max_timestamp}, last modified {self.last_modified_ms}"
        )


def apply_retention(log: UnifiedLog, *, now_ms: int) -> list[DeletableSegment]:
    """Run all steps, for callers that may block; return the segments in the order of offsets."""
    deleted = delete_old_segments(log, now_ms=now_ms)
    if deleted:
        plan_file_deletion(log, deleted)()
        mark_snapshots_deleted(
            [each.segment for each in deleted], log.producer_state_manager.snapshots
        )
    return deleted


def delete_old_segments(log: UnifiedLog, *, now_ms: int) -> list[DeletableSegment]:
    """Remove segments from the log; return them in the order of offsets."""
    deleted = _delete_matching(
        log, SegmentDeletionReason.START_OFFSET_BREACH, _start_offset_predicate(log), now_ms
    )
    if log.settings.deletes_old_segments:
        deleted += _delete_matching(
            log, SegmentDeletionReason.RETENTION_SIZE_BREACH, _retention_size_predicate(log), now_ms
        )
        deleted += _delete_matching(
            log,
            SegmentDeletionReason.RETENTION_MS_BREACH,
            _retention_ms_predicate(log, now_ms),
            now_ms,
        )
    return deleted


def plan_file_deletion(log: UnifiedLog, deleted: Sequence[DeletableSegment]) -> Callable[[], None]:
    """Return a function that renames the files of segments just removed from the log."""
    segments = [each.segment for each in deleted]
    directory = log.directory
    is_first_unflushed = log.recovery_point <= log.segments.first.base_offset

    def run() -> None:
        if is_first_unflushed:
            # The name of the remaining segment may soon be the only record of the next offset.  It
            # must be durable before the deletion of the others is.
            files.sync_directory(directory)
        mark_segment_files_deleted(segments)

    return run


DeletionPredicate = Callable[[LogSegment, LogSegment | None], bool]


def _deletable_segments(log: UnifiedLog, predicate: DeletionPredicate) -> Iterator[LogSegment]:
    """Yield segments from the first on, while they may be deleted and match the predicate."""
    for segment in log.segments:
        following = log.segments.higher_segment(segment)
        if following is None and segment.size_bytes == 0:
            return
        end = log.log_end_offset if following is None else following.base_offset
        if end > log.high_watermark or not predicate(segment, following):
            return
        yield segment


def _start_offset_predicate(log: UnifiedLog) -> DeletionPredicate:
    def condition(segment: LogSegment, following: LogSegment | None) -> bool:
        return following is not None and following.base_offset <= log.log_start_offset

    return condition


def _retention_size_predicate(log: UnifiedLog) -> DeletionPredicate:
    limit = log.settings.retention_bytes
    excess = log.size_bytes - limit

    def condition(segment: LogSegment, following: LogSegment | None) -> bool:
        nonlocal excess
        if limit < 0 or excess < segment.size_bytes:
            return False
        excess -= segment.size_bytes
        return True

    return condition


def _retention_ms_predicate(log: UnifiedLog, now_ms: int) -> DeletionPredicate:
    limit = log.settings.retention_ms

    def condition(segment: LogSegment, following: LogSegment | None) -> bool:
        return limit >= 0 and now_ms - _largest_timestamp_ms(segment) > limit

    return condition


def _largest_timestamp_ms(segment: LogSegment) -> int:
    largest = segment.max_timestamp_and_offset.timestamp
    return largest if largest > NO_TIMESTAMP else last_modified_ms(segment)


def last_modified_ms(segment: LogSegment) -> int:
    """Return the modification time of the .log file."""
    return segment.path(LogFileType.LOG).stat().st_mtime_ns // 1_000_000


def _delete_matching(
    log: UnifiedLog, reason: SegmentDeletionReason, predicate: DeletionPredicate, now_ms: int
) -> list[DeletableSegment]:
    segments = list(_deletable_segments(log, predicate))
    if not segments:
        return []
    deleted = [_deletable_segment(log, segment, reason) for segment in segments]
    if segments[-1] is log.segments.active:
        log.roll(now_ms=now_ms)
    following = log.segments.higher_segment(segments[-1])
    assert following is not None, log
    log.maybe_increment_log_start_offset(following.base_offset)
    log.segments.remove(segments)
    return deleted


def _deletable_segment(
    log: UnifiedLog, segment: LogSegment, reason: SegmentDeletionReason
) -> DeletableSegment:
    return DeletableSegment(
        partition=log.partition,
        segment=segment,
        reason=reason,
        max_timestamp=segment.max_timestamp_and_offset.timestamp,
        last_modified_ms=last_modified_ms(segment),
    )
