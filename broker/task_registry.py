"""The broker's tasks: each has a name, is watched, and ends with the broker.

A job that comes round again and fails is tried again when it is next due: its failure is logged
with its traceback, once for each time.  What else fails is logged too, and is over.

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

log = logging.getLogger(__name__)

Result = TypeVar("Result")

#: However short the interval, the loop has other things to do as well.
MIN_INTERVAL_S = 0.1


class TaskRegistry:
    """Starts tasks and keeps them until they end."""

    def __init__(self) -> None:
        # The loop itself refers to tasks only weakly.
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(
        self, coroutine: Coroutine[Any, Any, Result], name: str = "task"
    ) -> asyncio.Task[Result]:
        """Run it beside everything else; whoever awaits the task sees how it ends, and so do we."""
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
        """Do ``job`` again and again, with a pause between its end and its next beginning.

        The pause is never shorter than ``SHORTEST_S``.
        """
        self.start(self._run_periodically(interval_s, job, name, initial_delay_s), name)

    async def stop(self) -> None:
        """Cancel what still runs, and wait until it has ended."""
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
                log.exception("%s failed, and will be tried again", name)
            await asyncio.sleep(max(interval_s(), MIN_INTERVAL_S))

    def _on_task_done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("%s failed", task.get_name(), exc_info=error)
