"""Callbacks that a partition runs when its log end offset, high watermark or role changes.

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Protocol


class FetchWatcher(Protocol):
    """Registered at a partition until it unregisters itself, possibly when it is notified."""

    @property
    def is_waiting(self) -> bool:
        """Whether a request is waiting; False for a session that is registered between requests."""

    def notify(self) -> None:
        """Schedule another check, but not within this call: an append may notify many watchers."""


class WatcherEvent(asyncio.Event):
    """A watcher for a waiting task."""

    is_waiting = True
    notify = asyncio.Event.set

    async def wait_next(self) -> None:
        """Wait until the partition has changed since the last call."""
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
