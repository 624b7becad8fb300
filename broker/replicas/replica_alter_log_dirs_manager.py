"""Moving replicas to other log directories of the same broker, while they are in use.

A copy in the other directory follows the log like a follower, slice by slice.  When it has all, it
is synced and takes the log's place (storage/manager/moving.py); if too much was appended or synced
meanwhile, it is copied too, and all is tried again.

    reads of the log   on a disk thread, as what is copied may not be in memory
    appends            on the loop, in small slices; the copy's own syncs with all others
    throttled          by the rate that operators set for all copies together (throttles.py)
    compaction         and retention of the log are held off until the move has ended

A copy that is found when the broker starts, or whose move was broken off, goes on where it was:
``resume``.  If its directory was out of reach meanwhile, the log may have become another: its topic
was deleted and made again, or it was cut and has grown since.  So a copy of another topic is
removed, and any other is cut where the two part, by their leaders' epochs; if even then they do not
end alike (a power cut needs no new leader), it begins anew.  So does one of a compacted log, which
may have lost tombstones since that speak of what the copy has.

Invariant: of a partition, at most one move is under way.
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

log = logging.getLogger(__name__)

#: A guess: an append of so much holds up the loop for less than a millisecond.
COPY_CHUNK_BYTES = 256 * 1024
#: How soon a copy that is held up sees that it may go on faster.
THROTTLE_MAX_S = 1.0
#: For how long at most a log is not synced, so that its copy is synced as far.
FLUSH_HOLD_MAX_S = 1.0
_FILE_NAME_LENGTH_MAX = 255

StartTask = Callable[[Coroutine[Any, Any, None], str], "asyncio.Task[None]"]


class HostedPartitions(Protocol):
    """The part of the replica manager that moving needs."""

    def partition(self, topic: str, index: int, /) -> Partition: ...

    def on_log_replaced(self, partition: TopicPartition, hosted_log: HostedLog, /) -> None: ...

    def notify_watchers(self, partition: TopicPartition, /) -> None: ...


class LogMaintenance(Protocol):
    """Who compacts logs."""

    async def abort_and_pause_cleaning(self, partition: TopicPartition, /) -> None: ...

    def resume_cleaning(self, partition: TopicPartition, /) -> None: ...


class ReplicaAlterLogDirsManager:
    """All moves of one broker."""

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
        #: Giving a move up takes time, in which another request must not begin a third.
        self._partition_locks: WeakValueDictionary[TopicPartition, asyncio.Lock] = (
            WeakValueDictionary()
        )
        #: Of all copies together; the broker's own takes its place.
        self.quota = RateQuota(windows=1, window_s=1)
        #: Where logs shall be made that are not there yet.
        self.preferred_log_dirs: dict[TopicPartition, LogDirectory] = {}

    def is_moving(self, partition: TopicPartition) -> bool:
        task = self._tasks.get(partition)
        return task is not None and not task.done()

    def find_future(self, partition: TopicPartition) -> HostedLog | None:
        """The copy of a partition, if it is on its way; one that was broken off is not."""
        return self._log_manager.find_future(partition) if self.is_moving(partition) else None

    async def move(self, partition: TopicPartition, path: str) -> None:
        """Begin it, and give up another of the same partition; refused if it is not possible.

        To where the log is already, it only gives up the other.
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
            hosted_partition = self._find_partition(
                partition, target
            )  # it may have been deleted meanwhile
        if hosted_partition.hosted_log.directory is target:
            await self._remove_move_marker(
                hosted_partition.hosted_log
            )  # as the disk of a copy may have failed before
            return
        if self._log_manager.find_future(partition) is not None:
            self.resume(partition)  # it may have been broken off
            return
        if offline_directories := self._log_manager.directories.offline:
            raise KafkaStorageError(
                f"a future log of {partition} may be in {offline_directories[0].path}, "
                "which is offline"
            )
        self._log_manager.create_future(partition, target, now_ms=self._now_ms())
        self.resume(partition)

    def _find_partition(self, partition: TopicPartition, target: LogDirectory) -> Partition:
        """One that has no log here will have it in ``target``."""
        try:
            return self._replica_manager.partition(*partition)
        except NotLeaderOrFollower:
            self.preferred_log_dirs[partition] = target
            raise

    def resume(self, partition: TopicPartition) -> None:
        """Let the copy of a partition go on, if there is one."""
        current = self._log_manager.logs.current.get(partition)
        future = self._log_manager.find_future(partition)
        if current is None or future is None or self.is_moving(partition):
            return
        work = self._run(partition, current, future)
        task = self._tasks[partition] = self._start_task(work, f"moving {partition}")
        # A task that is cancelled before it has begun does not come to any end of its own.
        task.add_done_callback(lambda done_task: self._on_task_done(partition, future, done_task))

    def _on_task_done(
        self, partition: TopicPartition, future: HostedLog, task: asyncio.Task[None]
    ) -> None:
        if self._tasks.get(partition) is task:
            del self._tasks[partition]
            if self._log_manager.find_future(partition) is not future:
                self.resume(partition)  # another was asked for while this one came to its end
        self._replica_manager.notify_watchers(partition)

    async def _cancel(self, partition: TopicPartition) -> None:
        task = self._tasks.get(partition)  # until it has ended, lest another begins
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        current = self._log_manager.logs.current.get(partition)
        if current is not None:
            async with self._cleaning_paused(current):
                await self._delete_future_log(partition)
                await self._remove_move_marker(current)

    async def _remove_move_marker(self, current: HostedLog) -> None:
        """Whatever became of its last marking: nothing that is made elsewhere is to replace it."""
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
        """Nobody else works on the logs of a partition, one of which is the current one."""
        partition = hosted_logs[0].partition
        await self._log_maintenance.abort_and_pause_cleaning(partition)
        try:
            yield
        finally:
            # Where it was deleted, so was what held them off.
            if self._log_manager.logs.current.get(partition) in hosted_logs:
                self._log_maintenance.resume_cleaning(partition)

    async def _run(self, partition: TopicPartition, current: HostedLog, future: HostedLog) -> None:
        source, target = current.directory.path, future.directory.path
        topic_ids = current.topic_id, future.topic_id
        try:
            async with self._cleaning_paused(current, future):
                if None not in topic_ids and current.topic_id != future.topic_id:
                    log.warning("The copy of a deleted topic's %s in %s goes", partition, target)
                    await self._delete_future_log(partition)
                    return
                log.info("Moving %s from %s to %s", partition, source, target)
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
            log.info("Moving %s to %s was broken off: %s", partition, target, deletion)
        except KafkaError as error:
            log.error("Moving %s to %s was broken off: %s", partition, target, error)
        else:
            log.info("%s is in %s now", partition, target)


