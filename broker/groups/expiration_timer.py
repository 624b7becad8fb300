"""A timer that is reset again and again, such as the session timeout that each heartbeat resets.

A reset is cheap: it only stores the new deadline.  The event loop's timer stays scheduled; when it
fires too early, it is scheduled again for the deadline.  A thousand members that send heartbeats
therefore have a thousand loop timers that rarely fire.

After the event loop was blocked, or the process was suspended, deadlines may have passed while
heartbeats are still unread in the socket buffers.  A timer that fires late therefore grants one
grace period before it expires.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

#: A timer that fires later than this grants a grace period, which is as long.
_GRACE_S = 0.1


class TimerHandle(Protocol):
    def cancel(self) -> None: ...


class EventLoopTimers(Protocol):
    """The part of an event loop that timers use."""

    def time(self) -> float: ...

    def call_at(self, when: float, callback: Callable[..., Any], /) -> TimerHandle: ...


class ExpirationTimer:
    """Calls ``on_expired`` once when the timeout has passed, unless it is reset or cancelled."""

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
        """Set the deadline to ``timeout_ms`` from now."""
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
        # Not every event loop's timer handle has `when()`.
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
