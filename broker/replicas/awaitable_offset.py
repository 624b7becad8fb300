"""A number that grows, and those who wait until it has grown far enough.

This is what a purgatory is elsewhere: ``acks=all`` waits for the high watermark of a partition, an
acknowledgement that must survive a power cut for its recovery point.

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import count


class Watermark:
    """Goes back only by ``restart``, when the log was cut; nobody may be waiting by then."""

    __slots__ = ("_numbers", "_targets", "_wakes", "value")

    def __init__(self, value: int = 0) -> None:
        self.value = value
        #: A heap of targets, each with its waiter's number; those who went have left theirs behind.
        self._targets: list[tuple[int, int]] = []
        #: By their numbers, those who wait: for None, or why it is not to be.
        self._wakes: dict[int, asyncio.Future[Exception | None]] = {}
        self._numbers = count()

    @property
    def is_awaited(self) -> bool:
        return bool(self._wakes)

    @property
    def waiting(self) -> int:
        """How many do."""
        return len(self._wakes)

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
                wake.set_result(failure)

    def reached(self, target: int, *, timeout_s: float) -> asyncio.Future[Exception | None]:
        """Brings None once ``value`` has come to ``target``.

        Else what it was abandoned for, or TimeoutError.
        """
        loop = asyncio.get_running_loop()
        number, wake = next(self._numbers), loop.create_future()
        if self.value >= target:
            wake.set_result(None)
            return wake
        self._wakes[number] = wake
        heappush(self._targets, (target, number))
        timer = loop.call_later(timeout_s, _be_late, wake)
        wake.add_done_callback(partial(self._gone, number, timer))
        return wake

    async def wait_for(self, target: int, *, timeout_s: float) -> bool:
        """True once ``value`` has reached ``target``; False if the time ran out first.

        Raises what it was abandoned for.
        """
        if self.value >= target:
            return True
        failure = await self.reached(target, timeout_s=timeout_s)
        if failure is not None and not isinstance(failure, TimeoutError):
            raise failure
        return failure is None

    def _gone(self, number: int, timer: asyncio.TimerHandle, _: object) -> None:
        timer.cancel()
        if self._wakes.pop(number, None) is not None:
            self._forget_targets()

    def _forget_targets(self) -> None:
        """Those of waiters who went, as soon as they are the most."""
        if len(self._targets) > 2 * len(self._wakes):
            self._targets = [each for each in self._targets if each[1] in self._wakes]
            heapify(self._targets)


def _be_late(wake: asyncio.Future[Exception | None]) -> None:
    if not wake.done():
        wake.set_result(TimeoutError())
