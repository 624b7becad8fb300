"""The threads, for calls that sleep in the kernel: syncing, removing, SQLite's commits.

Each log directory has a pool of its own, beside the one for all else: a disk that hangs takes all
threads there are for it, and nobody else's.

A thread that computes would take the interpreter from the loop for milliseconds at a time, so
nothing that computes belongs here: see worker.py.

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

#: A guess: more would only queue up in the disk.
_PARALLEL_THREADS = 8


class DiskExecutor:
    """As many threads as ``num.io.threads`` says, for each directory; started when needed."""

    def __init__(self, threads: int) -> None:
        new_pool = partial(ThreadPoolExecutor, threads, thread_name_prefix="disk")
        self._shared_pool = new_pool()
        self._directory_pools: defaultdict[LogDirectory, ThreadPoolExecutor] = defaultdict(new_pool)
        #: What changes a log directory's names or checkpoints goes one after the other.
        self._directory_locks: defaultdict[LogDirectory, asyncio.Lock] = defaultdict(asyncio.Lock)

    def run(self, function: Callable[..., Result], *arguments: object) -> asyncio.Future[Result]:
        return asyncio.get_running_loop().run_in_executor(self._shared_pool, function, *arguments)

    def run_in(
        self, directory: LogDirectory, function: Callable[..., Result], *arguments: object
    ) -> asyncio.Future[Result]:
        """What may sleep for as long as that directory's disk hangs."""
        pool = self._directory_pools[directory]
        return asyncio.get_running_loop().run_in_executor(pool, function, *arguments)

    async def execute(self, task: DiskTask) -> None:
        """To its end even if cancelled: a thread cannot be stopped, and its work must be ended."""
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
        """So many side by side; one that fails has said so to its log directory."""
        remaining = iter(tasks)

        async def run_remaining() -> None:
            for task in remaining:
                with suppress(KafkaStorageError):
                    await self.execute(task)

        await asyncio.gather(*(run_remaining() for _ in range(parallelism)))

    def close(self) -> None:
        """Wait for what still runs."""
        for pool in (self._shared_pool, *self._directory_pools.values()):
            pool.shutdown()


def run_in_parallel(tasks: Sequence[Callable[[], Result]]) -> Iterator[Result]:
    """For whoever sleeps already: all of them, each on a thread, and what they return in order."""
    with ThreadPoolExecutor(_PARALLEL_THREADS, thread_name_prefix="disk") as pool:
        yield from pool.map(lambda task: task(), tasks)


async def _wait_until_done(future: asyncio.Future[None]) -> None:
    """Until it is done, however often this is cancelled; raises what it raised."""
    while not future.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait([future])
    future.result()
