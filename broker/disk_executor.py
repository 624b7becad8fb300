"""Threads for system calls that block: flush, delete and the commits of SQLite.

Each log directory has a separate thread pool, and a shared pool serves everything else.  A
disk that hangs blocks only the threads of its own directory.

Computations do not belong here, because a computing thread takes the interpreter lock from the
event loop for milliseconds at a time: see worker_process.py.

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TypeVar

from odradek.protocol.errors import KafkaStorageError
from odradek.storage.manager.directory import LogDirectory
from odradek.storage.manager.disk_task import DiskTask

Result = TypeVar("Result")

#: An estimate: more threads would only lengthen the disk's queue.
_PARALLEL_THREADS = 8


class DiskExecutor:
    """``num.io.threads`` threads for each directory, started when needed."""

    def __init__(self, threads: int) -> None:
        new_pool = partial(ThreadPoolExecutor, threads, thread_name_prefix="disk")
        self._shared_pool = new_pool()
        self._directory_pools: defaultdict[LogDirectory, ThreadPoolExecutor] = defaultdict(new_pool)
        #: Tasks that change file names or checkpoints of a log directory run one after the other.
        self._directory_locks: defaultdict[LogDirectory, asyncio.Lock] = defaultdict(asyncio.Lock)

    def run(self, function: Callable[..., Result], *arguments: object) -> asyncio.Future[Result]:
        return asyncio.get_running_loop().run_in_executor(self._shared_pool, function, *arguments)

    def run_in(
        self, directory: LogDirectory, function: Callable[..., Result], *arguments: object
    ) -> asyncio.Future[Result]:
        """Run a function that may block for as long as the disk of this directory hangs."""
        pool = self._directory_pools[directory]
        return asyncio.get_running_loop().run_in_executor(pool, function, *arguments)

    async def execute(self, task: DiskTask) -> None:
        """Complete the task even if the caller is cancelled: a running thread cannot be stopped."""
        if task.is_exclusive:
            async with self._directory_locks[task.directory]:
                await self._execute(task)
        else:
            await self._execute(task)

    async def _execute(self, task: DiskTask) -> None:
        with task:
            running = self.run_in(task.directory, task.run)
            try:
                await asyncio.shield(running)
            except asyncio.CancelledError:
                await _wait_until_done(running)
                raise

    async def execute_all(self, tasks: Iterable[DiskTask], *, parallelism: int = 1) -> None:
        """Run up to ``parallelism`` tasks at once.  A failed task has notified its directory."""
        remaining = iter(tasks)

        async def run_remaining() -> None:
            for task in remaining:
                with suppress(KafkaStorageError):
                    await self.execute(task)

        await asyncio.gather(*(run_remaining() for _ in range(parallelism)))

    def close(self) -> None:
        """Wait until the running functions have ended."""
        for pool in (self._shared_pool, *self._directory_pools.values()):
            pool.shutdown()


def run_in_parallel(tasks: Sequence[Callable[[], Result]]) -> Iterator[Result]:
    """Run each task on a thread and return the results in order.  This blocks the caller."""
    with ThreadPoolExecutor(_PARALLEL_THREADS, thread_name_prefix="disk") as pool:
        yield from pool.map(lambda task: task(), tasks)


async def _wait_until_done(future: asyncio.Future[None]) -> None:
    """Wait until the future is done even if cancelled repeatedly; raise the future's exception."""
    while not future.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait([future])
    future.result()
