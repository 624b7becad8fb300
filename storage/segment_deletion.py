"""Deletion of segment files in two steps: rename at once, remove after a delay.

A renamed file (``.deleted``) no longer belongs to the log, and a restart removes it.  Readers that
hold a region of the file keep it open, so the delay ``file.delete.delay.ms`` only serves tools and
administrators, as in Kafka.  The caller decides when the delay has passed.

Owner: the event loop; ``mark_segment_files_deleted`` and ``delete_segment_files`` may run on a disk
thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from odradek.storage import files
from odradek.storage.log_segment import LogSegment
from odradek.storage.paths import FileStage, LogFileType, file_path
from odradek.storage.producer_state.snapshot import ProducerSnapshots


def mark_segments_deleted(segments: Sequence[LogSegment], snapshots: ProducerSnapshots) -> None:
    """Rename the files of segments removed from the log, and their producer snapshots."""
    mark_segment_files_deleted(segments)
    mark_snapshots_deleted(segments, snapshots)


def mark_segment_files_deleted(segments: Sequence[LogSegment]) -> None:
    """Rename the segment files; blocks in the kernel.  Half of ``mark_segments_deleted``.

    The .log files are renamed first, durably: a power cut that restored a .log file without its
    transaction index would expose aborted records.
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
    """Rename the snapshots; runs on the owner of the log.  Half of ``mark_segments_deleted``."""
    for segment in segments:
        snapshots.mark_deleted(segment.base_offset)


def mark_segments_deleted_in_reverse(
    segments: Sequence[LogSegment], snapshots: ProducerSnapshots
) -> None:
    """Delete from the last to the first, each durably: no power cut leaves a gap."""
    for segment in reversed(segments):
        mark_segments_deleted([segment], snapshots)


def delete_segment_files(segments: Iterable[LogSegment]) -> None:
    """Remove the renamed files, after the delay."""
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
