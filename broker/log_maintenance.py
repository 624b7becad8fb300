"""What is done to the logs from time to time: syncing, retention, compaction, checkpoints, removal.

    flush        what has waited long enough, and segments that were sealed
    checkpoints  recovery points, start offsets, high watermarks, in one writing
    retention    segments that are too old or too many; not at once if the clock has been set
    removal      of files that have waited long enough since they were set aside
    compaction   one log after the other, in the worker process, put in place here
    producers    those that have been silent for long are forgotten
    mending      logs that want of descriptors has left in doubt

What sleeps runs on the disk's threads, each log directory by itself.

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Iterable
from concurrent.futures import BrokenExecutor
from typing import Protocol

from odradek.broker.clock import JumpWatch
from odradek.broker.disk import Disk
from odradek.broker.worker import Worker, is_interrupted
from odradek.protocol.errors import CorruptMessage, KafkaStorageError
from odradek.protocol.types import TopicPartition
from odradek.storage.cleaner.compaction import clean
from odradek.storage.cleaner.pace import CleaningStopped, Pace
from odradek.storage.cleaner.settings import CleanerSettings
from odradek.storage.cleaner.states import IDLE, STOPPING
from odradek.storage.cleaner.task import CleaningPlan, CleaningTask
from odradek.storage.manager.compacting import Compaction
from odradek.storage.manager.disk_work import DiskWork
from odradek.storage.manager.log_manager import LogManager

log = logging.getLogger(__name__)

_STOP_LOOKED_FOR_EVERY_S = 0.05
#: By less than this the clock may be set, as it is again and again, without a word.
JUMP_MS = 60_000


class Settings(Protocol):
    """The settings that matter here, as they are at the moment."""

    @property
    def cleaner(self) -> CleanerSettings: ...

    @property
    def background_threads(self) -> int: ...


class LogCare:
    """The schedules of one broker's logs."""

    def __init__(
        self,
        logs: LogManager,
        settings: Settings,
        *,
        disk: Disk,
        worker: Worker,
        now_ms: Callable[[], int],
    ) -> None:
        self._logs = logs
        self._settings = settings
        self._disk = disk
        self._worker = worker
        self._now_ms = now_ms
        self._jumps = JumpWatch(now_ms)
        self._compaction: Compaction | None = None

    async def flush(self) -> None:
        await self._carry_out(self._logs.upkeep.flushes_due(self._now_ms()))

    async def checkpoint(self) -> None:
        await self._carry_out(self._logs.checkpoints())

    async def apply_retention(self) -> None:
        jumped_ms = self._jumps.jumped_ms()
        if jumped_ms > JUMP_MS:
            # Who has set it wrong can set it right again before fresh records are taken for old.
            log.warning(
                "The clock was set forward by %d s: what is too old by it is deleted next time",
                jumped_ms // 1000,
            )
            return
        outlived, works = self._logs.upkeep.apply_retention(self._now_ms())
        for gone in outlived:
            log.info("%s", gone)
        await self._carry_out(works)

    async def remove(self) -> None:
        await self._carry_out(self._logs.upkeep.removals_due(self._now_ms()))
        await self._carry_out(self._logs.mendings(now_ms=self._now_ms()))

    async def _carry_out(self, works: Iterable[DiskWork]) -> None:
        await self._disk.carry_out_all(works, at_once=self._settings.background_threads)

    def expire_producers(self) -> None:
        self._logs.upkeep.expire_producers(self._now_ms())

    async def compact(self) -> None:
        """All logs that are dirty enough, one after the other."""
        while (settings := self._settings.cleaner).enable and settings.threads > 0:
            compaction = self._logs.upkeep.next_compaction(self._now_ms(), settings)
            if compaction is None:
                return
            self._compaction = compaction
            try:
                await self._compact(compaction)
            finally:
                self._compaction = None

    async def _compact(self, compaction: Compaction) -> None:
        try:
            with compaction:
                plan = await self._worker.run(compact_in_worker, compaction.task)
                for work in compaction.put_in_place(plan, now_ms=self._now_ms()):
                    await self._disk.carry_out(work)
        except CleaningStopped:
            log.info("Compacting %s was stopped", compaction.partition)
        except CorruptMessage as damage:
            log.error(
                "%s is damaged, and is not compacted any more: %s", compaction.partition, damage
            )
        except (KafkaStorageError, BrokenExecutor) as failure:
            log.error("Compacting %s failed: %s", compaction.partition, failure)

    async def hold_off(self, partition: TopicPartition) -> None:
        """Keep compaction and retention away from a partition, until ``allow``.

        If it is deleted meanwhile there is nothing to keep away, and nothing to allow.  Nor is
        there if whoever waits for it is cancelled.
        """
        states = self._logs.cleaner.states
        self._logs.cleaner.pause(partition)
        try:
            while states[partition] is STOPPING:
                if self._compaction is not None and self._compaction.partition == partition:
                    self._worker.interrupt()
                await asyncio.sleep(_STOP_LOOKED_FOR_EVERY_S)
        except asyncio.CancelledError:
            if states[partition] is not IDLE:
                self.allow(partition)
            raise

    def allow(self, partition: TopicPartition) -> None:
        self._logs.cleaner.resume(partition)

    async def clear_deleted(self) -> None:
        """Rename what was deleted or replaced out of the way."""
        await self._disk.carry_out_all(self._logs.deletions(now_ms=self._now_ms()))

    async def carry_out(self, work: DiskWork) -> None:
        await self._disk.carry_out(work)


def compact_in_worker(task: CleaningTask) -> CleaningPlan:
    """In the worker process.

    Niceness alone hardly helps clients that wait for small answers: who wakes up does not interrupt
    a nice process, but waits for its slice of some milliseconds, unless it gives way before.
    """
    pace = Pace(
        should_stop=is_interrupted,
        clock=time.monotonic,
        sleep=time.sleep,
        give_way=os.sched_yield,
    )
    return clean(task, pace)
