"""Worker processes that recover logs after an unclean stop, before anybody is served.

A process takes a tenth of a second to start, so that a few logs are recovered without.  Whoever is
told to stop meanwhile gives up: the log at hand is finished, the others are left to the next start.

A broker that is killed takes them with it: the next one recovers the same logs, and must not find
them cut while it serves them.

Owner: whoever loads the logs; ``give_up`` is for any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from multiprocessing import get_context
from threading import Event
from typing import TypeVar

from odradek.broker.worker import belong_to_broker

Answer = TypeVar("Answer")

_FEWEST = 4
_LOOK_UP_S = 0.1


class GivenUp(Exception):
    """Not all logs were recovered, nor will they be."""


class RecoveryWorkers:
    """As many as ``num.recovery.threads.per.data.dir`` says, for each directory."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._is_given_up = Event()

    def give_up(self) -> None:
        """Let whoever loads the logs end soon, with GivenUp."""
        self._is_given_up.set()

    def __call__(self, tasks: Sequence[Callable[[], Answer]], /) -> Iterator[Answer]:
        if len(tasks) < _FEWEST or self._count == 1:
            for task in tasks:
                self._check()
                yield task()
            return
        with ProcessPoolExecutor(
            min(self._count, len(tasks)),
            mp_context=get_context("spawn"),
            initializer=belong_to_broker,
        ) as workers:
            yield from self._side_by_side(workers, tasks)

    def _side_by_side(
        self, workers: ProcessPoolExecutor, tasks: Sequence[Callable[[], Answer]]
    ) -> Iterator[Answer]:
        left = {workers.submit(task) for task in tasks}
        try:
            while left:
                self._check()
                done, left = wait(left, timeout=_LOOK_UP_S, return_when=FIRST_COMPLETED)
                for each in done:
                    yield each.result()
        finally:
            for each in left:
                each.cancel()

    def _check(self) -> None:
        if self._is_given_up.is_set():
            raise GivenUp
