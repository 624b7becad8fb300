"""A process beside the broker for long computations, which on a thread would delay the event loop.

The process starts when it is first needed.  Arguments and results must be picklable.  It runs one
call at a time.  ``interrupt`` requests that the current call stops; the function has to check
``is_interrupted``.  If the process dies, the current call fails with BrokenExecutor, and the next
call starts a new process.  If the broker dies, the process exits at once, because another broker
may be about to use the same files.

There are two of them, each started when needed: one compacts logs, the other reads the records of
large batches (record_inspector.py).

Owner: the event loop; ``is_interrupted`` and ``bind_lifetime_to_broker`` are for the worker
process.
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

# A forked child would inherit the broker's sockets and locks.
_SPAWN_CONTEXT = get_context("spawn")

# A byte of shared memory.  An Event has a lock, which a killed process may still hold.
_interrupted: c_bool = c_bool(False)


class _RemoteError:
    """An exception that the worker process sends instead of a result."""

    def __init__(self, error: Exception) -> None:
        self.error = error


class _ProcessHandle:
    """One process and the thread that waits for its results; a process pool cannot be killed."""

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
        """Runs on the thread.  The result of a cancelled call is received before the next call."""
        self.interrupted.value = False
        try:
            self._pipe.send((function, arguments))
            result = self._pipe.recv()
        except (EOFError, OSError) as error:
            raise BrokenExecutor("the worker process exited") from error
        if isinstance(result, _RemoteError):
            raise result.error
        return result

    def kill(self) -> None:
        self._process.kill()
        self._process.join()
        self.thread.shutdown()
        self._pipe.close()


class WorkerProcess:
    """Runs one call at a time in a process."""

    def __init__(self, *, niceness: int = 0) -> None:
        """A positive niceness makes the process yield to the broker if there are few cores."""
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
        """Kill the process and abandon its current call; that is no worse than a crash."""
        if self._process is not None:
            self._process.kill()
            self._process = None


def _worker_main(pipe: Connection, interrupted: c_bool, niceness: int) -> None:
    """The main function of the worker process."""
    global _interrupted
    _interrupted = interrupted
    os.nice(niceness)
    bind_lifetime_to_broker()
    with suppress(EOFError, ConnectionError):
        while True:
            function, arguments = pipe.recv()
            try:
                result = function(*arguments)
            except Exception as error:  # noqa: BLE001 - the caller of ``run`` gets it
                result = _RemoteError(error)
            pipe.send(result)


def bind_lifetime_to_broker() -> None:
    """The first call in every child process: the process ends with the broker, and not before."""
    Thread(target=_exit_when_broker_exits, daemon=True).start()
    # Ctrl-C in a terminal reaches this process too, but the broker decides when it ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _exit_when_broker_exits() -> None:
    broker = parent_process()
    assert broker is not None
    broker.join()
    os._exit(1)


def is_interrupted() -> bool:
    """Whether the current call in this process should stop."""
    return _interrupted.value
