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


class AwaitableOffset:
    """Goes back only by ``restart``, when the log was cut; nobody may be waiting by then."""

    __slots__ = ("_targets", "_waiter_ids", "_waiters", "value")

    def __init__(self, value: int = 0) -> None:
        self.value = value
        #: A heap of targets, each with its waiter's number; those who went have left theirs behind.
        self._targets: list[tuple[int, int]] = []
        #: By their numbers, those who wait: for None, or why it is not to be.
        self._waiters: dict[int, asyncio.Future[Exception | None]] = {}
        self._waiter_ids = count()

    @property
    def has_waiters(self) -> bool:
        return bool(self._waiters)

    @property
    def waiter_count(self) -> int:
        """How many do."""
        return len(self._waiters)

    def advance(self, value: int) -> None:
        assert value >= self.value, (self.value, value)
        self.value = value
        targets = self._targets
        while targets and targets[0][0] <= value:
            waiter = self._waiters.pop(heappop(targets)[1], None)
            if waiter is not None and not waiter.done():
                waiter.set_result(None)

    def reset(self, value: int) -> None:
        assert not self.has_waiters, self._targets
        self.value = value

    def fail_waiters(self, error: Exception) -> None:
        """It will not grow any more, as far as those are concerned who wait for it now."""
        waiters, self._waiters, self._targets = self._waiters, {}, []
        for waiter in waiters.values():
            if not waiter.done():
                waiter.set_result(error)

    def future_for(self, target: int, *, timeout_s: float) -> asyncio.Future[Exception | None]:
        """Brings None once ``value`` has come to ``target``.

        Else what it was abandoned for, or TimeoutError.
        """
        loop = asyncio.get_running_loop()
        waiter_id, waiter = next(self._waiter_ids), loop.create_future()
        if self.value >= target:
            waiter.set_result(None)
            return waiter
        self._waiters[waiter_id] = waiter
        heappush(self._targets, (target, waiter_id))
        timer = loop.call_later(timeout_s, _time_out, waiter)
        waiter.add_done_callback(partial(self._on_waiter_done, waiter_id, timer))
        return waiter

    async def wait_for(self, target: int, *, timeout_s: float) -> bool:
        """True once ``value`` has reached ``target``; False if the time ran out first.

        Raises what it was abandoned for.
        """
        if self.value >= target:
            return True
        error = await self.future_for(target, timeout_s=timeout_s)
        if error is not None and not isinstance(error, TimeoutError):
            raise error
        return error is None

    def _on_waiter_done(self, waiter_id: int, timer: asyncio.TimerHandle, _: object) -> None:
        timer.cancel()
        if self._waiters.pop(waiter_id, None) is not None:
            self._prune_targets()

    def _prune_targets(self) -> None:
        """Those of waiters who went, as soon as they are the most."""
        if len(self._targets) > 2 * len(self._waiters):
            self._targets = [entry for entry in self._targets if entry[1] in self._waiters]
            heapify(self._targets)


def _time_out(waiter: asyncio.Future[Exception | None]) -> None:
    if not waiter.done():
        waiter.set_result(TimeoutError())
