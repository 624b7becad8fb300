"""Worker processes that recover logs after an unclean shutdown, before the broker serves requests.

A process takes a tenth of a second to start, so a few logs are recovered without one.  A shutdown
during recovery aborts it: the current log is completed, the others are left to the next start.

If the broker is killed, the worker processes exit too: the next broker recovers the same logs and
must not have them truncated while it serves them.

Owner: the thread that loads the logs; ``abort`` may be called from any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from multiprocessing import get_context
from threading import Event
from typing import TypeVar

from odradek.broker.worker_process import bind_lifetime_to_broker

Result = TypeVar("Result")

_PARALLEL_TASKS_MIN = 4
_POLL_INTERVAL_S = 0.1


class RecoveryAborted(Exception):
    """Recovery was aborted before all logs were recovered."""


class RecoveryWorkers:
    """``num.recovery.threads.per.data.dir`` processes for each directory."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._aborted = Event()

    def abort(self) -> None:
        """Make the loading of logs end soon with RecoveryAborted."""
        self._aborted.set()

    def __call__(self, tasks: Sequence[Callable[[], Result]], /) -> Iterator[Result]:
        if len(tasks) < _PARALLEL_TASKS_MIN or self._count == 1:
            for task in tasks:
                self._check_aborted()
                yield task()
            return
        with ProcessPoolExecutor(
            min(self._count, len(tasks)),
            mp_context=get_context("spawn"),
            initializer=bind_lifetime_to_broker,
        ) as workers:
            yield from self._run_in_parallel(workers, tasks)

    def _run_in_parallel(
        self, workers: ProcessPoolExecutor, tasks: Sequence[Callable[[], Result]]
    ) -> Iterator[Result]:
        pending = {workers.submit(task) for task in tasks}
        try:
            while pending:
                self._check_aborted()
                done, pending = wait(pending, timeout=_POLL_INTERVAL_S, return_when=FIRST_COMPLETED)
                for future in done:
                    yield future.result()
        finally:
            for future in pending:
                future.cancel()

    def _check_aborted(self) -> None:
        if self._aborted.is_set():
            raise RecoveryAborted
