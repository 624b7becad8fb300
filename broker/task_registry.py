"""The broker's background tasks: each has a name, and all end with the broker.

A scheduled job that fails runs again at its next interval; each failure is logged with its
traceback.  The failure of any other task is logged too, and the task is not repeated.
Kafka: KafkaScheduler.

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

log = logging.getLogger("kafka.server")

Result = TypeVar("Result")

#: The shortest interval of a scheduled job: the event loop has other work as well.
MIN_INTERVAL_S = 0.1


class TaskRegistry:
    """Starts tasks and references them until they end."""

    def __init__(self) -> None:
        # The event loop references tasks only weakly.
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(
        self, coroutine: Coroutine[Any, Any, Result], name: str = "task"
    ) -> asyncio.Task[Result]:
        """Run the coroutine as a task.  A failure is logged, and raised if the task is awaited."""
        task = asyncio.create_task(coroutine, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._on_task_done)
        return task

    def schedule(
        self,
        interval_s: Callable[[], float],
        job: Callable[[], Awaitable[None] | None],
        *,
        name: str,
        initial_delay_s: float | None = None,
    ) -> None:
        """Repeat ``job`` with a pause between its end and its next start.

        The pause is never shorter than ``MIN_INTERVAL_S``.
        """
        self.start(self._run_periodically(interval_s, job, name, initial_delay_s), name)

    async def stop(self) -> None:
        """Cancel all running tasks and wait until they have ended."""
        while tasks := list(self._tasks):
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            self._tasks.difference_update(tasks)

    async def _run_periodically(
        self,
        interval_s: Callable[[], float],
        job: Callable[[], Awaitable[None] | None],
        name: str,
        initial_delay_s: float | None,
    ) -> None:
        first_s = interval_s() if initial_delay_s is None else initial_delay_s
        await asyncio.sleep(max(first_s, 0))
        while True:
            try:
                awaitable = job()
                if awaitable is not None:
                    await awaitable
            except Exception:
                log.exception("Uncaught exception in scheduled task '%s'", name)
            await asyncio.sleep(max(interval_s(), MIN_INTERVAL_S))

    def _on_task_done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("Task '%s' failed", task.get_name(), exc_info=error)
