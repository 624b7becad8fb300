"""A log and the log directory it is in: the way by which everybody uses a log.

    with hosted as log:
        log.append_as_leader(...)

Inside, an OSError takes the directory offline and comes out as KAFKA_STORAGE_ERROR; of a log whose
directory is offline already, or that has been deleted, nothing is let in.  (Only what touches the
log's disk belongs inside.)

If too many files are open to open another, it is OutOfDescriptors: it may be tried again, and the
directory stays online.  A change that was broken off so leaves the log in doubt, out of use until
it has been opened again as after a crash: see mending.py.

A new log's name may be undone by a power cut until its directory is synced.  That is left to its
first flush: before it, no record has been promised to survive one.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import TracebackType

from odradek.protocol.errors import KafkaError, UnknownTopicOrPartition
from odradek.protocol.types import TopicPartition, Uuid
from odradek.storage import files, partition_metadata
from odradek.storage.flush_plan import FlushPlan
from odradek.storage.log import Log
from odradek.storage.manager.directory import LogDirectory
from odradek.storage.manager.disk_work import DiskWork, Step
from odradek.storage.open_segments import NotOpened, OutOfDescriptors, is_for_want_of_descriptors
from odradek.storage.paths import Stage


class HostedLog:
    """A log in its place."""

    __slots__ = (
        "are_syncs_held",
        "directory",
        "is_being_cut",
        "is_deleted",
        "is_flushing",
        "is_future",
        "is_in_doubt",
        "is_marked",
        "is_mended",
        "is_name_synced",
        "is_shedding",
        "log",
        "on_flushed",
        "topic_id",
    )

    def __init__(
        self,
        log: Log,
        directory: LogDirectory,
        *,
        topic_id: Uuid | None = None,
        is_future: bool = False,
        is_name_synced: bool = True,
    ) -> None:
        self.log = log
        self.directory = directory
        self.topic_id = topic_id
        self.is_future = is_future
        self.is_name_synced = is_name_synced
        self.is_flushing = False
        self.are_syncs_held = False
        #: Called when a flush has ended, whoever had planned it, or has become pointless.
        self.on_flushed: Callable[[], None] = _nothing
        #: Its files were not as they should have been, and what was changed is not synced.
        self.is_mended = False
        #: Whether a restart would give way to another log of the same name: see moving.py.
        self.is_marked = False
        self.is_deleted = False
        #: A change was broken off, for want of descriptors: files and memory may not agree.
        self.is_in_doubt = False
        #: Whether its files are longer than it is: a truncation has to be carried out.
        self.is_being_cut = False
        #: Whether segments before its start are out of the log and still have their names.
        self.is_shedding = False

    @property
    def partition(self) -> TopicPartition:
        return self.log.partition

    @property
    def is_usable(self) -> bool:
        return not (self.directory.failure is not None or self.is_deleted or self.is_in_doubt)

    def __enter__(self) -> Log:
        return self.usable()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(failure, OSError):
            raise self.failed(failure) from failure

    def usable(self) -> Log:
        """The first half of ``with``, for whoever is in a hurry."""
        if self.directory.failure is not None:
            raise self.directory.offline()
        if self.is_deleted:
            raise UnknownTopicOrPartition(f"{self.log.directory} has been deleted")
        if self.is_in_doubt:
            raise OutOfDescriptors(f"{self.partition} has to be opened again")
        return self.log

    def failed(self, failure: OSError) -> KafkaError:
        """The second half: what to raise for it."""
        if is_for_want_of_descriptors(failure):
            self.is_in_doubt |= not isinstance(failure, NotOpened)
            return OutOfDescriptors(f"using {self.partition} failed: {failure}")
        return self.directory.fail(failure, f"using {self.partition}")

    @property
    def has_flush_due_by_count(self) -> bool:
        """Whether as many records wait to be synced as ``flush.messages`` allows at most."""
        log = self.log
        return log.end_offset - log.recovery_point >= log.settings.flush_messages

    def plan_flush(self, *, now_ms: int, up_to: int | None = None) -> DiskWork | None:
        """Sync what is in the log when the work begins; None if ``on_flushed`` is to be called."""
        if self.is_flushing or self.are_syncs_held:
            return None
        self.is_flushing = True
        plan: FlushPlan | None = None
        is_new = False

        def begin() -> Step:
            nonlocal plan, is_new
            if self.is_in_doubt:
                raise OutOfDescriptors(f"{self.partition} has to be opened again")
            # It may have been truncated since.
            end = self.log.end_offset
            plan = self.log.plan_flush(up_to=end if up_to is None else min(up_to, end))
            is_new = not self.is_name_synced
            return partial(_sync_new, plan) if is_new else plan.run

        def is_pointless() -> bool:
            has_moved = plan is not None and plan.directory != self.log.directory
            return self.is_deleted or has_moved

        def ended(is_done: bool) -> None:
            self.is_flushing = False
            if is_done and plan is not None and not self.is_in_doubt:
                self.is_name_synced |= is_new
                before = self.log.recovery_point
                self.log.flushed(plan, now_ms=now_ms)
                self._close_synced(before)
            if is_done or is_pointless():
                self.on_flushed()

        return DiskWork(
            self.directory,
            f"syncing {self.partition}",
            begin,
            ended=ended,
            is_pointless=is_pointless,
        )

    def hold_syncs(self) -> None:
        """None is planned until ``release_syncs``: its copy elsewhere is synced as far as it."""
        self.are_syncs_held = True

    def release_syncs(self) -> None:
        """Whoever waits for one is waited for again; it may have been done before."""
        if self.are_syncs_held:
            self.are_syncs_held = False
            self.on_flushed()

    def _close_synced(self, before: int) -> None:
        """Segments that were written to stay open until now: see open_segments.py."""
        log = self.log
        # From the one before, too: it may have been synced as the active one, and sealed since.
        for segment in log.segments.between(before - 1, log.recovery_point):
            following = log.segments.after(segment)
            is_sealed = following is not None and following.base_offset <= log.recovery_point
            if is_sealed and segment.stage is Stage.IN_USE:
                segment.abandon()

    def __repr__(self) -> str:
        return f"HostedLog({self.log}, {self.directory})"


def _nothing() -> None:
    """Nobody waits."""


def _sync_new(plan: FlushPlan) -> None:
    sync_names(plan.directory)
    plan.run()


def sync_names(log_directory: Path) -> None:
    """The log's name survives a power cut, and what tells its topic.  Sleeps in the kernel."""
    files.sync_directory(log_directory.parent)
    metadata = log_directory / partition_metadata.FILE_NAME
    if metadata.exists():
        files.sync_path(metadata)
