"""How fast may compaction go on, and shall it go on at all?

Whenever it has moved some bytes it lets others have their turn, asks whether to stop, and sleeps if
it was faster than ``log.cleaner.io.max.bytes.per.second`` allows.  What is read counts like what is
written.  Time lost, by a slow disk or by sleeping too long, is not made up for: no second sees more
than the rate and one step.

Owner: the worker process, which hands in a clock, a way to sleep and a way to let others go first.
"""

from __future__ import annotations

import math
from collections.abc import Callable

_STEP_BYTES = 16 * 1024  # a fraction of a millisecond
_MIN_PAUSE_S = 0.001
_ABORT_CHECK_INTERVAL_S = 0.1  # whether to stop, during a pause


class LogCleaningAborted(Exception):
    """Compaction was asked to stop; nothing is left of it."""


class ByteRateThrottle:
    """How long to sleep so that a rate is kept.  Zero lets nothing through; less is no limit."""

    def __init__(self, bytes_per_second: float) -> None:
        self._bytes_per_second = bytes_per_second
        self._owed_pause_s = 0.0

    def pause_s(self, moved_bytes: int, *, elapsed_s: float) -> float:
        """``elapsed_s``: since this was last asked, sleep and all."""
        rate = self._bytes_per_second
        needed_s = moved_bytes / rate if rate else math.inf
        self._owed_pause_s = max(0.0, self._owed_pause_s + needed_s - elapsed_s)
        return self._owed_pause_s if self._owed_pause_s >= _MIN_PAUSE_S else 0.0


def _never_abort() -> bool:
    return False


def _no_clock() -> float:
    return 0.0


def _no_sleep(pause_s: float) -> None:
    raise AssertionError("a rate is to be kept, and no way to sleep was given")


def _no_yield() -> None:
    """Nobody else is there."""


class CleanerThrottler:
    """Lets others stop compaction, and keeps it to a rate."""

    def __init__(
        self,
        *,
        should_abort: Callable[[], bool] = _never_abort,
        clock: Callable[[], float] = _no_clock,
        sleep: Callable[[float], None] = _no_sleep,
        yield_cpu: Callable[[], object] = _no_yield,
        step_bytes: int = _STEP_BYTES,
    ) -> None:
        """``clock`` tells seconds, and never goes back; it can be left out, and so can ``sleep``,
        without a rate."""
        self._should_abort = should_abort
        self._clock = clock
        self._sleep = sleep
        self._yield_cpu = yield_cpu
        self._step_bytes = step_bytes
        self._moved_bytes = 0
        self._rate_throttle = ByteRateThrottle(math.inf)
        self._last_checked_at = clock()

    def set_rate(self, bytes_per_second: float) -> None:
        """From now on."""
        self._rate_throttle = ByteRateThrottle(bytes_per_second)
        self._last_checked_at = self._clock()

    def maybe_throttle(self, size_bytes: int) -> None:
        """May sleep.  CleaningStopped if that was asked for."""
        self._moved_bytes += size_bytes
        if self._moved_bytes < self._step_bytes:
            return
        self._yield_cpu()
        self._check_not_aborted()
        now = self._clock()
        pause_s = self._rate_throttle.pause_s(
            self._moved_bytes, elapsed_s=now - self._last_checked_at
        )
        self._last_checked_at, self._moved_bytes = now, 0
        while pause_s > 0:
            self._sleep(min(pause_s, _ABORT_CHECK_INTERVAL_S))
            pause_s -= _ABORT_CHECK_INTERVAL_S
            self._check_not_aborted()

    def _check_not_aborted(self) -> None:
        if self._should_abort():
            raise LogCleaningAborted
