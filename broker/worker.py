"""A process beside the broker: for what computes, as a thread would take the loop's time.

It is started when it is first needed, gets arguments that can be pickled, and returns what can.
One thing at a time; ``interrupt`` asks what runs now to stop, which whoever computes has to look
for by ``is_interrupted``.  If the process dies, what it was doing fails with BrokenExecutor, and
the next call starts another.  If the broker dies, so does the process, whatever it is doing:
another broker may be about to use the same files.

There are two, each started when it is needed: one compacts, the other reads the records of large
batches (record_reader.py).

Owner: the event loop; ``is_interrupted`` is for the worker process.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from ctypes import c_bool
from multiprocessing import get_context, parent_process
from multiprocessing.sharedctypes import RawValue
from threading import Thread
from typing import TypeVar

Returned = TypeVar("Returned")

# A forked child would have the broker's sockets and locks.
_PROCESSES = get_context("spawn")

# A byte of shared memory.  An Event has a lock, which a process that is killed may be holding.
_interrupted: c_bool = c_bool(False)


class Worker:
    """Runs one call after the other."""

    def __init__(self, *, niceness: int = 0) -> None:
        """By its niceness the process gives way to the broker, where cores are few."""
        self._niceness = niceness
        self._process: ProcessPoolExecutor | None = None
        self._interrupted = c_bool(False)
        self._turn = asyncio.Lock()

    async def run(self, call: Callable[..., Returned], *arguments: object) -> Returned:
        async with self._turn:
            if self._process is None:
                self._start()
            assert self._process is not None
            self._interrupted.value = False
            loop = asyncio.get_running_loop()
            try:
                return await loop.run_in_executor(self._process, call, *arguments)
            except BrokenExecutor:
                self.close()
                raise
            except asyncio.CancelledError:
                self.interrupt()
                raise

    def interrupt(self) -> None:
        self._interrupted.value = True

    def close(self) -> None:
        """What runs now is asked to stop, and waited for."""
        if self._process is not None:
            self.interrupt()
            self._process.shutdown(cancel_futures=True)
            self._process = None

    def _start(self) -> None:
        self._interrupted = RawValue(c_bool, False)
        self._process = ProcessPoolExecutor(
            1,
            mp_context=_PROCESSES,
            initializer=_begin,
            initargs=(self._interrupted, self._niceness),
        )


def _begin(interrupted: c_bool, niceness: int) -> None:
    """In the worker process, before anything else."""
    global _interrupted
    _interrupted = interrupted
    os.nice(niceness)
    Thread(target=_end_with_broker, daemon=True).start()
    # A terminal's Ctrl-C reaches it too; it is the broker that says when it ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _end_with_broker() -> None:
    broker = parent_process()
    assert broker is not None
    broker.join()
    os._exit(1)


def is_interrupted() -> bool:
    """Whether what runs in this process should stop."""
    return _interrupted.value
