"""Who waits at a partition, to look again whenever something there has stirred.

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Protocol


class Waiter(Protocol):
    """Stands at a partition until it goes by itself, which may be as soon as it is woken."""

    @property
    def is_waiting(self) -> bool:
        """Not if it only stands there for whoever will."""

    def wake(self) -> None:
        """To look again, but not within this call: an append may wake very many."""


class Stir(asyncio.Event):
    """For a task that waits."""

    is_waiting = True
    wake = asyncio.Event.set

    async def next(self) -> None:
        """Until something has stirred since the last time."""
        await self.wait()
        self.clear()


def stand(waiter: Waiter, places: Iterable[set[Waiter]]) -> None:
    for waiting in places:
        waiting.add(waiter)


def leave(waiter: Waiter, places: Iterable[set[Waiter]]) -> None:
    for waiting in places:
        waiting.discard(waiter)


def wake_all(waiting: set[Waiter]) -> None:
    for each in tuple(waiting):
        each.wake()
