"""Moves replicas to other log directories of this broker while they are in use.

Kafka: ReplicaAlterLogDirsManager and ReplicaAlterLogDirsThread.

A future log in the target directory copies the current log chunk by chunk, like a follower.  When
it has caught up, it is flushed and replaces the current log (storage/manager/log_dir_move.py).  If
too much was appended or flushed meanwhile, the rest is copied too and the swap is tried again.

    reads          of the current log run on a disk thread, because the data may not be cached
    appends        run on the event loop in small chunks; the future log is flushed like any other
    throttling     one rate for all moves together (replication_quota_manager.py)
    cleaning       compaction and retention of the log are paused until the move has ended

``resume`` continues a future log that is found at startup, or whose move was aborted.  If its
directory was offline meanwhile, the current log may have changed: its topic was deleted and
re-created, or the log was truncated and has grown since.  So a future log of another topic id is
deleted, and any other is truncated to the offset where the leader epochs of the two logs diverge.
If the batches at that end still differ (a power failure needs no new leader), the copy starts
again.  It also starts again for a compacted log, because compaction may have removed tombstones of
records that the future log still has.

Invariant: a partition has at most one move in progress.
Owner: the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, nullcontext
from typing import Any, Protocol
from weakref import WeakValueDictionary

from odradek.broker.disk_executor import DiskExecutor
from odradek.broker.replicas.future_log import (
    matching_epochs_end_offset,
    read_batch_header,
    update_future_log,
)
from odradek.broker.replicas.partition import Partition
from odradek.broker.replicas.replication_quota_manager import RateQuota
from odradek.protocol.errors import (
    InvalidTopic,
    KafkaError,
    KafkaStorageError,
    NotLeaderOrFollower,
    UnknownTopicOrPartition,
)
from odradek.protocol.file_region import FileRegion
from odradek.protocol.types import TopicPartition
from odradek.storage import files
from odradek.storage.manager.directory import LogDirectory
from odradek.storage.manager.disk_task import DiskTask
from odradek.storage.manager.hosted_log import HostedLog
from odradek.storage.manager.log_dir_move import remove_move_marker_task
from odradek.storage.manager.log_manager import LogManager
from odradek.storage.paths import DirectoryType, new_directory_name

log = logging.getLogger("kafka.server")

#: An estimate: an append of this size blocks the event loop for less than a millisecond.
COPY_CHUNK_BYTES = 256 * 1024
#: The longest throttle sleep, after which a raised rate is noticed.
THROTTLE_MAX_S = 1.0
#: The longest pause of flushes of the current log, while the future log is flushed up to it.
FLUSH_HOLD_MAX_S = 1.0
_FILE_NAME_LENGTH_MAX = 255

StartTask = Callable[[Coroutine[Any, Any, None], str], "asyncio.Task[None]"]


class HostedPartitions(Protocol):
    """The part of the replica manager that moves need."""

    def partition(self, topic: str, index: int, /) -> Partition: ...

    def on_log_replaced(self, partition: TopicPartition, hosted_log: HostedLog, /) -> None: ...

    def notify_watchers(self, partition: TopicPartition, /) -> None: ...


class LogMaintenance(Protocol):
    """Pauses the cleaning of logs."""

    async def abort_and_pause_cleaning(self, partition: TopicPartition, /) -> None: ...

    def resume_cleaning(self, partition: TopicPartition, /) -> None: ...


class ReplicaAlterLogDirsManager:
    """All moves of this broker."""

    def __init__(
        self,
        replica_manager: HostedPartitions,
        log_manager: LogManager,
        *,
        log_maintenance: LogMaintenance,
        disk_executor: DiskExecutor,
        start_task: StartTask,
        now_ms: Callable[[], int],
    ) -> None:
        self._replica_manager = replica_manager
        self._log_manager = log_manager
        self._log_maintenance = log_maintenance
        self._disk_executor = disk_executor
        self._start_task = start_task
        self._now_ms = now_ms
        self._tasks: dict[TopicPartition, asyncio.Task[None]] = {}
        #: Cancelling a move takes time, during which no other request may start a move.
        self._partition_locks: WeakValueDictionary[TopicPartition, asyncio.Lock] = (
            WeakValueDictionary()
        )
        #: The rate of all moves together; the broker replaces it by the configured one.
        self.quota = RateQuota(windows=1, window_s=1)
        #: The target directories of logs that are not created yet.
        self.preferred_log_dirs: dict[TopicPartition, LogDirectory] = {}

    def is_moving(self, partition: TopicPartition) -> bool:
        task = self._tasks.get(partition)
        return task is not None and not task.done()

    def find_future(self, partition: TopicPartition) -> HostedLog | None:
        """Return the future log of a move in progress; None if the move was aborted."""
        return self._log_manager.find_future(partition) if self.is_moving(partition) else None

    async def move(self, partition: TopicPartition, path: str) -> None:
        """Start a move, and cancel another one of the same partition; raises if not possible.

        A move to the present directory only cancels the other move.
        """
        if len(str(new_directory_name(partition, DirectoryType.FUTURE))) > _FILE_NAME_LENGTH_MAX:
            raise InvalidTopic(f"{partition}: the name is too long for a future log directory")
        target = self._log_manager.directories.get(path)
        if not target.is_online:
            raise target.offline_error()
        async with self._partition_locks.setdefault(partition, asyncio.Lock()):
            await self._move_to(target, partition)

    async def _move_to(self, target: LogDirectory, partition: TopicPartition) -> None:
        hosted_partition = self._find_partition(partition, target)
        future = self._log_manager.find_future(partition)
        if future is not None and future.directory is not target:
            await self._cancel(partition)
            hosted_partition = self._find_partition(partition, target)  # it may have been deleted
        if hosted_partition.hosted_log.directory is target:
            # The disk of a future log may have failed and left a marker.
            await self._remove_move_marker(hosted_partition.hosted_log)
            return
        if self._log_manager.find_future(partition) is not None:
            self.resume(partition)  # the move may have been aborted
            return
        if offline_directories := self._log_manager.directories.offline:
            raise KafkaStorageError(
                f"a future log of {partition} may be in {offline_directories[0].path}, "
                "which is offline"
            )
        self._log_manager.create_future(partition, target, now_ms=self._now_ms())
        self.resume(partition)

    def _find_partition(self, partition: TopicPartition, target: LogDirectory) -> Partition:
        """Return the partition; if it has no log here, create its log in ``target`` later."""
        try:
            return self._replica_manager.partition(*partition)
        except NotLeaderOrFollower:
            self.preferred_log_dirs[partition] = target
            raise

    def resume(self, partition: TopicPartition) -> None:
        """Continue the move of a partition if it has a future log."""
        current = self._log_manager.logs.current.get(partition)
        future = self._log_manager.find_future(partition)
        if current is None or future is None or self.is_moving(partition):
            return
        work = self._run(partition, current, future)
        task = self._tasks[partition] = self._start_task(work, f"moving {partition}")
        # A callback, because a task that is cancelled before it starts runs none of its code.
        task.add_done_callback(lambda done_task: self._on_task_done(partition, future, done_task))

    def _on_task_done(
        self, partition: TopicPartition, future: HostedLog, task: asyncio.Task[None]
    ) -> None:
        if self._tasks.get(partition) is task:
            del self._tasks[partition]
            if self._log_manager.find_future(partition) is not future:
                self.resume(partition)  # another move was requested while this one ended
        self._replica_manager.notify_watchers(partition)

    async def _cancel(self, partition: TopicPartition) -> None:
        task = self._tasks.get(partition)  # stays registered until it ends: no other may start
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        current = self._log_manager.logs.current.get(partition)
        if current is not None:
            async with self._cleaning_paused(current):
                await self._delete_future_log(partition)
                await self._remove_move_marker(current)

    async def _remove_move_marker(self, current: HostedLog) -> None:
        """Remove the marker, so that no future log replaces the current log after a restart."""
        if self._log_manager.find_future(current.partition) is None:
            await self._disk_executor.execute(remove_move_marker_task(current))

    async def _delete_future_log(self, partition: TopicPartition) -> None:
        if self._log_manager.find_future(partition) is not None:
            self._log_manager.delete_future(partition)
            await self._disk_executor.execute_all(
                self._log_manager.deletion_tasks(now_ms=self._now_ms())
            )

    @asynccontextmanager
    async def _cleaning_paused(self, *hosted_logs: HostedLog) -> AsyncIterator[None]:
        """Pause the cleaning of a partition, whose current log is one of ``hosted_logs``."""
        partition = hosted_logs[0].partition
        await self._log_maintenance.abort_and_pause_cleaning(partition)
        try:
            yield
        finally:
            # The deletion of a partition has already removed the pause.
            if self._log_manager.logs.current.get(partition) in hosted_logs:
                self._log_maintenance.resume_cleaning(partition)

    async def _run(self, partition: TopicPartition, current: HostedLog, future: HostedLog) -> None:
        source, target = current.directory.path, future.directory.path
        topic_ids = current.topic_id, future.topic_id
        try:
            async with self._cleaning_paused(current, future):
                if None not in topic_ids and current.topic_id != future.topic_id:
                    log.warning(
                        "Deleting future log of %s in %s: its topic was deleted", partition, target
                    )
                    await self._delete_future_log(partition)
                    return
                log.info("Moving partition %s from %s to %s", partition, source, target)
                move = ReplicaAlterLogDirsTask(
                    self._log_manager,
                    self._disk_executor,
                    current,
                    future,
                    self._now_ms,
                    self.quota,
                )
                await move.run(
                    on_swapped=lambda: self._replica_manager.on_log_replaced(partition, future),
                    on_log_start_change=lambda: self._replica_manager.notify_watchers(partition),
                )
        except UnknownTopicOrPartition as deletion:
            log.info("Aborted moving partition %s to %s: %s", partition, target, deletion)
        except KafkaError as error:
            log.error("Aborted moving partition %s to %s: %s", partition, target, error)
        else:
            log.info("Moved partition %s to %s", partition, target)


class ReplicaAlterLogDirsTask:
    """The move of one log.  Kafka: ReplicaAlterLogDirsThread."""

    def __init__(
        self,
        log_manager: LogManager,
        disk_executor: DiskExecutor,
        current: HostedLog,
        future: HostedLog,
        now_ms: Callable[[], int],
        quota: RateQuota,
    ) -> None:
        self._log_manager = log_manager
        self._disk_executor = disk_executor
        self._quota = quota
        self._current = current
        self._future = future
        self._now_ms = now_ms

    async def run(
        self, *, on_swapped: Callable[[], None], on_log_start_change: Callable[[], None]
    ) -> None:
        """Copy the log and swap.

        ``on_swapped`` is called immediately when the future log has become the current log.
        ``on_log_start_change`` is called when the log start offset of the future log has moved.
        """
        self._on_log_start_change = on_log_start_change
        self._compare_logs()
        partition = self._current.partition
        rename_task: DiskTask | None = None
        flush_hold: AbstractContextManager[None] = nullcontext()
        while rename_task is None:
            await self._catch_up()
            with flush_hold:
                for task in self._log_manager.prepare_move(partition, now_ms=self._now_ms()):
                    await self._disk_executor.execute(task)
                await self._catch_up(is_throttled=False)  # records appended meanwhile
                # Copy the small rest and swap without awaiting, so no append comes in between.
                if self._is_prefix_of_source and self._copy_remainder():
                    rename_task = self._log_manager.finish_move(partition)
                if rename_task is not None:
                    on_swapped()
            # With a flush at every append, a slower target disk would never catch up.
            flush_hold = self._flushes_held()
        await self._disk_executor.execute(rename_task)
        await self._disk_executor.execute_all(
            self._log_manager.deletion_tasks(now_ms=self._now_ms())
        )

    @contextmanager
    def _flushes_held(self) -> Iterator[None]:
        """Pause flushes of the log, but not for long: a hanging target disk must not block them."""
        current = self._current
        current.pause_flush()
        timer = asyncio.get_running_loop().call_later(FLUSH_HOLD_MAX_S, current.resume_flush)
        try:
            yield
        finally:
            timer.cancel()
            current.resume_flush()

    def _compare_logs(self) -> None:
        """Compare at the start, and after a reopen (log_repair.py), when the log may be shorter."""
        self._source = self._current.log
        #: How many truncations of the log the future log has followed.
        self._truncations_seen = len(self._source.truncation_offsets)
        #: The truncation offset from the comparison.
        self._initial_truncations = [self._common_end_offset()]

    @property
    def _is_prefix_of_source(self) -> bool:
        """Whether the future log is a prefix of the current log."""
        with self._current as source, self._future as future:
            was_truncated = (
                source is not self._source
                or len(source.truncation_offsets) > self._truncations_seen
            )
            return (
                not was_truncated
                and source.log_start_offset <= future.log_end_offset <= source.log_end_offset
            )

    async def _catch_up(self, *, is_throttled: bool = True) -> None:
        """Copy until the future log has all records of the log."""
        while True:
            await self._truncate_to_source()
            if not self._is_prefix_of_source:
                continue  # the log has changed during the truncation
            region = self._next_chunk()
            if not region.length:
                return
            if is_throttled and (throttle_s := self._quota.throttle_time_s):
                await asyncio.sleep(min(throttle_s, THROTTLE_MAX_S))
                continue
            read = files.read_at, region.descriptor, region.length, region.position
            with self._current:
                records = await self._disk_executor.run_in(self._current.directory, *read)
            if self._is_prefix_of_source:
                self._append(records)

    def _common_end_offset(self) -> int:
        """Return the offset up to which both logs have the same records."""
        current, future = self._current, self._future
        start = max(current.log.log_start_offset, future.log.log_start_offset)
        if current.log.settings.is_compacted:
            return start  # tombstones of records in the future log may be gone
        end = matching_epochs_end_offset(current.log, future.log)
        if start < end and read_batch_header(current, end - 1) != read_batch_header(
            future, end - 1
        ):
            return start
        return end

    async def _truncate_to_source(self) -> None:
        """Follow the truncations of the log, or restart the future log at the log start offset."""
        with self._current as source, self._future as future:
            if source is not self._source:
                self._compare_logs()
            truncations = [
                *self._initial_truncations,
                *source.truncation_offsets[self._truncations_seen :],
            ]
            self._initial_truncations, self._truncations_seen = [], len(source.truncation_offsets)
            end = min([source.log_end_offset, *truncations])
            start = source.log_start_offset
        # Also restart a future log that lacks the start of the log or has none of its records.
        has_beginning = future.log_start_offset <= start <= future.log_end_offset
        if not has_beginning or end <= start < future.log_end_offset:
            if not future.segments.is_single_empty_segment:
                # Like a follower: a disk thread makes the blocking calls.
                first = future.segments.first.base_offset
                truncate_task = self._log_manager.truncate(
                    self._future, first, now_ms=self._now_ms()
                )
                await self._disk_executor.execute(truncate_task)
            task = self._log_manager.truncate_fully_and_start_at(
                self._future, start, now_ms=self._now_ms()
            )
        elif future.log_end_offset > end:
            task = self._log_manager.truncate(self._future, end, now_ms=self._now_ms())
        else:
            return
        await self._disk_executor.execute(task)
        self._on_log_start_change()

    def _next_chunk(self) -> FileRegion:
        with self._future as future:
            offset = future.log_end_offset
        # In a separate block: a read error of this directory must not fail the other one.
        with self._current as source:
            return source.read(offset, max_bytes=COPY_CHUNK_BYTES, max_offset=source.log_end_offset)

    def _copy_remainder(self) -> bool:
        """Copy the rest if it is small enough for one chunk; return whether all is copied."""
        region = self._next_chunk()
        if region.length:
            with self._current:
                records = files.read_at(region.descriptor, region.length, region.position)
            self._append(records)
        with self._current as source, self._future as future:
            update_future_log(future, source)  # also for an empty log, which may have an epoch
        return self._future.log.log_end_offset == self._current.log.log_end_offset

    def _append(self, records: bytes) -> None:
        with self._current as source, self._future as future:
            future.append_as_follower(bytearray(records), now_ms=self._now_ms())
            has_moved = update_future_log(future, source)
        self._quota.record(len(records))
        if has_moved:
            self._on_log_start_change()
