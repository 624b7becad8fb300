"""Who waits for which topics to change.

Each says what must have come about; that is looked at whenever one of their topics has changed, so
that they also notice what lasts for a moment only.

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class _Waiter:
    is_reached: Callable[[], bool]
    wake: asyncio.Future[None]


class TopicWaiting:
    """Costs nothing while nobody waits."""

    def __init__(self) -> None:
        self._waiters: defaultdict[str, set[_Waiter]] = defaultdict(set)

    def changed(self, topics: Iterable[str]) -> None:
        if not self._waiters:
            return
        concerned = {
            waiter for topic in topics if topic in self._waiters for waiter in self._waiters[topic]
        }
        for waiter in concerned:
            if not waiter.wake.done() and waiter.is_reached():
                waiter.wake.set_result(None)

    async def wait_until(
        self, is_reached: Callable[[], bool], topics: Iterable[str], *, timeout_s: float
    ) -> bool:
        """False if the time ran out first; without any time it is looked at once."""
        if is_reached():
            return True
        watched = frozenset(topics)
        waiter = _Waiter(is_reached, asyncio.get_running_loop().create_future())
        for topic in watched:
            self._waiters[topic].add(waiter)
        try:
            async with asyncio.timeout(timeout_s):
                await waiter.wake
        except TimeoutError:
            return False
        finally:
            self._forget(waiter, watched)
        return True

    def _forget(self, waiter: _Waiter, topics: Iterable[str]) -> None:
        for topic in topics:
            self._waiters[topic].discard(waiter)
            if not self._waiters[topic]:
                del self._waiters[topic]
