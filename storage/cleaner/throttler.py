"""Limits the I/O rate of the cleaner and checks whether cleaning must be aborted.

Kafka: Throttler, and Cleaner.checkDone.

After every few KB the throttler yields the CPU, checks for an abort, and sleeps if the cleaner was
faster than ``log.cleaner.io.max.bytes.per.second``.  Bytes read and bytes written both count.  Time
lost to a slow disk or a long sleep is not made up: no second sees more bytes than the rate plus one
step.

Owner: the worker process, which passes in a clock, a sleep function and a function that yields.
"""

from __future__ import annotations

import math
from collections.abc import Callable

_STEP_BYTES = 16 * 1024  # takes a fraction of a millisecond
_MIN_PAUSE_S = 0.001
_ABORT_CHECK_INTERVAL_S = 0.1  # during a pause


class LogCleaningAborted(Exception):
    """Cleaning was aborted on request.  The unfinished output segment is removed."""


class ByteRateThrottle:
    """Computes pauses that keep a byte rate.  A rate of 0 blocks; a negative rate is no limit."""

    def __init__(self, bytes_per_second: float) -> None:
        self._bytes_per_second = bytes_per_second
        self._owed_pause_s = 0.0

    def pause_s(self, moved_bytes: int, *, elapsed_s: float) -> float:
        """Return the pause to take now; ``elapsed_s`` is the time since the last call."""
        rate = self._bytes_per_second
        needed_s = moved_bytes / rate if rate else math.inf
        self._owed_pause_s = max(0.0, self._owed_pause_s + needed_s - elapsed_s)
        return self._owed_pause_s if self._owed_pause_s >= _MIN_PAUSE_S else 0.0


def _never_abort() -> bool:
    return False


def _no_clock() -> float:
    return 0.0


def _no_sleep(pause_s: float) -> None:
    raise AssertionError("a rate limit is set, but no sleep function was passed in")


def _no_yield() -> None:
    """The default: there is nothing to yield to."""


class CleanerThrottler:
    """Keeps the cleaner to a rate, and lets it be aborted."""

    def __init__(
        self,
        *,
        should_abort: Callable[[], bool] = _never_abort,
        clock: Callable[[], float] = _no_clock,
        sleep: Callable[[float], None] = _no_sleep,
        yield_cpu: Callable[[], object] = _no_yield,
        step_bytes: int = _STEP_BYTES,
    ) -> None:
        """``clock`` returns monotonic seconds.  ``clock`` and ``sleep`` are only needed for a
        finite rate."""
        self._should_abort = should_abort
        self._clock = clock
        self._sleep = sleep
        self._yield_cpu = yield_cpu
        self._step_bytes = step_bytes
        self._moved_bytes = 0
        self._rate_throttle = ByteRateThrottle(math.inf)
        self._last_checked_at = clock()

    def set_rate(self, bytes_per_second: float) -> None:
        """Use a new rate from now on."""
        self._rate_throttle = ByteRateThrottle(bytes_per_second)
        self._last_checked_at = self._clock()

    def maybe_throttle(self, size_bytes: int) -> None:
        """Count bytes and sleep if necessary.  Raise LogCleaningAborted on an abort request."""
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
