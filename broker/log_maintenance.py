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

from odradek.broker.clock import ClockJumpDetector
from odradek.broker.disk_executor import DiskExecutor
from odradek.broker.worker_process import WorkerProcess, is_interrupted
from odradek.protocol.errors import CorruptMessage, KafkaStorageError
from odradek.protocol.types import TopicPartition
from odradek.storage.cleaner.cleaner import clean
from odradek.storage.cleaner.log_cleaning_state import IDLE, STOPPING
from odradek.storage.cleaner.settings import CleanerSettings
from odradek.storage.cleaner.task import CleaningResult, CleaningTask
from odradek.storage.cleaner.throttler import CleanerThrottler, LogCleaningAborted
from odradek.storage.manager.compaction import Compaction
from odradek.storage.manager.disk_task import DiskTask
from odradek.storage.manager.log_manager import LogManager

log = logging.getLogger(__name__)

_STOP_POLL_INTERVAL_S = 0.05
#: By less than this the clock may be set, as it is again and again, without a word.
CLOCK_JUMP_MIN_MS = 60_000


class LogMaintenanceSettings(Protocol):
    """The settings that matter here, as they are at the moment."""

    @property
    def cleaner(self) -> CleanerSettings: ...

    @property
    def background_threads(self) -> int: ...


class LogMaintenance:
    """The schedules of one broker's logs."""

    def __init__(
        self,
        log_manager: LogManager,
        settings: LogMaintenanceSettings,
        *,
        disk_executor: DiskExecutor,
        cleaner_process: WorkerProcess,
        now_ms: Callable[[], int],
    ) -> None:
        self._log_manager = log_manager
        self._settings = settings
        self._disk_executor = disk_executor
        self._cleaner_process = cleaner_process
        self._now_ms = now_ms
        self._clock_jumps = ClockJumpDetector(now_ms)
        self._compaction: Compaction | None = None

    async def flush(self) -> None:
        await self._execute_all(self._log_manager.maintenance.due_flush_tasks(self._now_ms()))

    async def checkpoint(self) -> None:
        await self._execute_all(self._log_manager.checkpoint_tasks())

    async def apply_retention(self) -> None:
        jumped_ms = self._clock_jumps.jump_since_last_call_ms()
        if jumped_ms > CLOCK_JUMP_MIN_MS:
            # Who has set it wrong can set it right again before fresh records are taken for old.
            log.warning(
                "The clock was set forward by %d s: what is too old by it is deleted next time",
                jumped_ms // 1000,
            )
            return
        deletions, tasks = self._log_manager.maintenance.apply_retention(self._now_ms())
        for deletion in deletions:
            log.info("%s", deletion)
        await self._execute_all(tasks)

    async def delete_pending_files(self) -> None:
        await self._execute_all(self._log_manager.maintenance.due_removal_tasks(self._now_ms()))
        await self._execute_all(self._log_manager.repair_tasks(now_ms=self._now_ms()))

    async def _execute_all(self, tasks: Iterable[DiskTask]) -> None:
        await self._disk_executor.execute_all(tasks, parallelism=self._settings.background_threads)

    def expire_producers(self) -> None:
        self._log_manager.maintenance.remove_expired_producers(self._now_ms())

    async def compact(self) -> None:
        """All logs that are dirty enough, one after the other."""
        while (settings := self._settings.cleaner).enable and settings.threads > 0:
            compaction = self._log_manager.maintenance.next_compaction(self._now_ms(), settings)
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
                plan = await self._cleaner_process.run(compact_in_worker, compaction.task)
                for task in compaction.replace_segments(plan, now_ms=self._now_ms()):
                    await self._disk_executor.execute(task)
        except LogCleaningAborted:
            log.info("Compacting %s was stopped", compaction.partition)
        except CorruptMessage as corruption:
            log.error(
                "%s is damaged, and is not compacted any more: %s", compaction.partition, corruption
            )
        except (KafkaStorageError, BrokenExecutor) as error:
            log.error("Compacting %s failed: %s", compaction.partition, error)

    async def abort_and_pause_cleaning(self, partition: TopicPartition) -> None:
        """Keep compaction and retention away from a partition, until ``allow``.

        If it is deleted meanwhile there is nothing to keep away, and nothing to allow.  Nor is
        there if whoever waits for it is cancelled.
        """
        states = self._log_manager.cleaner_manager.states
        self._log_manager.cleaner_manager.pause(partition)
        try:
            while states[partition] is STOPPING:
                if self._compaction is not None and self._compaction.partition == partition:
                    self._cleaner_process.interrupt()
                await asyncio.sleep(_STOP_POLL_INTERVAL_S)
        except asyncio.CancelledError:
            if states[partition] is not IDLE:
                self.resume_cleaning(partition)
            raise

    def resume_cleaning(self, partition: TopicPartition) -> None:
        self._log_manager.cleaner_manager.resume(partition)

    async def rename_deleted_logs(self) -> None:
        """Rename what was deleted or replaced out of the way."""
        await self._disk_executor.execute_all(
            self._log_manager.deletion_tasks(now_ms=self._now_ms())
        )

    async def execute(self, task: DiskTask) -> None:
        await self._disk_executor.execute(task)


def compact_in_worker(task: CleaningTask) -> CleaningResult:
    """In the worker process.

    Niceness alone hardly helps clients that wait for small answers: who wakes up does not interrupt
    a nice process, but waits for its slice of some milliseconds, unless it gives way before.
    """
    throttler = CleanerThrottler(
        should_abort=is_interrupted,
        clock=time.monotonic,
        sleep=time.sleep,
        yield_cpu=os.sched_yield,
    )
    return clean(task, throttler)
