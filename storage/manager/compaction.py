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
from odradek.storage.cleaner.compaction import discard
from odradek.storage.cleaner.schedule import CleanerSchedule
from odradek.storage.cleaner.states import STOPPING
from odradek.storage.cleaner.swap import Swap
from odradek.storage.cleaner.task import CleaningPlan, CleaningTask, Replacement
from odradek.storage.log_segment import LogSegment
from odradek.storage.manager.disk_work import DiskWork, Step
from odradek.storage.manager.hosted_log import HostedLog
from odradek.storage.open_segments import OutOfDescriptors, is_for_want_of_descriptors


class RemoveLater(Protocol):
    """What becomes of segments that are out of the log and renamed."""

    def __call__(
        self, hosted: HostedLog, segments: Sequence[LogSegment], *, now_ms: int
    ) -> None: ...


class Compaction:
    """Of a log that the schedule has chosen."""

    def __init__(
        self,
        hosted: HostedLog,
        task: CleaningTask,
        schedule: CleanerSchedule,
        remove_later: RemoveLater,
    ) -> None:
        self.task = task
        self._hosted = hosted
        self._schedule = schedule
        self._remove_later = remove_later
        self._is_swapping = False
        self._is_done = False

    @property
    def partition(self) -> TopicPartition:
        return self._hosted.partition

    @property
    def is_stopping(self) -> bool:
        """Whether somebody waits for its end, its log is out of use, or must not be compacted."""
        hosted = self._hosted
        is_wanted = hosted.is_usable and hosted.log.settings.is_compacted
        return not is_wanted or self._schedule.states[self.partition] is STOPPING

    def put_in_place(self, plan: CleaningPlan, *, now_ms: int) -> Iterator[DiskWork]:
        """To be carried out one by one: the next is made when the last is done."""
        for replacement in plan.replacements:
            if self.is_stopping:
                yield self._work("giving up", partial(discard, self.task.directory))
                return
            yield from self.swap(replacement, now_ms=now_ms)
        self._schedule.cleaned(self._hosted.log, plan.end_offset)
        self._is_done = True

    def swap(self, replacement: Replacement, *, now_ms: int) -> Iterator[DiskWork]:
        with self._hosted as log:
            swap = Swap(log, replacement)
        self._is_swapping = True
        yield self._work("staging", swap.stage)
        with self._hosted:
            swap.publish()
        yield self._work("finishing", swap.finish)
        with self._hosted:
            old = swap.settle()
        self._is_swapping = False
        self._remove_later(self._hosted, old, now_ms=now_ms)

    def _work(self, what: str, step: Step) -> DiskWork:
        what = f"{what} the compaction of {self.partition}"
        return DiskWork(self._hosted.directory, what, lambda: step)

    def __enter__(self) -> None:
        if not self._hosted.directory.is_online:
            raise self._hosted.directory.offline()
        self._hosted.directory.begin_use()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        directory, log = self._hosted.directory, self._hosted.log
        directory.end_use()
        is_refused = isinstance(failure, OutOfDescriptors)
        if isinstance(failure, OSError):
            is_refused = is_for_want_of_descriptors(failure)
            if not is_refused:
                raise directory.fail(failure, f"compacting {self.partition}") from failure
        if self._is_done or not directory.is_online or (self._is_swapping and not is_refused):
            return
        if self._is_swapping:
            self._hosted.is_in_doubt = True
        if isinstance(failure, CorruptMessage):
            self._schedule.failed(log)
        else:
            self._schedule.stopped(log)
        if isinstance(failure, OSError):
            raise OutOfDescriptors(f"compacting {self.partition}: {failure}") from failure
