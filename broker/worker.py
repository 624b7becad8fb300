"""A process beside the broker: for what computes, as a thread would take the loop's time.

It is started when it is first needed, gets arguments that can be pickled, and returns what can.
One thing at a time; ``interrupt`` asks what runs now to stop, which whoever computes has to look
for by ``is_interrupted``.  If the process dies, what it was doing fails with BrokenExecutor, and
the next call starts another.  If the broker dies, so does the process, whatever it is doing:
another broker may be about to use the same files.  Either way it is the broker's end of a pipe that
tells it.

There are two, each started when it is needed: one compacts, the other reads the records of large
batches (record_reader.py).

Owner: the event loop; ``is_interrupted`` is for the worker process.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from ctypes import c_bool
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.sharedctypes import RawValue
from threading import Thread
from typing import TypeVar

Returned = TypeVar("Returned")

#: On one core, a process that gives way gets a quarter of what the broker gets.
NICENESS = 5

# A forked child would have the broker's sockets and locks.
_PROCESSES = get_context("spawn")

# A byte of shared memory.  An Event has a lock, which a process that is killed may be holding.
_interrupted: c_bool = c_bool(False)


class Worker:
    """Runs one call after the other."""

    def __init__(self, *, gives_way: bool = False) -> None:
        """A process that gives way runs when broker and clients leave it a core."""
        self._gives_way = gives_way
        self._process: ProcessPoolExecutor | None = None
        self._leash: Connection | None = None
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
        self.interrupt()
        self._end()

    def kill(self) -> None:
        """What runs now is given up, wherever it is: for what leaves nothing half done."""
        if self._leash is not None:
            self._leash.close()
        self._end()

    def _end(self) -> None:
        if self._process is not None and self._leash is not None:
            self._process.shutdown(cancel_futures=True)
            self._leash.close()
            self._process = self._leash = None

    def _start(self) -> None:
        self._interrupted = RawValue(c_bool, False)
        held, self._leash = _PROCESSES.Pipe(duplex=False)
        self._process = ProcessPoolExecutor(
            1,
            mp_context=_PROCESSES,
            initializer=_begin,
            initargs=(self._interrupted, self._gives_way, held),
        )


def _begin(interrupted: c_bool, gives_way: bool, held: Connection) -> None:
    """In the worker process, before anything else."""
    global _interrupted
    _interrupted = interrupted
    if gives_way:
        give_way()
    Thread(target=_end_with_broker, args=(held,), daemon=True).start()
    # A terminal's Ctrl-C reaches it too; it is the broker that says when it ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def give_way() -> None:
    """Whatever wakes up takes the core at once from a process that is merely for idle times.

    From a nice one it does not, but waits for its slice of some milliseconds to end: whoever gets
    small answers wakes up often, so that niceness hardly helps.  Where there is a single core,
    which the broker may keep busy for ever, a process for idle times would never run.
    """
    if sys.platform == "linux" and len(os.sched_getaffinity(0)) > 1:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    else:
        os.nice(NICENESS)


def _end_with_broker(held: Connection) -> None:
    """Nothing is ever sent: all that can come is the end."""
    held.poll(None)
    os._exit(1)


def is_interrupted() -> bool:
    """Whether what runs in this process should stop."""
    return _interrupted.value
