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

from odradek.broker.disk import Disk
from odradek.broker.replicas.log_copies import follow, header_at, same_epochs_end
from odradek.broker.replicas.partition import Partition
from odradek.broker.replicas.throttles import Rate
from odradek.protocol.errors import (
    InvalidTopic,
    KafkaError,
    KafkaStorageError,
    NotLeader,
    UnknownTopicOrPartition,
)
from odradek.protocol.file_region import FileRegion
from odradek.protocol.types import TopicPartition
from odradek.storage import files
from odradek.storage.manager.directory import LogDirectory
from odradek.storage.manager.disk_work import DiskWork
from odradek.storage.manager.hosted_log import HostedLog
from odradek.storage.manager.log_manager import LogManager
from odradek.storage.manager.moving import unmarking
from odradek.storage.paths import Purpose, new_directory_name

log = logging.getLogger(__name__)

#: A guess: an append of so much holds up the loop for less than a millisecond.
SLICE_BYTES = 256 * 1024
#: How soon a copy that is held up sees that it may go on faster.
LONGEST_REST_S = 1.0
#: For how long at most a log is not synced, so that its copy is synced as far.
HELD_MAX_S = 1.0
_FILE_NAME_LENGTH_MAX = 255

Start = Callable[[Coroutine[Any, Any, None], str], "asyncio.Task[None]"]


class Replicas(Protocol):
    """The part of the replica manager that moving needs."""

    def partition(self, topic: str, index: int, /) -> Partition: ...

    def replaced(self, partition: TopicPartition, hosted: HostedLog, /) -> None: ...

    def wake(self, partition: TopicPartition, /) -> None: ...


class Care(Protocol):
    """Who compacts logs."""

    async def hold_off(self, partition: TopicPartition, /) -> None: ...

    def allow(self, partition: TopicPartition, /) -> None: ...


