"""A moment that keeps being put off: the end of a session, unless there is a heartbeat.

Putting it off costs an assignment: the timer stays where it is, and when it rings too early, it is
set again.  So a thousand members that send heartbeats have a thousand timers that hardly ever ring.

A loop that was held up, or a process that was stopped for a while, finds that moments have passed
while the heartbeats are still unread.  So whoever is late gives the others a moment to be heard,
once.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

#: How late a timer may ring before it is no longer the member's fault.
_LATE_S = 0.1


class Timer(Protocol):
    """What can be called off."""

    def cancel(self) -> None: ...


class Timers(Protocol):
    """The part of an event loop that keeps time."""

    def time(self) -> float: ...

    def call_at(self, when: float, callback: Callable[..., Any], /) -> Timer: ...


class Deadline:
    """``passed`` is called once, unless it was called off or put off before."""

    __slots__ = ("_at", "_has_waited", "_passed", "_rings_at", "_timer", "_timers")

    def __init__(self, timers: Timers, passed: Callable[[], None]) -> None:
        self._timers = timers
        self._passed = passed
        self._timer: Timer | None = None
        self._at = self._rings_at = 0.0
        self._has_waited = False

    @property
    def is_set(self) -> bool:
        return self._timer is not None

    def put_off(self, *, by_ms: int) -> None:
        """To so long from now."""
        self._at = at = self._timers.time() + by_ms / 1000
        self._has_waited = False
        if self._timer is None:
            self._set(at)
        elif self._rings_at > at:
            self._timer.cancel()
            self._set(at)

    def call_off(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set(self, at: float) -> None:
        # Not every loop's timers tell when they ring.
        self._rings_at = at
        self._timer = self._timers.call_at(at, self._ring)

    def _ring(self) -> None:
        now = self._timers.time()
        if now < self._at:
            self._set(self._at)
        elif now - self._rings_at > _LATE_S and not self._has_waited:
            self._has_waited = True
            self._set(now + _LATE_S)
        else:
            self._timer = None
            self._passed()
