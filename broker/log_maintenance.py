"""Scheduled work on the logs.  Kafka: the scheduled tasks of LogManager, and LogCleaner.

    flush        logs whose flush interval has passed, and sealed segments
    checkpoints  recovery points, log start offsets and high watermarks, written together
    retention    deletes segments that are too old or too many; waits if the clock jumped forward
    deletion     deletes renamed files whose delay has passed
    compaction   cleans one log after the other in the worker process, and swaps the segments here
    producers    expires producer ids that were not used for long
    repair       repairs logs that are in doubt because file descriptors ran out

Blocking calls run on the threads of the disk executor, separately for each log directory.

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

log = logging.getLogger("kafka.log")

_STOP_POLL_INTERVAL_S = 0.05
#: Smaller clock jumps are frequent corrections and are not reported.
CLOCK_JUMP_MIN_MS = 60_000


class LogMaintenanceSettings(Protocol):
    """The current values of the settings for log maintenance."""

    @property
    def cleaner(self) -> CleanerSettings: ...

    @property
    def background_threads(self) -> int: ...


class LogMaintenance:
    """The maintenance jobs for the logs of one broker."""

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
            # An operator can correct a wrong clock before new records are deleted as too old.
            log.warning(
                "System clock jumped forward by %d s; skipping this retention check",
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
        """Clean all logs that are dirty enough, one after the other."""
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
            log.info("Log cleaning for %s aborted", compaction.partition)
        except CorruptMessage as corruption:
            log.error(
                "Log cleaning for %s failed. Marking its partition as uncleanable: %s",
                compaction.partition,
                corruption,
            )
        except (KafkaStorageError, BrokenExecutor) as error:
            log.error("Log cleaning for %s failed: %s", compaction.partition, error)

    async def abort_and_pause_cleaning(self, partition: TopicPartition) -> None:
        """Stop compaction and retention of a partition until ``resume_cleaning``.

        A partition that is deleted in the meantime needs no ``resume_cleaning``.  Neither does the
        caller that is cancelled while it waits here.
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
        """Rename the directories of deleted or replaced logs before their files are deleted."""
        await self._disk_executor.execute_all(
            self._log_manager.deletion_tasks(now_ms=self._now_ms())
        )

    async def execute(self, task: DiskTask) -> None:
        await self._disk_executor.execute(task)


def compact_in_worker(task: CleaningTask) -> CleaningResult:
    """Clean one log.  This runs in the worker process.

    Niceness alone hardly helps clients that wait for small responses: a process that wakes up does
    not preempt a nice process, but waits for the rest of its time slice of some milliseconds.
    Therefore the cleaner also yields the CPU.
    """
    throttler = CleanerThrottler(
        should_abort=is_interrupted,
        clock=time.monotonic,
        sleep=time.sleep,
        yield_cpu=os.sched_yield,
    )
    return clean(task, throttler)
