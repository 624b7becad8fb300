"""Waits until a condition on topics is true.

A condition is checked whenever one of its topics changes, so a waiter also notices a state that
lasts only for a moment.

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class _Waiter:
    condition: Callable[[], bool]
    future: asyncio.Future[None]


class TopicWaiters:
    """Costs nothing while there are no waiters."""

    def __init__(self) -> None:
        self._waiters: defaultdict[str, set[_Waiter]] = defaultdict(set)

    def notify(self, topics: Iterable[str]) -> None:
        if not self._waiters:
            return
        candidates = {
            waiter for topic in topics if topic in self._waiters for waiter in self._waiters[topic]
        }
        for waiter in candidates:
            if not waiter.future.done() and waiter.condition():
                waiter.future.set_result(None)

    async def wait_until(
        self, condition: Callable[[], bool], topics: Iterable[str], *, timeout_s: float
    ) -> bool:
        """Return False at the timeout; a timeout of 0 checks the condition once."""
        if condition():
            return True
        watched = frozenset(topics)
        waiter = _Waiter(condition, asyncio.get_running_loop().create_future())
        for topic in watched:
            self._waiters[topic].add(waiter)
        try:
            async with asyncio.timeout(timeout_s):
                await waiter.future
        except TimeoutError:
            return False
        finally:
            self._unregister(waiter, watched)
        return True

    def _unregister(self, waiter: _Waiter, topics: Iterable[str]) -> None:
        for topic in topics:
            self._waiters[topic].discard(waiter)
            if not self._waiters[topic]:
                del self._waiters[topic]
