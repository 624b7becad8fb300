"""Which segments are too old, too many, or before the start of the log?

Whole segments go, from the first on, and none that the high watermark has not passed, so that the
start of a log never overtakes it.  If all of them go, the active one is sealed first and an empty
one takes its place.

    by start   everything in it lies before the start of the log; whatever the policy is
    by size    without it, the log is still as large as ``retention.bytes``
    by time    its largest timestamp is older than ``retention.ms``; where records have no
               timestamps, the time when its file was last written counts

Of each that goes it is told why, how young its records are and when they were written: whoever
knows that a clock has jumped, or sees that what was just written is too old already, can say so.

    take_outlived   the log begins later, and has those segments no more.  Their files keep their
                    names: a crash leaves segments before the start of the log, if that has been
                    checkpointed, or all as it was
    files_aside     the files get out of the way, which sleeps in the kernel.  Until that is done
                    nobody may make, cut or move segments there (cleaner/schedule.py)
    snapshots       of producers follow: ``deletion.set_snapshots_aside``

Owner: the event loop; what ``files_aside`` returns may run on a disk thread.
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
    """Why a segment need not be kept."""

    START_OFFSET_BREACH = "it lies before the start of the log"
    RETENTION_SIZE_BREACH = "the log is large enough without it, by retention.bytes"
    RETENTION_MS_BREACH = "it is older than allowed, by retention.ms"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletableSegment:
    """A segment that was taken out of its log, and waits for removal."""

    partition: TopicPartition
    segment: LogSegment
    reason: SegmentDeletionReason
    max_timestamp: int  # of its records; NO_TIMESTAMP if they have none
    last_modified_ms: int  # when its file last was

    def __str__(self) -> str:
        segment = self.segment
        return (
            f"{self.partition}: Deleting segment (baseOffset={segment.base_offset}, "
            f"size={segment.size_bytes}) due to {self.reason.value}; largest timestamp "
            f"{self.max_timestamp}, last modified {self.last_modified_ms}"
        )


def apply_retention(log: UnifiedLog, *, now_ms: int) -> list[DeletableSegment]:
    """All of it, for a caller that may sleep; what waits for removal, in the order of offsets."""
    deleted = delete_old_segments(log, now_ms=now_ms)
    if deleted:
        plan_file_deletion(log, deleted)()
        mark_snapshots_deleted(
            [each.segment for each in deleted], log.producer_state_manager.snapshots
        )
    return deleted


def delete_old_segments(log: UnifiedLog, *, now_ms: int) -> list[DeletableSegment]:
    """Take what need not be kept out of the log; what was taken, in the order of offsets."""
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
    """What renames the files of segments that have just been taken out of the log."""
    segments = [each.segment for each in deleted]
    directory = log.directory
    is_first_unflushed = log.recovery_point <= log.segments.first.base_offset

    def run() -> None:
        if is_first_unflushed:
            # The name of the next segment may soon be all that tells where the log goes on: it
            # must not be lost while the removal of the others is kept.
            files.sync_directory(directory)
        mark_segment_files_deleted(segments)

    return run


DeletionPredicate = Callable[[LogSegment, LogSegment | None], bool]


def _deletable_segments(log: UnifiedLog, predicate: DeletionPredicate) -> Iterator[LogSegment]:
    """The segments from the first on that may go and of which the condition holds."""
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
    """When the file of its batches was last written."""
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
