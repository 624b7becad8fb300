"""The system's clock: what storage and the controller are handed, and nobody else reads.

Durations are measured on the event loop's clock, which never jumps, or by ``steady_ms``.

Owner: none; any thread.  Of a ``JumpWatch``, the event loop.
"""

import time
from collections.abc import Callable


def now_ms() -> int:
    """Since 1970, as records and answers have it."""
    return time.time_ns() // 1_000_000


def monotonic_ms() -> int:
    """Since some moment; it never jumps, whoever sets the time of day."""
    return time.monotonic_ns() // 1_000_000


class ClockJumpDetector:
    """Whether the time of day was set, since this was asked last."""

    def __init__(
        self, now_ms: Callable[[], int], monotonic_ms: Callable[[], int] = monotonic_ms
    ) -> None:
        self._now_ms = now_ms
        self._monotonic_ms = monotonic_ms
        self._last_offset_ms = self._current_offset_ms()

    def jump_since_last_call_ms(self) -> int:
        """Forward, or back if it is negative; what is negligible, too."""
        before, self._last_offset_ms = self._last_offset_ms, self._current_offset_ms()
        return self._last_offset_ms - before

    def _current_offset_ms(self) -> int:
        return self._now_ms() - self._monotonic_ms()