class LogDirMoves:
    """All moves of one broker."""

    def __init__(
        self,
        replicas: Replicas,
        logs: LogManager,
        *,
        care: Care,
        disk: Disk,
        start: Start,
        now_ms: Callable[[], int],
    ) -> None:
        self._replicas = replicas
        self._logs = logs
        self._care = care
        self._disk = disk
        self._start = start
        self._now_ms = now_ms
        self._tasks: dict[TopicPartition, asyncio.Task[None]] = {}
        #: Giving a move up takes time, in which another request must not begin a third.
        self._turns: WeakValueDictionary[TopicPartition, asyncio.Lock] = WeakValueDictionary()
        #: Of all copies together; the broker's own takes its place.
        self.rate = Rate(windows=1, window_s=1)
        #: Where logs shall be made that are not there yet.
        self.preferred: dict[TopicPartition, LogDirectory] = {}

    def is_moving(self, partition: TopicPartition) -> bool:
        task = self._tasks.get(partition)
        return task is not None and not task.done()

    def find_future(self, partition: TopicPartition) -> HostedLog | None:
        """The copy of a partition, if it is on its way; one that was broken off is not."""
        return self._logs.find_future(partition) if self.is_moving(partition) else None

    async def move(self, partition: TopicPartition, path: str) -> None:
        """Begin it, and give up another of the same partition; refused if it is not possible.

        To where the log is already, it only gives up the other.
        """
        if len(str(new_directory_name(partition, Purpose.FUTURE))) > _FILE_NAME_LENGTH_MAX:
            raise InvalidTopic(f"{partition} has too long a name to be moved")
        target = self._logs.directories.at(path)
        if not target.is_online:
            raise target.offline()
        async with self._turns.setdefault(partition, asyncio.Lock()):
            await self._turn_to(target, partition)

    async def _turn_to(self, target: LogDirectory, partition: TopicPartition) -> None:
        found = self._found(partition, target)
        future = self._logs.find_future(partition)
        if future is not None and future.directory is not target:
            await self._give_up(partition)
            found = self._found(partition, target)  # it may have been deleted meanwhile
        if found.hosted.directory is target:
            await self._unmark(found.hosted)  # as the disk of a copy may have failed before
            return
        if self._logs.find_future(partition) is not None:
            self.resume(partition)  # it may have been broken off
            return
        if offline := self._logs.directories.offline:
            raise KafkaStorageError(f"a copy of {partition} may be in {offline[0].path}, offline")
        self._logs.create_future(partition, target, now_ms=self._now_ms())
        self.resume(partition)

    def _found(self, partition: TopicPartition, target: LogDirectory) -> Partition:
        """One that has no log here will have it in ``target``."""
        try:
            return self._replicas.partition(*partition)
        except NotLeader:
            self.preferred[partition] = target
            raise

    def resume(self, partition: TopicPartition) -> None:
        """Let the copy of a partition go on, if there is one."""
        current = self._logs.logs.current.get(partition)
        future = self._logs.find_future(partition)
        if current is None or future is None or self.is_moving(partition):
            return
        work = self._run(partition, current, future)
        task = self._tasks[partition] = self._start(work, f"moving {partition}")
        # A task that is cancelled before it has begun does not come to any end of its own.
        task.add_done_callback(lambda ended: self._forget(partition, future, ended))

    def _forget(
        self, partition: TopicPartition, future: HostedLog, ended: asyncio.Task[None]
    ) -> None:
        if self._tasks.get(partition) is ended:
            del self._tasks[partition]
            if self._logs.find_future(partition) is not future:
                self.resume(partition)  # another was asked for while this one came to its end
        self._replicas.wake(partition)

    async def _give_up(self, partition: TopicPartition) -> None:
        task = self._tasks.get(partition)  # until it has ended, lest another begins
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        current = self._logs.logs.current.get(partition)
        if current is not None:
            async with self._held_off(current):
                await self._remove_copy(partition)
                await self._unmark(current)

    async def _unmark(self, current: HostedLog) -> None:
        """Whatever became of its last marking: nothing that is made elsewhere is to replace it."""
        if self._logs.find_future(current.partition) is None:
            await self._disk.carry_out(unmarking(current))

    async def _remove_copy(self, partition: TopicPartition) -> None:
        if self._logs.find_future(partition) is not None:
            self._logs.delete_future(partition)
            await self._disk.carry_out_all(self._logs.deletions(now_ms=self._now_ms()))

    @asynccontextmanager
    async def _held_off(self, *logs: HostedLog) -> AsyncIterator[None]:
        """Nobody else works on the logs of a partition, one of which is the current one."""
        partition = logs[0].partition
        await self._care.hold_off(partition)
        try:
            yield
        finally:
            # Where it was deleted, so was what held them off.
            if self._logs.logs.current.get(partition) in logs:
                self._care.allow(partition)

    async def _run(self, partition: TopicPartition, current: HostedLog, future: HostedLog) -> None:
        source, target = current.directory.path, future.directory.path
        ids = current.topic_id, future.topic_id
        try:
            async with self._held_off(current, future):
                if None not in ids and current.topic_id != future.topic_id:
                    log.warning("The copy of a deleted topic's %s in %s goes", partition, target)
                    await self._remove_copy(partition)
                    return
                log.info("Moving %s from %s to %s", partition, source, target)
                move = LogDirMove(self._logs, self._disk, current, future, self._now_ms, self.rate)
                await move.run(
                    on_swapped=lambda: self._replicas.replaced(partition, future),
                    on_start_moved=lambda: self._replicas.wake(partition),
                )
        except UnknownTopicOrPartition as deleted:
            log.info("Moving %s to %s was broken off: %s", partition, target, deleted)
        except KafkaError as failure:
            log.error("Moving %s to %s was broken off: %s", partition, target, failure)
        else:
            log.info("%s is in %s now", partition, target)


