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
_GRACE_S = 0.1


class TimerHandle(Protocol):
    """What can be called off."""

    def cancel(self) -> None: ...


class EventLoopTimers(Protocol):
    """The part of an event loop that keeps time."""

    def time(self) -> float: ...

    def call_at(self, when: float, callback: Callable[..., Any], /) -> TimerHandle: ...


class ExpirationTimer:
    """``passed`` is called once, unless it was called off or put off before."""

    __slots__ = ("_expires_at", "_fires_at", "_handle", "_has_used_grace", "_loop", "_on_expired")

    def __init__(self, loop: EventLoopTimers, on_expired: Callable[[], None]) -> None:
        self._loop = loop
        self._on_expired = on_expired
        self._handle: TimerHandle | None = None
        self._expires_at = self._fires_at = 0.0
        self._has_used_grace = False

    @property
    def is_scheduled(self) -> bool:
        return self._handle is not None

    def reset(self, *, timeout_ms: int) -> None:
        """To so long from now."""
        self._expires_at = at = self._loop.time() + timeout_ms / 1000
        self._has_used_grace = False
        if self._handle is None:
            self._schedule(at)
        elif self._fires_at > at:
            self._handle.cancel()
            self._schedule(at)

    def cancel(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _schedule(self, at: float) -> None:
        # Not every loop's timers tell when they ring.
        self._fires_at = at
        self._handle = self._loop.call_at(at, self._fire)

    def _fire(self) -> None:
        now = self._loop.time()
        if now < self._expires_at:
            self._schedule(self._expires_at)
        elif now - self._fires_at > _GRACE_S and not self._has_used_grace:
            self._has_used_grace = True
            self._schedule(now + _GRACE_S)
        else:
            self._handle = None
            self._on_expired()
