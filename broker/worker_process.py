"""A process beside the broker: for what computes, as a thread would take the loop's time.

It is started when it is first needed, gets arguments that can be pickled, and returns what can.
One thing at a time; ``interrupt`` asks what runs now to stop, which whoever computes has to look
for by ``is_interrupted``.  If the process dies, what it was doing fails with BrokenExecutor, and
the next call starts another.  If the broker dies, so does the process, whatever it is doing:
another broker may be about to use the same files.

There are two, each started when it is needed: one compacts, the other reads the records of large
batches (record_reader.py).

Owner: the event loop; ``is_interrupted`` and ``belong_to_broker`` are for the worker process.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, ThreadPoolExecutor
from contextlib import suppress
from ctypes import c_bool
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from multiprocessing.sharedctypes import RawValue
from threading import Thread
from typing import Any, TypeVar

Returned = TypeVar("Returned")

# A forked child would have the broker's sockets and locks.
_PROCESSES = get_context("spawn")

# A byte of shared memory.  An Event has a lock, which a process that is killed may be holding.
_interrupted: c_bool = c_bool(False)


class _Failure:
    """What was raised instead of an answer."""

    def __init__(self, raised: Exception) -> None:
        self.raised = raised


class _Running:
    """One process, and the thread that waits for its answers: no pool can be killed."""

    def __init__(self, niceness: int) -> None:
        self.interrupted: c_bool = RawValue(c_bool, False)
        self._calls, theirs = _PROCESSES.Pipe()
        self._process: BaseProcess = _PROCESSES.Process(
            target=_serve, args=(theirs, self.interrupted, niceness), daemon=True
        )
        self._process.start()
        theirs.close()
        self.thread = ThreadPoolExecutor(1, thread_name_prefix="worker")

    def is_alive(self) -> bool:
        return self._process.is_alive()

    def ask(self, call: Callable[..., Any], arguments: tuple[object, ...]) -> Any:
        """On the thread.  Who was cancelled leaves an answer behind, which is waited for first."""
        self.interrupted.value = False
        try:
            self._calls.send((call, arguments))
            answer = self._calls.recv()
        except (EOFError, OSError) as death:
            raise BrokenExecutor("it is gone") from death
        if isinstance(answer, _Failure):
            raise answer.raised
        return answer

    def kill(self) -> None:
        self._process.kill()
        self._process.join()
        self.thread.shutdown()
        self._calls.close()


class Worker:
    """Runs one call after the other."""

    def __init__(self, *, niceness: int = 0) -> None:
        """By its niceness the process gives way to the broker, where cores are few."""
        self._niceness = niceness
        self._running: _Running | None = None
        self._turn = asyncio.Lock()

    async def run(self, call: Callable[..., Returned], *arguments: object) -> Returned:
        async with self._turn:
            if self._running is None or not self._running.is_alive():
                self.close()
                self._running = _Running(self._niceness)
            running, loop = self._running, asyncio.get_running_loop()
            try:
                return await loop.run_in_executor(running.thread, running.ask, call, arguments)
            except BrokenExecutor:
                self.close()
                raise
            except asyncio.CancelledError:
                self.interrupt()
                raise

    def interrupt(self) -> None:
        if self._running is not None:
            self._running.interrupted.value = True

    def close(self) -> None:
        """What runs now is given up, wherever it is: a crash would do no less."""
        if self._running is not None:
            self._running.kill()
            self._running = None


def _serve(calls: Connection, interrupted: c_bool, niceness: int) -> None:
    """The worker process."""
    global _interrupted
    _interrupted = interrupted
    os.nice(niceness)
    belong_to_broker()
    with suppress(EOFError, ConnectionError):
        while True:
            call, arguments = calls.recv()
            try:
                answer = call(*arguments)
            except Exception as failure:  # noqa: BLE001 - it is raised by whoever asked
                answer = _Failure(failure)
            calls.send(answer)


def belong_to_broker() -> None:
    """For any process of the broker's, as its first step: it ends with the broker, not before."""
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
