"""An increasing offset and the futures that wait until it reaches a target.

Kafka uses a purgatory for this.  A produce request with ``acks=all`` waits for the high watermark
of the partition.  With ``flush.messages`` set it also waits for the recovery point, up to which
the log survives a power failure.

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import count


class AwaitableOffset:
    """Decreases only by ``reset``, after a truncation, when there must be no waiters."""

    __slots__ = ("_targets", "_waiter_ids", "_waiters", "value")

    def __init__(self, value: int = 0) -> None:
        self.value = value
        #: A heap of targets with waiter ids; it may contain ids of waiters that are already done.
        self._targets: list[tuple[int, int]] = []
        #: The waiters by id; a result of None means the target was reached, else it is the error.
        self._waiters: dict[int, asyncio.Future[Exception | None]] = {}
        self._waiter_ids = count()

    @property
    def has_waiters(self) -> bool:
        return bool(self._waiters)

    @property
    def waiter_count(self) -> int:
        """The number of waiters."""
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
        """Complete all present waiters with ``error``."""
        waiters, self._waiters, self._targets = self._waiters, {}, []
        for waiter in waiters.values():
            if not waiter.done():
                waiter.set_result(error)

    def future_for(self, target: int, *, timeout_s: float) -> asyncio.Future[Exception | None]:
        """Return a future for ``value`` reaching ``target``.

        Its result is None on success, else the error of ``fail_waiters`` or a TimeoutError.
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
        """Return True when ``value`` reaches ``target``, False on timeout.

        Raises the error of ``fail_waiters``.
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
        """Remove the targets of waiters that are done, once these are the majority."""
        if len(self._targets) > 2 * len(self._waiters):
            self._targets = [entry for entry in self._targets if entry[1] in self._waiters]
            heapify(self._targets)


def _time_out(waiter: asyncio.Future[Exception | None]) -> None:
    if not waiter.done():
        waiter.set_result(TimeoutError())
