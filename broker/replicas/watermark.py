"""A number that grows, and those who wait until it has grown far enough.

This is what a purgatory is elsewhere: ``acks=all`` waits for the high watermark of a partition, an
acknowledgement that must survive a power cut for its recovery point.

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
from heapq import heappop, heappush
from itertools import count


class Watermark:
    """Goes back only by ``restart``, when the log was cut; nobody may be waiting by then."""

    __slots__ = ("_order", "_waiting", "value")

    def __init__(self, value: int = 0) -> None:
        self.value = value
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._order = count()

    @property
    def is_awaited(self) -> bool:
        return any(not wake.done() for _, _, wake in self._waiting)

    def advance(self, value: int) -> None:
        assert value >= self.value, (self.value, value)
        self.value = value
        waiting = self._waiting
        while waiting and waiting[0][0] <= value:
            wake = heappop(waiting)[2]
            if not wake.done():
                wake.set_result(None)

    def restart(self, value: int) -> None:
        assert not self.is_awaited, self._waiting
        self.value = value

    def abandon(self, failure: Exception) -> None:
        """It will not grow any more, as far as those are concerned who wait for it now."""
        waiting, self._waiting = self._waiting, []
        for _, _, wake in waiting:
            if not wake.done():
                wake.set_exception(failure)

    async def wait_for(self, target: int, *, timeout_s: float) -> bool:
        """True once ``value`` has reached ``target``; False if the time ran out first.

        Raises what it was abandoned for.
        """
        if self.value >= target:
            return True
        wake = asyncio.get_running_loop().create_future()
        heappush(self._waiting, (target, next(self._order), wake))
        try:
            async with asyncio.timeout(timeout_s):
                await wake
        except TimeoutError:
            return False
        finally:
            wake.cancel()
        return True
