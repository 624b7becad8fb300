"""One compaction of one log: a worker cleans it, then the new segments are swapped in.

    compaction = maintenance.next_compaction(now_ms, settings)
    with compaction:
        result = clean(compaction.task, throttler)        in a worker, which has ended after this
        for task in compaction.replace_segments(result, now_ms=now_ms):
            execute(task)                                 one after the other

Inside the ``with`` block no other code truncates, moves or deletes the log or deletes its old
segments.  Code that needs to do so pauses the log first.  Then ``is_stopping`` becomes True, the
caller should abort the worker, and replacements that are not yet being swapped in are discarded.
The ``with`` block handles its own errors as follows:

    no error            the log is compacted; if it was stopped, it is as dirty as before
    CorruptMessage      the log is damaged, and marked as uncleanable
    OSError             the directory goes offline; LogDirectoryOffline is raised instead
    TooManyOpenFiles    also from the worker: the log is as dirty as before
    any other           for example LogCleaningAborted: the log is as dirty as before

A segment swap must be completed once it has started.  If it fails for lack of file descriptors, the
log needs recovery, which completes the swap (log_repair.py).  If it fails because of a bug, the log
stays in the RUNNING state until a restart completes the swap.

If the settings no longer compact the log, ``is_stopping`` is True and the log keeps its segments.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from types import TracebackType
from typing import Protocol

from odradek.protocol.errors import CorruptMessage
from odradek.protocol.types import TopicPartition
from odradek.storage.cleaner.cleaner import remove_cleaned_files
from odradek.storage.cleaner.log_cleaner_manager import LogCleanerManager
from odradek.storage.cleaner.log_cleaning_state import STOPPING
from odradek.storage.cleaner.segment_swap import SegmentSwap
from odradek.storage.cleaner.task import CleaningResult, CleaningTask, SegmentReplacement
from odradek.storage.log_segment import LogSegment
from odradek.storage.manager.disk_task import DiskTask, Step
from odradek.storage.manager.hosted_log import HostedLog
from odradek.storage.open_segments import TooManyOpenFiles, is_too_many_open_files


class ScheduleDeletion(Protocol):
    """Schedules the removal of segments that are out of the log and renamed."""

    def __call__(
        self, hosted_log: HostedLog, segments: Sequence[LogSegment], *, now_ms: int
    ) -> None: ...


class Compaction:
    """A compaction of a log that the cleaner manager has chosen."""

    def __init__(
        self,
        hosted_log: HostedLog,
        task: CleaningTask,
        cleaner_manager: LogCleanerManager,
        schedule_deletion: ScheduleDeletion,
    ) -> None:
        self.task = task
        self._hosted_log = hosted_log
        self._cleaner_manager = cleaner_manager
        self._schedule_deletion = schedule_deletion
        self._is_swapping = False
        self._is_done = False

    @property
    def partition(self) -> TopicPartition:
        return self._hosted_log.partition

    @property
    def is_stopping(self) -> bool:
        """Whether a pause is requested, or the log is not usable or no longer compacted."""
        hosted_log = self._hosted_log
        is_cleanable = hosted_log.is_usable and hosted_log.log.settings.is_compacted
        return not is_cleanable or self._cleaner_manager.states[self.partition] is STOPPING

    def replace_segments(self, result: CleaningResult, *, now_ms: int) -> Iterator[DiskTask]:
        """Yield tasks that must run one by one: the next is created when the last is done."""
        for replacement in result.replacements:
            if self.is_stopping:
                yield self._disk_task(
                    "discarding", partial(remove_cleaned_files, self.task.directory)
                )
                return
            yield from self.swap(replacement, now_ms=now_ms)
        self._cleaner_manager.done_cleaning(self._hosted_log.log, result.end_offset)
        self._is_done = True

    def swap(self, replacement: SegmentReplacement, *, now_ms: int) -> Iterator[DiskTask]:
        with self._hosted_log as log:
            swap = SegmentSwap(log, replacement)
        self._is_swapping = True
        yield self._disk_task("staging", swap.stage)
        with self._hosted_log:
            swap.publish()
        yield self._disk_task("finishing", swap.finish)
        with self._hosted_log:
            old_segments = swap.complete()
        self._is_swapping = False
        self._schedule_deletion(self._hosted_log, old_segments, now_ms=now_ms)

    def _disk_task(self, action: str, step: Step) -> DiskTask:
        action = f"{action} the compaction of {self.partition}"
        return DiskTask(self._hosted_log.directory, action, lambda: step)

    def __enter__(self) -> None:
        if not self._hosted_log.directory.is_online:
            raise self._hosted_log.directory.offline_error()
        self._hosted_log.directory.begin_use()

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        directory, log = self._hosted_log.directory, self._hosted_log.log
        directory.end_use()
        is_out_of_descriptors = isinstance(error, TooManyOpenFiles)
        if isinstance(error, OSError):
            is_out_of_descriptors = is_too_many_open_files(error)
            if not is_out_of_descriptors:
                raise directory.mark_offline(error, f"compacting {self.partition}") from error
        if (
            self._is_done
            or not directory.is_online
            or (self._is_swapping and not is_out_of_descriptors)
        ):
            return
        if self._is_swapping:
            self._hosted_log.needs_recovery = True
        if isinstance(error, CorruptMessage):
            self._cleaner_manager.mark_partition_uncleanable(log)
        else:
            self._cleaner_manager.on_cleaning_aborted(log)
        if isinstance(error, OSError):
            raise TooManyOpenFiles(f"compacting {self.partition}: {error}") from error
