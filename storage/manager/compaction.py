"""One compaction of one log: chosen, cleaned by a worker, put in place, and told to the cleaner.

    compaction = upkeep.next_compaction(now_ms, settings)
    with compaction:
        plan = clean(compaction.task, pace)         in a worker, which is over when this is left
        for work in compaction.put_in_place(plan, now_ms=now_ms):
            carry_out(work)                         each before the next, in its three parts

Until the ``with`` is left nobody else truncates, moves or deletes the log, or deletes old segments.
Whoever wants to has paused the log: then ``is_stopping``, the worker should be told, and what is
not on its way into the log is given up.  What comes out of the ``with`` has been seen to:

    nothing             the log is compacted, or is dirty as before if it was to stop
    CorruptMessage      it is damaged, and left alone from now on
    OSError             its directory goes offline; LogDirectoryOffline comes out
    OutOfDescriptors    also of the worker: it is dirty as before
    anything else       such as CleaningStopped: it is dirty as before

A segment that is on its way into the log must get there.  If that is broken off for want of
descriptors, the log is in doubt, and mending finishes it; if by a bug, it stays as one that is
being compacted, until a restart does.

A log that is not to be compacted any more, by its settings, keeps what it has: ``is_stopping``.

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
    """What becomes of segments that are out of the log and renamed."""

    def __call__(
        self, hosted_log: HostedLog, segments: Sequence[LogSegment], *, now_ms: int
    ) -> None: ...


class Compaction:
    """Of a log that the schedule has chosen."""

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
        """Whether somebody waits for its end, its log is out of use, or must not be compacted."""
        hosted_log = self._hosted_log
        is_cleanable = hosted_log.is_usable and hosted_log.log.settings.is_compacted
        return not is_cleanable or self._cleaner_manager.states[self.partition] is STOPPING

    def replace_segments(self, result: CleaningResult, *, now_ms: int) -> Iterator[DiskTask]:
        """To be carried out one by one: the next is made when the last is done."""
        for replacement in result.replacements:
            if self.is_stopping:
                yield self._disk_task(
                    "giving up", partial(remove_cleaned_files, self.task.directory)
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