class LogDirMove:
    """One log, and its copy on the way."""

    def __init__(
        self,
        logs: LogManager,
        disk: Disk,
        current: HostedLog,
        future: HostedLog,
        now_ms: Callable[[], int],
        rate: Rate,
    ) -> None:
        self._logs = logs
        self._disk = disk
        self._rate = rate
        self._current = current
        self._future = future
        self._now_ms = now_ms

    async def run(
        self, *, on_swapped: Callable[[], None], on_start_moved: Callable[[], None]
    ) -> None:
        """``on_swapped`` is called when the copy has become the log, at once.

        ``on_start_moved`` is called when the copy has followed the log's start.
        """
        self._on_start_moved = on_start_moved
        self._compare()
        partition = self._current.partition
        naming: DiskWork | None = None
        held: AbstractContextManager[None] = nullcontext()
        while naming is None:
            await self._catch_up()
            with held:
                for work in self._logs.prepare_move(partition, now_ms=self._now_ms()):
                    await self._disk.carry_out(work)
                await self._catch_up(is_throttled=False)  # with what came meanwhile
                # What is left is little: it is copied, and nothing can come in between.
                if self._has_same_records and self._copy_rest():
                    naming = self._logs.finish_move(partition)
                if naming is not None:
                    on_swapped()
            # One that is synced at every append would be ahead of a slower disk every time.
            held = self._syncs_held()
        await self._disk.carry_out(naming)
        await self._disk.carry_out_all(self._logs.deletions(now_ms=self._now_ms()))

    @contextmanager
    def _syncs_held(self) -> Iterator[None]:
        """Not for long: a disk that hangs is not to hold up what is written to another."""
        current = self._current
        current.hold_syncs()
        timer = asyncio.get_running_loop().call_later(HELD_MAX_S, current.release_syncs)
        try:
            yield
        finally:
            timer.cancel()
            current.release_syncs()

    def _compare(self) -> None:
        """At first, and when the log has been opened again (mending.py): it may end earlier now."""
        self._source = self._current.log
        #: How many of the log's truncations the copy has followed.
        self._cuts_seen = len(self._source.cuts)
        #: Where the copy is to be cut for what came before.
        self._cuts_before = [self._agreed_end()]

    @property
    def _has_same_records(self) -> bool:
        """Whether the copy is a beginning of the log, as far as it goes."""
        with self._current as source, self._future as copy:
            is_cut = source is not self._source or len(source.cuts) > self._cuts_seen
            return not is_cut and source.start_offset <= copy.end_offset <= source.end_offset

    async def _catch_up(self, *, is_throttled: bool = True) -> None:
        """Until the copy has all that the log has."""
        while True:
            await self._align()
            if not self._has_same_records:
                continue  # the log has changed while the copy was cut
            region = self._next()
            if not region.length:
                return
            if is_throttled and (rest_s := self._rate.rest_s):
                await asyncio.sleep(min(rest_s, LONGEST_REST_S))
                continue
            read = files.read_at, region.descriptor, region.length, region.position
            with self._current:
                records = await self._disk.run_in(self._current.directory, *read)
            if self._has_same_records:
                self._append(records)

    def _agreed_end(self) -> int:
        """Up to where both have the same records."""
        current, future = self._current, self._future
        start = max(current.log.start_offset, future.log.start_offset)
        if current.log.settings.is_compacted:
            return start  # tombstones may be gone that speak of what the copy still has
        end = same_epochs_end(current.log, future.log)
        if start < end and header_at(current, end - 1) != header_at(future, end - 1):
            return start
        return end

    async def _align(self) -> None:
        """Cut from the copy what the log has lost at its end, or begin it anew at the start."""
        with self._current as source, self._future as copy:
            if source is not self._source:
                self._compare()
            cuts = [*self._cuts_before, *source.cuts[self._cuts_seen :]]
            self._cuts_before, self._cuts_seen = [], len(source.cuts)
            end = min([source.end_offset, *cuts])
            start = source.start_offset
        # Anew also where it lacks the log's beginning, or has nothing of the log.
        has_beginning = copy.start_offset <= start <= copy.end_offset
        if not has_beginning or end <= start < copy.end_offset:
            if not copy.segments.is_bare:
                # As a follower does: what sleeps is done by a disk thread.
                first = copy.segments.first.base_offset
                shorter = self._logs.truncate(self._future, first, now_ms=self._now_ms())
                await self._disk.carry_out(shorter)
            work = self._logs.truncate_fully(self._future, start, now_ms=self._now_ms())
        elif copy.end_offset > end:
            work = self._logs.truncate(self._future, end, now_ms=self._now_ms())
        else:
            return
        await self._disk.carry_out(work)
        self._on_start_moved()

    def _next(self) -> FileRegion:
        with self._future as copy:
            offset = copy.end_offset
        # By itself: the other directory is not to blame if this one cannot be read.
        with self._current as source:
            return source.read(offset, max_bytes=SLICE_BYTES, up_to=source.end_offset)

    def _copy_rest(self) -> bool:
        """At once, if it is little; else False."""
        region = self._next()
        if region.length:
            with self._current:
                records = files.read_at(region.descriptor, region.length, region.position)
            self._append(records)
        with self._current as source, self._future as copy:
            follow(copy, source)  # an empty log may have an epoch, too
        return self._future.log.end_offset == self._current.log.end_offset

    def _append(self, records: bytes) -> None:
        with self._current as source, self._future as copy:
            copy.append_as_follower(bytearray(records), now_ms=self._now_ms())
            has_moved = follow(copy, source)
        self._rate.record(len(records))
        if has_moved:
            self._on_start_moved()
