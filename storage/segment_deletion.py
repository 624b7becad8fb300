"""Removing files in two steps: renamed at once, removed when nobody can still be reading them.

A renamed file (``.deleted``) is out of the log: a restart removes it.  Readers that were lent a
region of it keep their open file, so the delay of ``file.delete.delay.ms`` is only for tools and
administrators, as in Kafka; the caller decides when it has passed.

Owner: the event loop; ``set_files_aside`` and ``remove`` may run on a disk thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from odradek.storage import files
from odradek.storage.log_segment import LogSegment
from odradek.storage.paths import FileStage, LogFileType, file_path
from odradek.storage.producer_state.snapshot import ProducerSnapshots


def mark_segments_deleted(segments: Sequence[LogSegment], snapshots: ProducerSnapshots) -> None:
    """Rename the files of segments that are no longer in the log, and of their snapshots."""
    mark_segment_files_deleted(segments)
    mark_snapshots_deleted(segments, snapshots)


def mark_segment_files_deleted(segments: Sequence[LogSegment]) -> None:
    """The first half of ``set_aside``, which sleeps in the kernel.

    The batches first, and for good: a power cut that brought them back without their transaction
    index would show what was aborted.
    """
    for segment in segments:
        files.rename(
            segment.path(LogFileType.LOG),
            file_path(segment.directory, segment.base_offset, LogFileType.LOG, FileStage.DELETED),
        )
    if segments:
        files.sync_directory(segments[0].directory)
    for segment in segments:
        segment.change_file_suffixes(FileStage.DELETED)


def mark_snapshots_deleted(segments: Iterable[LogSegment], snapshots: ProducerSnapshots) -> None:
    """The second half, for the owner of the log."""
    for segment in segments:
        snapshots.mark_deleted(segment.base_offset)


def mark_segments_deleted_in_reverse(
    segments: Sequence[LogSegment], snapshots: ProducerSnapshots
) -> None:
    """Each is gone for good before the one before it goes: no power cut leaves a gap."""
    for segment in reversed(segments):
        mark_segments_deleted([segment], snapshots)


def delete_segment_files(segments: Iterable[LogSegment]) -> None:
    """The delay has passed."""
    for segment in segments:
        segment.remove()
        files.remove(
            file_path(
                segment.directory,
                segment.base_offset,
                LogFileType.PRODUCER_SNAPSHOT,
                FileStage.DELETED,
            )
        )
