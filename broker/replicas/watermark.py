"""A number that grows, and those who wait until it has grown far enough.

This is what a purgatory is elsewhere: ``acks=all`` waits for the high watermark of a partition, an
acknowledgement that must survive a power cut for its recovery point.

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
from heapq import heapify, heappop, heappush
from itertools import count


class Watermark:
    """Goes back only by ``restart``, when the log was cut; nobody may be waiting by then."""

    __slots__ = ("_numbers", "_targets", "_wakes", "value")

    def __init__(self, value: int = 0) -> None:
        self.value = value
        #: A heap of targets, each with its waiter's number; those who went have left theirs behind.
        self._targets: list[tuple[int, int]] = []
        #: By their numbers, those who wait.
        self._wakes: dict[int, asyncio.Future[None]] = {}
        self._numbers = count()

    @property
    def is_awaited(self) -> bool:
        return bool(self._wakes)

    def advance(self, value: int) -> None:
        assert value >= self.value, (self.value, value)
        self.value = value
        targets = self._targets
        while targets and targets[0][0] <= value:
            wake = self._wakes.pop(heappop(targets)[1], None)
            if wake is not None and not wake.done():
                wake.set_result(None)

    def restart(self, value: int) -> None:
        assert not self.is_awaited, self._targets
        self.value = value

    def abandon(self, failure: Exception) -> None:
        """It will not grow any more, as far as those are concerned who wait for it now."""
        wakes, self._wakes, self._targets = self._wakes, {}, []
        for wake in wakes.values():
            if not wake.done():
                wake.set_exception(failure)

    async def wait_for(self, target: int, *, timeout_s: float) -> bool:
        """True once ``value`` has reached ``target``; False if the time ran out first.

        Raises what it was abandoned for.
        """
        if self.value >= target:
            return True
        number, wake = next(self._numbers), asyncio.get_running_loop().create_future()
        self._wakes[number] = wake
        heappush(self._targets, (target, number))
        try:
            async with asyncio.timeout(timeout_s):
                await wake
        except TimeoutError:
            return False
        finally:
            if self._wakes.pop(number, None) is not None:
                self._forget_targets()
        return True

    def _forget_targets(self) -> None:
        """Those of waiters who went, as soon as they are the most."""
        if len(self._targets) > 2 * len(self._wakes):
            self._targets = [each for each in self._targets if each[1] in self._wakes]
            heapify(self._targets)
