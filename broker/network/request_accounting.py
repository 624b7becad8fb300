"""The request that a connection receives or is busy with: what of it is counted, and for how long.

Invariant: what a handler is at work at is counted, even after the connection has closed.
Owner: the loop of the connection's processor.
"""

from __future__ import annotations

from typing import Any

from odradek.broker.call import Parked
from odradek.broker.network.request_memory import RequestMemory


class RequestInHand:
    """``counted_bytes`` of it are in memory."""

    __slots__ = ("_is_at_work", "_memory", "counted_bytes", "needs_frame", "will_be_answered")

    def __init__(self, memory: RequestMemory) -> None:
        self._memory = memory
        self._is_at_work = False
        self.counted_bytes = 0
        #: While an answer is waited for: may its handler still use the frame?
        self.needs_frame = False
        #: And does the answer come although nothing is read any more?
        self.will_be_answered = False

    def begin(self, answer: Any, size: int) -> None:
        """The answer has to be waited for."""
        self._is_at_work = self.needs_frame = self.will_be_answered = True
        self._memory.begin()
        if isinstance(answer, Parked):
            self.park(answer)
        if self.needs_frame and not self.counted_bytes:
            self.count(size)

    def park(self, parked: Parked[Any]) -> None:
        self._end_work()
        self.needs_frame = parked.needs_frame
        self.will_be_answered = parked.ends_alone

    def end(self) -> None:
        """It is answered; its bytes may be counted for a little longer."""
        self._end_work()
        self.needs_frame = self.will_be_answered = False

    def count(self, size: int) -> None:
        self.counted_bytes = size
        self._memory.take(size)

    def uncount(self) -> None:
        size, self.counted_bytes = self.counted_bytes, 0
        self._memory.give_back(size)

    def _end_work(self) -> None:
        if self._is_at_work:
            self._is_at_work = False
            self._memory.end()
