"""Rate-limited warnings about connections that break the protocol.

A flood of invalid requests must not fill the disk with log lines.  Warnings above the limit of a
second are counted, and a second later one line states how many were suppressed.

Owner: the loop of one processor.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

log = logging.getLogger("kafka.network")

LINES_PER_SECOND = 10


class FailureLog:
    """``now`` is a monotonic clock in seconds; ``call_later`` calls back after some seconds."""

    def __init__(
        self,
        now: Callable[[], float],
        call_later: Callable[[float, Callable[[], None]], object],
    ) -> None:
        self._now = now
        self._call_later = call_later
        self._second = 0
        self._lines = 0
        self._suppressed = 0

    def warn(self, message: str, *arguments: object) -> None:
        """Log a warning; the arguments are those of ``logging.warning``."""
        second = int(self._now())
        if second != self._second:
            self._second, self._lines = second, 0
        self._lines += 1
        if self._lines <= LINES_PER_SECOND:
            log.warning(message, *arguments)
            return
        if not self._suppressed:
            self._call_later(1.0, self._log_suppressed)
        self._suppressed += 1

    def _log_suppressed(self) -> None:
        log.warning("Suppressed %d similar warning(s)", self._suppressed)
        self._suppressed = 0
