"""Putting compacted segments in the place of the old ones, so that a crash is harmless anywhere.

Two steps sleep in the kernel and may run on a disk thread; between them, on the event loop, the log
goes over to the new segment by one assignment:

    stage     what recovery could no longer learn from the batches is written down: that those
              transactions have ended which the snapshot of the first segment calls open (their
              markers may be gone).  Then the files ``.cleaned`` become ``.swap``.  A crash before
              all have done so undoes the compaction; after that it is finished at the next start
              (swap_recovery.py)
    publish   the log reads from the new segment, which is opened first: its names will change
    finish    the old files become ``.deleted``; then the new batches lose their ``.swap``, and then
              the new indexes theirs, in this order: an index without it, beside batches with it,
              would be taken for an old one
    settle    the log holds the new segment by its names

Between any two renames that must not be seen in another order after a power cut, the directory is
synced.  The caller keeps everybody from truncating or deleting in the log from the planning of the
compaction to ``settle`` (schedule.py).  Several replacements are put in place one after the
other, the first offset first: tombstones go no earlier than what they have deleted.

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
    """All replacements, for a caller that may sleep; the old segments, which wait for removal."""
    old: list[LogSegment] = []
    for replacement in result.replacements:
        swap = SegmentSwap(log, replacement)
        swap.stage()
        swap.publish()
        swap.finish()
        old += swap.complete()
    return old


class SegmentSwap:
    """One replacement on its way into a log."""

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
        """From here on the compaction is finished, if need be at the next start."""
        self._log.producer_state_manager.snapshots.clear_open_transactions(self._base_offset)
        self._rename(SEGMENT_FILE_TYPES, FileStage.CLEANED, FileStage.SWAP)

    def publish(self) -> None:
        """The log has the new segment instead of the old ones."""
        log = self._log
        new = LogSegment(
            self._directory, self._base_offset, log.segment_config, stage=FileStage.SWAP
        )
        _open_files(new)
        log.segments.replace(self.old_segments, [new])
        self._new_segment = new

    def finish(self) -> None:
        """The old files are out of the way, and the new ones have their names."""
        for segment in self.old_segments:
            segment.change_file_suffixes(FileStage.DELETED)
        files.sync_directory(self._directory)
        self._rename([LogFileType.LOG], FileStage.SWAP, FileStage.IN_USE)
        self._rename(_INDEX_FILE_TYPES, FileStage.SWAP, FileStage.IN_USE)

    def complete(self) -> list[LogSegment]:
        """The old segments, which wait for removal, as do the snapshots of producers there."""
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
    """All that is otherwise opened, by name, when it is first used."""
    opened = (segment.file, segment.max_timestamp_and_offset, segment.transaction_index.entries)
    assert None not in opened, segment


_INDEX_FILE_TYPES = [
    file_type for file_type in SEGMENT_FILE_TYPES if file_type is not LogFileType.LOG
]
