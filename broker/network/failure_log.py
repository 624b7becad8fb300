"""A line for each connection that broke the protocol, but never more than a few in a second.

A flood of garbage must not fill the disk with its description; what was left out is counted, and
told a second later.

Owner: the loop of one processor.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

log = logging.getLogger(__name__)

LINES_PER_SECOND = 10


class FailureLog:
    """``now`` is a clock in seconds that never jumps, ``call_later`` calls after so many."""

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
        """As ``logging`` takes it, the arguments apart."""
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
        log.warning("%d more like these were not written", self._suppressed)
        self._suppressed = 0
