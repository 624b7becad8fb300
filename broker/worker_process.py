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

Result = TypeVar("Result")

# A forked child would have the broker's sockets and locks.
_SPAWN_CONTEXT = get_context("spawn")

# A byte of shared memory.  An Event has a lock, which a process that is killed may be holding.
_interrupted: c_bool = c_bool(False)


class _RemoteError:
    """What was raised instead of an answer."""

    def __init__(self, error: Exception) -> None:
        self.error = error


class _ProcessHandle:
    """One process, and the thread that waits for its answers: no pool can be killed."""

    def __init__(self, niceness: int) -> None:
        self.interrupted: c_bool = RawValue(c_bool, False)
        self._pipe, child_pipe = _SPAWN_CONTEXT.Pipe()
        self._process: BaseProcess = _SPAWN_CONTEXT.Process(
            target=_worker_main, args=(child_pipe, self.interrupted, niceness), daemon=True
        )
        self._process.start()
        child_pipe.close()
        self.thread = ThreadPoolExecutor(1, thread_name_prefix="worker")

    def is_alive(self) -> bool:
        return self._process.is_alive()

    def call(self, function: Callable[..., Any], arguments: tuple[object, ...]) -> Any:
        """On the thread.  Who was cancelled leaves an answer behind, which is waited for first."""
        self.interrupted.value = False
        try:
            self._pipe.send((function, arguments))
            result = self._pipe.recv()
        except (EOFError, OSError) as error:
            raise BrokenExecutor("it is gone") from error
        if isinstance(result, _RemoteError):
            raise result.error
        return result

    def kill(self) -> None:
        self._process.kill()
        self._process.join()
        self.thread.shutdown()
        self._pipe.close()


class WorkerProcess:
    """Runs one call after the other."""

    def __init__(self, *, niceness: int = 0) -> None:
        """By its niceness the process gives way to the broker, where cores are few."""
        self._niceness = niceness
        self._process: _ProcessHandle | None = None
        self._lock = asyncio.Lock()

    async def run(self, function: Callable[..., Result], *arguments: object) -> Result:
        async with self._lock:
            if self._process is None or not self._process.is_alive():
                self.close()
                self._process = _ProcessHandle(self._niceness)
            process, loop = self._process, asyncio.get_running_loop()
            try:
                return await loop.run_in_executor(process.thread, process.call, function, arguments)
            except BrokenExecutor:
                self.close()
                raise
            except asyncio.CancelledError:
                self.interrupt()
                raise

    def interrupt(self) -> None:
        if self._process is not None:
            self._process.interrupted.value = True

    def close(self) -> None:
        """What runs now is given up, wherever it is: a crash would do no less."""
        if self._process is not None:
            self._process.kill()
            self._process = None


def _worker_main(pipe: Connection, interrupted: c_bool, niceness: int) -> None:
    """The worker process."""
    global _interrupted
    _interrupted = interrupted
    os.nice(niceness)
    bind_lifetime_to_broker()
    with suppress(EOFError, ConnectionError):
        while True:
            function, arguments = pipe.recv()
            try:
                result = function(*arguments)
            except Exception as error:  # noqa: BLE001 - it is raised by whoever asked
                result = _RemoteError(error)
            pipe.send(result)


def bind_lifetime_to_broker() -> None:
    """For any process of the broker's, as its first step: it ends with the broker, not before."""
    Thread(target=_exit_when_broker_exits, daemon=True).start()
    # A terminal's Ctrl-C reaches it too; it is the broker that says when it ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _exit_when_broker_exits() -> None:
    broker = parent_process()
    assert broker is not None
    broker.join()
    os._exit(1)


def is_interrupted() -> bool:
    """Whether what runs in this process should stop."""
    return _interrupted.value
