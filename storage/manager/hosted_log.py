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
from odradek.storage.manager.directory import LogDirectory
from odradek.storage.manager.disk_task import DiskTask, Step
from odradek.storage.open_segments import (
    DescriptorLimitReached,
    TooManyOpenFiles,
    is_too_many_open_files,
)
from odradek.storage.paths import FileStage
from odradek.storage.unified_log import UnifiedLog


class HostedLog:
    """A log in its place."""

    __slots__ = (
        "directory",
        "has_move_marker",
        "is_deleted",
        "is_deleting_segments",
        "is_directory_synced",
        "is_flush_paused",
        "is_flushing",
        "is_future",
        "is_repaired",
        "is_truncating",
        "log",
        "needs_recovery",
        "on_flushed",
        "topic_id",
    )

    def __init__(
        self,
        log: UnifiedLog,
        directory: LogDirectory,
        *,
        topic_id: Uuid | None = None,
        is_future: bool = False,
        is_directory_synced: bool = True,
    ) -> None:
        self.log = log
        self.directory = directory
        self.topic_id = topic_id
        self.is_future = is_future
        self.is_directory_synced = is_directory_synced
        self.is_flushing = False
        self.is_flush_paused = False
        #: Called when a flush has ended, whoever had planned it, or has become pointless.
        self.on_flushed: Callable[[], None] = _no_op
        #: Its files were not as they should have been, and what was changed is not synced.
        self.is_repaired = False
        #: Whether a restart would give way to another log of the same name: see moving.py.
        self.has_move_marker = False
        self.is_deleted = False
        #: A change was broken off, for want of descriptors: files and memory may not agree.
        self.needs_recovery = False
        #: Whether its files are longer than it is: a truncation has to be carried out.
        self.is_truncating = False
        #: Whether segments before its start are out of the log and still have their names.
        self.is_deleting_segments = False

    @property
    def partition(self) -> TopicPartition:
        return self.log.partition

    @property
    def is_usable(self) -> bool:
        return not (self.directory.error is not None or self.is_deleted or self.needs_recovery)

    def __enter__(self) -> UnifiedLog:
        return self.get_usable_log()

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if isinstance(error, OSError):
            raise self.handle_os_error(error) from error

    def get_usable_log(self) -> UnifiedLog:
        """The first half of ``with``, for whoever is in a hurry."""
        if self.directory.error is not None:
            raise self.directory.offline_error()
        if self.is_deleted:
            raise UnknownTopicOrPartition(f"{self.log.directory} has been deleted")
        if self.needs_recovery:
            raise TooManyOpenFiles(f"{self.partition} must be recovered first")
        return self.log

    def handle_os_error(self, error: OSError) -> KafkaError:
        """The second half: what to raise for it."""
        if is_too_many_open_files(error):
            self.needs_recovery |= not isinstance(error, DescriptorLimitReached)
            return TooManyOpenFiles(f"accessing {self.partition} failed: {error}")
        return self.directory.mark_offline(error, f"accessing {self.partition}")

    @property
    def has_flush_due_by_count(self) -> bool:
        """Whether as many records wait to be synced as ``flush.messages`` allows at most."""
        log = self.log
        return log.log_end_offset - log.recovery_point >= log.settings.flush_messages

    def flush_task(self, *, now_ms: int, flush_offset: int | None = None) -> DiskTask | None:
        """Sync what is in the log when the work begins; None if ``on_flushed`` is to be called."""
        if self.is_flushing or self.is_flush_paused:
            return None
        self.is_flushing = True
        plan: FlushPlan | None = None
        is_new = False

        def prepare() -> Step:
            nonlocal plan, is_new
            if self.needs_recovery:
                raise TooManyOpenFiles(f"{self.partition} must be recovered first")
            # It may have been truncated since.
            end = self.log.log_end_offset
            plan = self.log.plan_flush(
                flush_offset=end if flush_offset is None else min(flush_offset, end)
            )
            is_new = not self.is_directory_synced
            return partial(_sync_new_log, plan) if is_new else plan.run

        def is_obsolete() -> bool:
            has_moved = plan is not None and plan.directory != self.log.directory
            return self.is_deleted or has_moved

        def on_complete(is_done: bool) -> None:
            self.is_flushing = False
            if is_done and plan is not None and not self.needs_recovery:
                self.is_directory_synced |= is_new
                before = self.log.recovery_point
                self.log.mark_flushed(plan, now_ms=now_ms)
                self._close_flushed_segments(before)
            if is_done or is_obsolete():
                self.on_flushed()

        return DiskTask(
            self.directory,
            f"flushing {self.partition}",
            prepare,
            on_complete=on_complete,
            is_obsolete=is_obsolete,
        )

    def pause_flush(self) -> None:
        """None is planned until ``release_syncs``: its copy elsewhere is synced as far as it."""
        self.is_flush_paused = True

    def resume_flush(self) -> None:
        """Whoever waits for one is waited for again; it may have been done before."""
        if self.is_flush_paused:
            self.is_flush_paused = False
            self.on_flushed()

    def _close_flushed_segments(self, previous_recovery_point: int) -> None:
        """Segments that were written to stay open until now: see open_segments.py."""
        log = self.log
        # From the one before, too: it may have been synced as the active one, and sealed since.
        for segment in log.segments.between(previous_recovery_point - 1, log.recovery_point):
            following = log.segments.higher_segment(segment)
            is_sealed = following is not None and following.base_offset <= log.recovery_point
            if is_sealed and segment.stage is FileStage.IN_USE:
                segment.close_handlers()

    def __repr__(self) -> str:
        return f"HostedLog({self.log}, {self.directory})"


def _no_op() -> None:
    """Nobody waits."""


def _sync_new_log(plan: FlushPlan) -> None:
    sync_log_directory(plan.directory)
    plan.run()


def sync_log_directory(log_directory: Path) -> None:
    """The log's name survives a power cut, and what tells its topic.  Sleeps in the kernel."""
    files.sync_directory(log_directory.parent)
    metadata = log_directory / partition_metadata.FILE_NAME
    if metadata.exists():
        files.sync_path(metadata)