class ReplicaAlterLogDirsTask:
    """One log, and its copy on the way."""

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
        """``on_swapped`` is called when the copy has become the log, at once.

        ``on_start_moved`` is called when the copy has followed the log's start.
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
                await self._catch_up(is_throttled=False)  # with what came meanwhile
                # What is left is little: it is copied, and nothing can come in between.
                if self._is_prefix_of_source and self._copy_remainder():
                    rename_task = self._log_manager.finish_move(partition)
                if rename_task is not None:
                    on_swapped()
            # One that is synced at every append would be ahead of a slower disk every time.
            flush_hold = self._flushes_held()
        await self._disk_executor.execute(rename_task)
        await self._disk_executor.execute_all(
            self._log_manager.deletion_tasks(now_ms=self._now_ms())
        )

    @contextmanager
    def _flushes_held(self) -> Iterator[None]:
        """Not for long: a disk that hangs is not to hold up what is written to another."""
        current = self._current
        current.pause_flush()
        timer = asyncio.get_running_loop().call_later(FLUSH_HOLD_MAX_S, current.resume_flush)
        try:
            yield
        finally:
            timer.cancel()
            current.resume_flush()

    def _compare_logs(self) -> None:
        """At first, and when the log has been opened again (mending.py): it may end earlier now."""
        self._source = self._current.log
        #: How many of the log's truncations the copy has followed.
        self._truncations_seen = len(self._source.truncation_offsets)
        #: Where the copy is to be cut for what came before.
        self._initial_truncations = [self._common_end_offset()]

    @property
    def _is_prefix_of_source(self) -> bool:
        """Whether the copy is a beginning of the log, as far as it goes."""
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
        """Until the copy has all that the log has."""
        while True:
            await self._truncate_to_source()
            if not self._is_prefix_of_source:
                continue  # the log has changed while the copy was cut
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
        """Up to where both have the same records."""
        current, future = self._current, self._future
        start = max(current.log.log_start_offset, future.log.log_start_offset)
        if current.log.settings.is_compacted:
            return start  # tombstones may be gone that speak of what the copy still has
        end = matching_epochs_end_offset(current.log, future.log)
        if start < end and read_batch_header(current, end - 1) != read_batch_header(
            future, end - 1
        ):
            return start
        return end

    async def _truncate_to_source(self) -> None:
        """Cut from the copy what the log has lost at its end, or begin it anew at the start."""
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
        # Anew also where it lacks the log's beginning, or has nothing of the log.
        has_beginning = future.log_start_offset <= start <= future.log_end_offset
        if not has_beginning or end <= start < future.log_end_offset:
            if not future.segments.is_single_empty_segment:
                # As a follower does: what sleeps is done by a disk thread.
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
        # By itself: the other directory is not to blame if this one cannot be read.
        with self._current as source:
            return source.read(offset, max_bytes=COPY_CHUNK_BYTES, max_offset=source.log_end_offset)

    def _copy_remainder(self) -> bool:
        """At once, if it is little; else False."""
        region = self._next_chunk()
        if region.length:
            with self._current:
                records = files.read_at(region.descriptor, region.length, region.position)
            self._append(records)
        with self._current as source, self._future as future:
            update_future_log(future, source)  # an empty log may have an epoch, too
        return self._future.log.log_end_offset == self._current.log.log_end_offset

    def _append(self, records: bytes) -> None:
        with self._current as source, self._future as future:
            future.append_as_follower(bytearray(records), now_ms=self._now_ms())
            has_moved = update_future_log(future, source)
        self._quota.record(len(records))
        if has_moved:
            self._on_log_start_change()
