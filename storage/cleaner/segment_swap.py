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
from odradek.storage.cleaner.task import CleanableLog, CleaningPlan, Replacement
from odradek.storage.log_segment import LogSegment
from odradek.storage.paths import SEGMENT_CONTENTS, Content, Stage, file_path


def swap(log: CleanableLog, plan: CleaningPlan) -> list[LogSegment]:
    """All replacements, for a caller that may sleep; the old segments, which wait for removal."""
    old: list[LogSegment] = []
    for replacement in plan.replacements:
        swapped = Swap(log, replacement)
        swapped.stage()
        swapped.publish()
        swapped.finish()
        old += swapped.settle()
    return old


class Swap:
    """One replacement on its way into a log."""

    def __init__(self, log: CleanableLog, replacement: Replacement) -> None:
        self._log = log
        self._directory = replacement.directory
        self._base_offset = replacement.base_offset
        self._old = [log.segments.at(sealed.base_offset) for sealed in replacement.replaced]
        self._new: LogSegment | None = None
        sizes = [segment.size_bytes if segment else None for segment in self._old]
        assert sizes == [sealed.size_bytes for sealed in replacement.replaced], (
            f"{self._directory} has changed since the compaction was planned"
        )
        assert log.segments.active not in self._old, f"{self._directory}: the active segment"

    @property
    def old(self) -> list[LogSegment]:
        return [segment for segment in self._old if segment is not None]

    def stage(self) -> None:
        """From here on the compaction is finished, if need be at the next start."""
        self._log.producers.snapshots.end_transactions(self._base_offset)
        self._rename(SEGMENT_CONTENTS, Stage.CLEANED, Stage.SWAP)

    def publish(self) -> None:
        """The log has the new segment instead of the old ones."""
        log = self._log
        new = LogSegment(self._directory, self._base_offset, log.shape, stage=Stage.SWAP)
        _open(new)
        log.segments.replace(self.old, [new])
        self._new = new

    def finish(self) -> None:
        """The old files are out of the way, and the new ones have their names."""
        for segment in self.old:
            segment.move(Stage.DELETED)
        files.sync_directory(self._directory)
        self._rename([Content.BATCHES], Stage.SWAP, Stage.IN_USE)
        self._rename(_INDEXES, Stage.SWAP, Stage.IN_USE)

    def settle(self) -> list[LogSegment]:
        """The old segments, which wait for removal, as do the snapshots of producers there."""
        log = self._log
        assert self._new is not None, self._directory
        settled = LogSegment(self._directory, self._base_offset, log.shape)
        log.segments.replace([self._new], [settled])
        for segment in self.old:
            if segment.base_offset != self._base_offset:
                log.producers.snapshots.mark_deleted(segment.base_offset)
        return self.old

    def _rename(self, contents: Iterable[Content], before: Stage, after: Stage) -> None:
        for content in contents:
            source = self._path(content, before)
            if source.exists():
                files.rename(source, self._path(content, after))
        files.sync_directory(self._directory)

    def _path(self, content: Content, stage: Stage) -> Path:
        return file_path(self._directory, self._base_offset, content, stage)


def _open(segment: LogSegment) -> None:
    """All that is otherwise opened, by name, when it is first used."""
    opened = (segment.file, segment.largest, segment.transaction_index.entries)
    assert None not in opened, segment


_INDEXES = [content for content in SEGMENT_CONTENTS if content is not Content.BATCHES]
