"""The system clock.  Storage and controller receive it as a parameter and read no other clock.

Durations are measured with the event loop's clock, which never jumps, or with ``monotonic_ms``.

Owner: none; any thread.  A ``ClockJumpDetector`` belongs to the event loop.
"""

import time
from collections.abc import Callable


def now_ms() -> int:
    """Milliseconds since 1970, as in records and responses."""
    return time.time_ns() // 1_000_000


def monotonic_ms() -> int:
    """Milliseconds since an arbitrary moment.  Setting the time of day does not change it."""
    return time.monotonic_ns() // 1_000_000


class ClockJumpDetector:
    """Detects that the time of day was set since the last call."""

    def __init__(
        self, now_ms: Callable[[], int], monotonic_ms: Callable[[], int] = monotonic_ms
    ) -> None:
        self._now_ms = now_ms
        self._monotonic_ms = monotonic_ms
        self._last_offset_ms = self._current_offset_ms()

    def jump_since_last_call_ms(self) -> int:
        """The jump, negative if the clock was set back.  Small corrections are included."""
        before, self._last_offset_ms = self._last_offset_ms, self._current_offset_ms()
        return self._last_offset_ms - before

    def _current_offset_ms(self) -> int:
        return self._now_ms() - self._monotonic_ms()
