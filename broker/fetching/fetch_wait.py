"""A fetch that waits for records, without a task: there may be a thousand, and followers are woken
by every record.

It stands at its partitions, and when one of them stirs, the plan is read again: at the loop's next
turn, once, however many have stirred by then.

Owner: the event loop.
"""

from __future__ import annotations

import asyncio

from odradek.broker.fetching.fetch_plan import FetchPlan
from odradek.broker.replicas.waiter import leave, stand


class FetchWait:
    """Ends when there is enough, when the time is over, or when ``over`` is cancelled."""

    __slots__ = ("_is_due", "_is_late", "_loop", "_places", "_plan", "_timer", "over")

    def __init__(self, plan: FetchPlan, timeout_s: float) -> None:
        """The plan has been read just now, and had not enough."""
        self._plan = plan
        self._is_due = self._is_late = False
        self._loop = asyncio.get_running_loop()
        #: Brings what went wrong when the plan was read again.
        self.over: asyncio.Future[Exception | None] = self._loop.create_future()
        self._timer = self._loop.call_later(timeout_s, self._expire)
        self._places = plan.places()
        stand(self, self._places)
        self.over.add_done_callback(self._ended)

    def wake(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._look)

    def _expire(self) -> None:
        self._is_late = True
        self._look()

    def _look(self) -> None:
        self._is_due = False
        if self.over.done():
            return
        try:
            self._plan.read()
            is_enough = self._is_late or self._plan.is_enough()
        except Exception as failure:  # noqa: BLE001 - raised by whoever makes the answer
            self.over.set_result(failure)
            return
        if is_enough:
            self.over.set_result(None)
        else:
            self._plan.forget()

    def _ended(self, over: asyncio.Future[Exception | None]) -> None:
        self._timer.cancel()
        leave(self, self._places)
        if over.cancelled() or over.result() is not None:
            self._plan.forget()
