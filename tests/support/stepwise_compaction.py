"""A compaction that is carried out step by step, on a log and on its model.

step    the next of these: the segments are cleaned; each new one is staged, published,
        finished, settled
stop    somebody wants to truncate: what is staged is finished, and the rest given up
crash   the process is gone, between two steps or within one, and what it left tells how much
        of the compaction will be found: a segment of which no file is ``.cleaned`` any more
        will take the place of the old ones.  Of these, those that lie beyond its last offset
        stay if they have not been set aside yet
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from typing import Any

from odradek.storage import batch_scan
from odradek.storage.cleaner.cleaner import clean, remove_cleaned_files
from odradek.storage.cleaner.log_cleaner_manager import LogCleanerManager, LogToClean
from odradek.storage.cleaner.segment_swap import SegmentSwap
from odradek.storage.cleaner.settings import CleanerSettings
from odradek.storage.cleaner.task import CleaningResult, SegmentReplacement, build_cleaning_task
from odradek.storage.log_segment import LogSegment
from odradek.storage.open_file import OpenFile
from odradek.storage.paths import SEGMENT_FILE_TYPES, FileStage, LogFileType, file_path
from odradek.storage.unified_log import UnifiedLog
from tests.support.log_model import Compacted, LogModel, ModelCompaction

CLEANER = CleanerSettings()


class StepwiseCompaction:
    """One round, of a log that the schedule has chosen."""

    def __init__(
        self,
        log: UnifiedLog,
        model: LogModel,
        schedule: LogCleanerManager,
        chosen: LogToClean,
        now_ms: int,
    ) -> None:
        self._log = log
        self._model = model
        self._schedule = schedule
        self._task = build_cleaning_task(
            log,
            CLEANER,
            first_dirty_offset=chosen.first_dirty_offset,
            first_uncleanable_offset=chosen.first_uncleanable_offset,
            now_ms=now_ms,
        )
        self._steps = self._take()
        self._plan: CleaningResult | None = None
        self._swapped: SegmentReplacement | None = None
        self._before: Compacted = model.compacted
        self.old: list[LogSegment] = []  # to be removed

    def limit(self, **limits: Any) -> None:
        self._task = replace(self._task, config=replace(self._task.config, **limits))

    def step(self) -> bool:
        """False if that was the last."""
        return next(self._steps, None) is not None

    def stop(self) -> None:
        while self._swapped is not None:
            self.step()
        remove_cleaned_files(self._log.directory)
        self._schedule.on_cleaning_aborted(self._log)

    def crash(self) -> None:
        """To be called before the log is recovered."""
        if self._swapped is not None:
            self._model.compacted = self._before
            for base_offset in self._replaced_after_all(self._swapped):
                self._rewritten(base_offset)

    def _take(self) -> Iterator[FileStage]:
        """Yields the stage that the files are in after each step."""
        self._plan = clean(self._task)
        yield FileStage.CLEANED
        for replacement in self._plan.replacements:
            self._before = deepcopy(self._model.compacted)
            self._swapped = replacement
            swap = SegmentSwap(self._log, replacement)
            swap.stage()
            yield FileStage.SWAP
            swap.publish()
            for sealed in replacement.old_segments:
                self._rewritten(sealed.base_offset)
            yield FileStage.SWAP
            swap.finish()
            yield FileStage.IN_USE
            self.old += swap.complete()
            self._swapped = None
            yield FileStage.IN_USE
        # What was left as it is would not have been another one.
        for sealed in self._task.segments:
            if sealed.base_offset < self._plan.end_offset:
                self._rewritten(sealed.base_offset)
        self._schedule.done_cleaning(self._log, self._plan.end_offset)

    def _rewritten(self, base_offset: int) -> None:
        """The segment that begins there is compacted, in the model too."""
        task, plan = self._task, self._plan
        assert plan is not None, task
        compaction = ModelCompaction(
            end_offset=task.first_uncleanable_offset,
            known_end=plan.end_offset,
            now_ms=task.now_ms,
            delete_retention_ms=task.config.delete_retention_ms,
        )
        bases = [*(sealed.base_offset for sealed in task.segments), task.first_uncleanable_offset]
        end = bases[bases.index(base_offset) + 1]
        self._model.compact(compaction, start=base_offset, end=end)

    def _replaced_after_all(self, replacement: SegmentReplacement) -> list[int]:
        """The base offsets of the segments whose place the new one takes at the next start."""
        directory, base_offset = replacement.directory, replacement.base_offset
        old = [sealed.base_offset for sealed in replacement.old_segments]
        for content in SEGMENT_FILE_TYPES:
            if file_path(directory, base_offset, content, FileStage.CLEANED).exists():
                return []
        new = file_path(directory, base_offset, LogFileType.LOG, FileStage.SWAP)
        if not new.exists():
            return old
        file = OpenFile(new, writable=False)
        places = batch_scan.scan_headers(file.descriptor, start=0, end=new.stat().st_size)
        last_offset = max((place.last_offset for place in places), default=base_offset)
        return [
            each
            for each in old
            if each <= last_offset or not file_path(directory, each, LogFileType.LOG).exists()
        ]
