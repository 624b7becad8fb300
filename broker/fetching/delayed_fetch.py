"""A fetch that waits for records, without a task: there may be a thousand, and followers are woken
by every record.

When one of its partitions stirs, the plan is read again: at the loop's next turn, once, however
many have stirred by then; in several turns, if those are very many.

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from odradek.broker.fetching.fetch_plan import FetchPlan
from odradek.broker.turns import Turn


class FetchWait:
    """Ends when there is enough, when the time is over, or when ``over`` is cancelled."""

    is_waiting = True
    __slots__ = ("_is_due", "_is_late", "_loop", "_pass", "_plan", "_timer", "over")

    def __init__(self, plan: FetchPlan, timeout_s: float) -> None:
        """The plan has been read just now, and had not enough; else it is to be woken at once."""
        self._plan = plan
        self._is_due = self._is_late = False
        #: Of the plan, under way.
        self._pass: Iterator[None] | None = None
        self._loop = asyncio.get_running_loop()
        #: Brings what went wrong when the plan was read again.
        self.over: asyncio.Future[Exception | None] = self._loop.create_future()
        self._timer = self._loop.call_later(timeout_s, self._expire)
        plan.wanted.stand(self)
        self.over.add_done_callback(self._ended)

    def wake(self) -> None:
        if not self._is_due:
            self._is_due = True
            if self._pass is None:
                self._loop.call_soon(self._look)

    def _expire(self) -> None:
        self._is_late = True
        self.wake()

    def _look(self) -> None:
        """Begin to read, or read on."""
        if self.over.done():
            return
        try:
            is_read = self._is_read()
            is_enough = is_read and (self._is_late or self._plan.is_enough())
        except Exception as failure:  # noqa: BLE001 - raised by whoever makes the answer
            self.over.set_result(failure)
            return
        if is_enough:
            self.over.set_result(None)
            return
        if is_read:
            self._plan.forget()
        if self._is_due or not is_read:
            self._loop.call_soon(self._look)

    def _is_read(self) -> bool:
        """Whether that was possible in this turn."""
        if self._pass is None:
            self._is_due = False
            # Again: what has stirred is watched before it is read, since others may have their turn
            # in between.
            self._plan.wanted.stand(self)
            self._pass = self._plan.going_over()
        turn = Turn()
        for _ in self._pass:
            if turn.is_over:
                return False
        self._pass = None
        return True

    def _ended(self, over: asyncio.Future[Exception | None]) -> None:
        self._timer.cancel()
        self._plan.wanted.leave(self)
        self._pass = None
        if over.cancelled() or over.result() is not None:
            self._plan.forget()
