"""Who waits at a partition, to look again whenever something there has stirred.

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Protocol


class FetchWatcher(Protocol):
    """Stands at a partition until it goes by itself, which may be as soon as it is woken."""

    @property
    def is_waiting(self) -> bool:
        """Not if it only stands there for whoever will."""

    def notify(self) -> None:
        """To look again, but not within this call: an append may wake very many."""


class WatcherEvent(asyncio.Event):
    """For a task that waits."""

    is_waiting = True
    notify = asyncio.Event.set

    async def wait_next(self) -> None:
        """Until something has stirred since the last time."""
        await self.wait()
        self.clear()


def register(watcher: FetchWatcher, watcher_sets: Iterable[set[FetchWatcher]]) -> None:
    for watchers in watcher_sets:
        watchers.add(watcher)


def unregister(watcher: FetchWatcher, watcher_sets: Iterable[set[FetchWatcher]]) -> None:
    for watchers in watcher_sets:
        watchers.discard(watcher)


def notify_all(watchers: set[FetchWatcher]) -> None:
    for watcher in tuple(watchers):
        watcher.notify()
