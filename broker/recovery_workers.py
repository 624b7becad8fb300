"""Worker processes that recover logs after an unclean stop, before anybody is served.

A process takes a tenth of a second to start, so that a few logs are recovered without.

Owner: whoever loads the logs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from typing import TypeVar

Answer = TypeVar("Answer")

_FEWEST = 4


class RecoveryWorkers:
    """As many as ``num.recovery.threads.per.data.dir`` says, for each directory."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __call__(self, tasks: Sequence[Callable[[], Answer]], /) -> Iterator[Answer]:
        if len(tasks) < _FEWEST or self._count == 1:
            for task in tasks:
                yield task()
            return
        with ProcessPoolExecutor(
            min(self._count, len(tasks)), mp_context=get_context("spawn")
        ) as workers:
            for done in as_completed([workers.submit(task) for task in tasks]):
                yield done.result()
