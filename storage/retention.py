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
from odradek.storage.deletion import set_files_aside, set_snapshots_aside
from odradek.storage.log import Log
from odradek.storage.log_segment import LogSegment
from odradek.storage.paths import Content
from odradek.storage.time_index import NO_TIMESTAMP


class Reason(Enum):
    """Why a segment need not be kept."""

    START = "it lies before the start of the log"
    SIZE = "the log is large enough without it, by retention.bytes"
    TIME = "it is older than allowed, by retention.ms"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlived:
    """A segment that was taken out of its log, and waits for removal."""

    partition: TopicPartition
    segment: LogSegment
    reason: Reason
    largest_timestamp: int  # of its records; NO_TIMESTAMP if they have none
    written_ms: int  # when its file last was

    def __str__(self) -> str:
        segment = self.segment
        return (
            f"{self.partition}: the segment at {segment.base_offset}, of {segment.size_bytes} "
            f"bytes, is deleted: {self.reason.value}; its largest timestamp is "
            f"{self.largest_timestamp}, and it was last written at {self.written_ms}"
        )


def apply_retention(log: Log, *, now_ms: int) -> list[Outlived]:
    """All of it, for a caller that may sleep; what waits for removal, in the order of offsets."""
    gone = take_outlived(log, now_ms=now_ms)
    if gone:
        files_aside(log, gone)()
        set_snapshots_aside([each.segment for each in gone], log.producers.snapshots)
    return gone


def take_outlived(log: Log, *, now_ms: int) -> list[Outlived]:
    """Take what need not be kept out of the log; what was taken, in the order of offsets."""
    gone = _drop(log, Reason.START, _is_before_start(log), now_ms)
    if log.settings.deletes_old_segments:
        gone += _drop(log, Reason.SIZE, _is_over_size(log), now_ms)
        gone += _drop(log, Reason.TIME, _is_expired(log, now_ms), now_ms)
    return gone


def files_aside(log: Log, gone: Sequence[Outlived]) -> Callable[[], None]:
    """What renames the files of segments that have just been taken out of the log."""
    segments = [each.segment for each in gone]
    directory = log.directory
    is_end_new = log.recovery_point <= log.segments.first.base_offset

    def run() -> None:
        if is_end_new:
            # The name of the next segment may soon be all that tells where the log goes on: it
            # must not be lost while the removal of the others is kept.
            files.sync_directory(directory)
        set_files_aside(segments)

    return run


Condition = Callable[[LogSegment, LogSegment | None], bool]


def _leading(log: Log, condition: Condition) -> Iterator[LogSegment]:
    """The segments from the first on that may go and of which the condition holds."""
    for segment in log.segments:
        following = log.segments.after(segment)
        if following is None and segment.size_bytes == 0:
            return
        end = log.end_offset if following is None else following.base_offset
        if end > log.high_watermark or not condition(segment, following):
            return
        yield segment


def _is_before_start(log: Log) -> Condition:
    def condition(segment: LogSegment, following: LogSegment | None) -> bool:
        return following is not None and following.base_offset <= log.start_offset

    return condition


def _is_over_size(log: Log) -> Condition:
    limit = log.settings.retention_bytes
    excess = log.size_bytes - limit

    def condition(segment: LogSegment, following: LogSegment | None) -> bool:
        nonlocal excess
        if limit < 0 or excess < segment.size_bytes:
            return False
        excess -= segment.size_bytes
        return True

    return condition


def _is_expired(log: Log, now_ms: int) -> Condition:
    limit = log.settings.retention_ms

    def condition(segment: LogSegment, following: LogSegment | None) -> bool:
        return limit >= 0 and now_ms - _youngest_ms(segment) > limit

    return condition


def _youngest_ms(segment: LogSegment) -> int:
    largest = segment.largest.timestamp
    return largest if largest > NO_TIMESTAMP else written_ms(segment)


def written_ms(segment: LogSegment) -> int:
    """When the file of its batches was last written."""
    return segment.path(Content.BATCHES).stat().st_mtime_ns // 1_000_000


def _drop(log: Log, reason: Reason, condition: Condition, now_ms: int) -> list[Outlived]:
    segments = list(_leading(log, condition))
    if not segments:
        return []
    gone = [_outlived(log, segment, reason) for segment in segments]
    if segments[-1] is log.segments.active:
        log.roll(now_ms=now_ms)
    following = log.segments.after(segments[-1])
    assert following is not None, log
    log.advance_start(following.base_offset)
    log.segments.remove(segments)
    return gone


def _outlived(log: Log, segment: LogSegment, reason: Reason) -> Outlived:
    return Outlived(
        partition=log.partition,
        segment=segment,
        reason=reason,
        largest_timestamp=segment.largest.timestamp,
        written_ms=written_ms(segment),
    )
