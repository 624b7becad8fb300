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
from odradek.storage.manager.disk_work import DiskWork

Returned = TypeVar("Returned")

#: A guess: more would only queue up in the disk.
_SIDE_BY_SIDE = 8


class Disk:
    """As many threads as ``num.io.threads`` says, for each directory; started when needed."""

    def __init__(self, threads: int) -> None:
        new_pool = partial(ThreadPoolExecutor, threads, thread_name_prefix="disk")
        self._threads = new_pool()
        self._threads_of: defaultdict[LogDirectory, ThreadPoolExecutor] = defaultdict(new_pool)
        #: What changes a log directory's names or checkpoints goes one after the other.
        self._turns: defaultdict[LogDirectory, asyncio.Lock] = defaultdict(asyncio.Lock)

    def run(self, call: Callable[..., Returned], *arguments: object) -> asyncio.Future[Returned]:
        return asyncio.get_running_loop().run_in_executor(self._threads, call, *arguments)

    def run_in(
        self, directory: LogDirectory, call: Callable[..., Returned], *arguments: object
    ) -> asyncio.Future[Returned]:
        """What may sleep for as long as that directory's disk hangs."""
        threads = self._threads_of[directory]
        return asyncio.get_running_loop().run_in_executor(threads, call, *arguments)

    async def carry_out(self, work: DiskWork) -> None:
        """To its end even if cancelled: a thread cannot be stopped, and its work must be ended."""
        if work.is_exclusive:
            async with self._turns[work.directory]:
                await self._carry_out(work)
        else:
            await self._carry_out(work)

    async def _carry_out(self, work: DiskWork) -> None:
        with work:
            running = self.run_in(work.directory, work.run)
            try:
                await asyncio.shield(running)
            except asyncio.CancelledError:
                await _wait_on(running)
                raise

    async def carry_out_all(self, works: Iterable[DiskWork], *, at_once: int = 1) -> None:
        """So many side by side; one that fails has said so to its log directory."""
        left = iter(works)

        async def some() -> None:
            for work in left:
                with suppress(KafkaStorageError):
                    await self.carry_out(work)

        await asyncio.gather(*(some() for _ in range(at_once)))

    def close(self) -> None:
        """Wait for what still runs."""
        for threads in (self._threads, *self._threads_of.values()):
            threads.shutdown()


def side_by_side(tasks: Sequence[Callable[[], Returned]]) -> Iterator[Returned]:
    """For whoever sleeps already: all of them, each on a thread, and what they return in order."""
    with ThreadPoolExecutor(_SIDE_BY_SIDE, thread_name_prefix="disk") as threads:
        yield from threads.map(lambda task: task(), tasks)


async def _wait_on(running: asyncio.Future[None]) -> None:
    """Until it is done, however often this is cancelled; raises what it raised."""
    while not running.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait([running])
    running.result()
