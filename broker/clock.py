"""The system's clock: what storage and the controller are handed, and nobody else reads.

Durations are measured on the event loop's clock, which never jumps, or by ``steady_ms``.

Owner: none; any thread.  Of a ``JumpWatch``, the event loop.
"""

import time
from collections.abc import Callable


def now_ms() -> int:
    """Since 1970, as records and answers have it."""
    return time.time_ns() // 1_000_000


def steady_ms() -> int:
    """Since some moment; it never jumps, whoever sets the time of day."""
    return time.monotonic_ns() // 1_000_000


class JumpWatch:
    """Whether the time of day was set, since this was asked last."""

    def __init__(self, now_ms: Callable[[], int], steady_ms: Callable[[], int] = steady_ms) -> None:
        self._now_ms = now_ms
        self._steady_ms = steady_ms
        self._ahead_ms = self._ahead()

    def jumped_ms(self) -> int:
        """Forward, or back if it is negative; what is negligible, too."""
        before, self._ahead_ms = self._ahead_ms, self._ahead()
        return self._ahead_ms - before

    def _ahead(self) -> int:
        return self._now_ms() - self._steady_ms()
