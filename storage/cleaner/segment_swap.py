"""Replaces old segments by compacted ones in steps that are safe against a crash at any point.

Kafka: UnifiedLog.replaceSegments.

Two steps block on disk and may run on a disk thread.  Between them, on the event loop, the log
switches to the new segment by one assignment:

    stage     Clear the open transactions in the producer snapshot of the first segment.  All of
              them have ended, but recovery could not learn that from the batches, because their
              markers may be gone.  Then rename the ``.cleaned`` files to ``.swap``.  A crash before
              all are renamed undoes the compaction; after that the next start completes it
              (swap_recovery.py)
    publish   Open the new segment and let the log read from it.  It is opened first because its
              file names will change
    finish    Rename the old files to ``.deleted``.  Then remove ``.swap`` from the new log file,
              then from the new indexes, in this order: an index without ``.swap`` beside a log file
              with ``.swap`` would be taken for an old index
    complete  Let the log use the new segment by its final names

The directory is flushed between any two renames that must keep their order in a power cut.  From
the planning of the compaction until ``complete``, the caller prevents truncation and deletion in
this log (log_cleaner_manager.py).  Several replacements are applied one after the other in offset
order: a tombstone must not disappear before the records that it deletes.

Owner: the event loop; ``stage`` and ``finish`` may run on a disk thread.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from odradek.storage import files
from odradek.storage.cleaner.task import CleanableLog, CleaningResult, SegmentReplacement
from odradek.storage.log_segment import LogSegment
from odradek.storage.paths import SEGMENT_FILE_TYPES, FileStage, LogFileType, file_path


def swap_segments(log: CleanableLog, result: CleaningResult) -> list[LogSegment]:
    """Apply all replacements, blocking on disk.  Return the old segments, to be removed later."""
    old: list[LogSegment] = []
    for replacement in result.replacements:
        swap = SegmentSwap(log, replacement)
        swap.stage()
        swap.publish()
        swap.finish()
        old += swap.complete()
    return old


class SegmentSwap:
    """The replacement of one or more segments of a log."""

    def __init__(self, log: CleanableLog, replacement: SegmentReplacement) -> None:
        self._log = log
        self._directory = replacement.directory
        self._base_offset = replacement.base_offset
        self._old_segments = [
            log.segments.get(sealed.base_offset) for sealed in replacement.old_segments
        ]
        self._new_segment: LogSegment | None = None
        sizes = [segment.size_bytes if segment else None for segment in self._old_segments]
        assert sizes == [sealed.size_bytes for sealed in replacement.old_segments], (
            f"{self._directory}: segments have changed since the compaction was planned"
        )
        assert log.segments.active not in self._old_segments, (
            f"{self._directory}: the active segment cannot be replaced"
        )

    @property
    def old_segments(self) -> list[LogSegment]:
        return [segment for segment in self._old_segments if segment is not None]

    def stage(self) -> None:
        """Make the compaction permanent: after this, recovery completes it."""
        self._log.producer_state_manager.snapshots.clear_open_transactions(self._base_offset)
        self._rename(SEGMENT_FILE_TYPES, FileStage.CLEANED, FileStage.SWAP)

    def publish(self) -> None:
        """Replace the old segments of the log by the new one."""
        log = self._log
        new = LogSegment(
            self._directory, self._base_offset, log.segment_config, stage=FileStage.SWAP
        )
        _open_files(new)
        log.segments.replace(self.old_segments, [new])
        self._new_segment = new

    def finish(self) -> None:
        """Rename the old files out of the way and give the new files their final names."""
        for segment in self.old_segments:
            segment.change_file_suffixes(FileStage.DELETED)
        files.sync_directory(self._directory)
        self._rename([LogFileType.LOG], FileStage.SWAP, FileStage.IN_USE)
        self._rename(_INDEX_FILE_TYPES, FileStage.SWAP, FileStage.IN_USE)

    def complete(self) -> list[LogSegment]:
        """Return the old segments, to be removed later, and mark their producer snapshots deleted.

        The snapshot at the base offset stays, because the new segment starts there too.
        """
        log = self._log
        assert self._new_segment is not None, self._directory
        new_segment = LogSegment(self._directory, self._base_offset, log.segment_config)
        log.segments.replace([self._new_segment], [new_segment])
        for segment in self.old_segments:
            if segment.base_offset != self._base_offset:
                log.producer_state_manager.snapshots.mark_deleted(segment.base_offset)
        return self.old_segments

    def _rename(
        self, file_types: Iterable[LogFileType], from_stage: FileStage, to_stage: FileStage
    ) -> None:
        for file_type in file_types:
            source = self._path(file_type, from_stage)
            if source.exists():
                files.rename(source, self._path(file_type, to_stage))
        files.sync_directory(self._directory)

    def _path(self, file_type: LogFileType, stage: FileStage) -> Path:
        return file_path(self._directory, self._base_offset, file_type, stage)


def _open_files(segment: LogSegment) -> None:
    """Open all files, which are otherwise opened by name on first use."""
    opened = (segment.file, segment.max_timestamp_and_offset, segment.transaction_index.entries)
    assert None not in opened, segment


_INDEX_FILE_TYPES = [
    file_type for file_type in SEGMENT_FILE_TYPES if file_type is not LogFileType.LOG
]
