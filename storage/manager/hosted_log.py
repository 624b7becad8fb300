"""A log with its log directory.  All access to a log goes through this class.

    with hosted_log as log:
        log.append_as_leader(...)

An OSError inside the block takes the directory offline and is raised as KAFKA_STORAGE_ERROR.  The
block is not entered if the directory is offline or the log is deleted.  Only operations that access
the disk of the log belong inside the block.

If too many files are open, the error is TooManyOpenFiles: the operation can be retried, and the
directory stays online.  If this interrupts a change, the log needs recovery: it is not usable until
it has been opened again as after a crash (log_repair.py).

The directory name of a new log may be lost in a power cut until its parent directory is flushed.
The first flush of the log does that, because no record was acknowledged as durable before.

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
    """A log and its log directory."""

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
        #: Called when any flush has ended, or has become obsolete.
        self.on_flushed: Callable[[], None] = _no_op
        #: Its files were repaired, and the changes are not flushed.
        self.is_repaired = False
        #: Whether a restart would prefer another log of the same name: see log_dir_move.py.
        self.has_move_marker = False
        self.is_deleted = False
        #: A change failed for lack of file descriptors: files and memory may differ.
        self.needs_recovery = False
        #: Whether a truncation must still be applied to its files.
        self.is_truncating = False
        #: Whether removed segments before its start have not been renamed yet.
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
        """The first half of ``with``, for hot paths that avoid the context manager."""
        if self.directory.error is not None:
            raise self.directory.offline_error()
        if self.is_deleted:
            raise UnknownTopicOrPartition(f"{self.log.directory} has been deleted")
        if self.needs_recovery:
            raise TooManyOpenFiles(f"{self.partition} must be recovered first")
        return self.log

    def handle_os_error(self, error: OSError) -> KafkaError:
        """The second half of ``with``: return the error to raise."""
        if is_too_many_open_files(error):
            self.needs_recovery |= not isinstance(error, DescriptorLimitReached)
            return TooManyOpenFiles(f"accessing {self.partition} failed: {error}")
        return self.directory.mark_offline(error, f"accessing {self.partition}")

    @property
    def has_flush_due_by_count(self) -> bool:
        """Whether the number of unflushed records has reached ``flush.messages``."""
        log = self.log
        return log.log_end_offset - log.recovery_point >= log.settings.flush_messages

    def flush_task(self, *, now_ms: int, flush_offset: int | None = None) -> DiskTask | None:
        """Return a task that flushes the log up to its end when the task is prepared.

        Return None if a flush is running or flushing is paused; then ``on_flushed`` is called
        later.
        """
        if self.is_flushing or self.is_flush_paused:
            return None
        self.is_flushing = True
        plan: FlushPlan | None = None
        is_new = False

        def prepare() -> Step:
            nonlocal plan, is_new
            if self.needs_recovery:
                raise TooManyOpenFiles(f"{self.partition} must be recovered first")
            # The log may have been truncated in the meantime.
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
        """Return no flush tasks until ``resume_flush``.

        A move needs this: the future log must be flushed as far as this log.
        """
        self.is_flush_paused = True

    def resume_flush(self) -> None:
        """Allow flushes again and call ``on_flushed``: waiting callers request a flush again."""
        if self.is_flush_paused:
            self.is_flush_paused = False
            self.on_flushed()

    def _close_flushed_segments(self, previous_recovery_point: int) -> None:
        """Close flushed segments.  Written segments stay open until then: see open_segments.py."""
        log = self.log
        # Include the segment before: it may have been flushed while active, and rolled later.
        for segment in log.segments.between(previous_recovery_point - 1, log.recovery_point):
            following = log.segments.higher_segment(segment)
            is_sealed = following is not None and following.base_offset <= log.recovery_point
            if is_sealed and segment.stage is FileStage.IN_USE:
                segment.close_handlers()

    def __repr__(self) -> str:
        return f"HostedLog({self.log}, {self.directory})"


def _no_op() -> None:
    """The default: no callback."""


def _sync_new_log(plan: FlushPlan) -> None:
    sync_log_directory(plan.directory)
    plan.run()


def sync_log_directory(log_directory: Path) -> None:
    """Make the name of the log and its partition metadata durable.  Blocks on disk."""
    files.sync_directory(log_directory.parent)
    metadata = log_directory / partition_metadata.FILE_NAME
    if metadata.exists():
        files.sync_path(metadata)
