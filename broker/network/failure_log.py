"""A line for each connection that broke the protocol, but never more than a few in a second.

A flood of garbage must not fill the disk with its description; what was left out is counted in the
next line.

Owner: the loop of one processor.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

log = logging.getLogger(__name__)

LINES_PER_SECOND = 10


class FailureLog:
    """``now`` is a clock in seconds that never jumps."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._second = 0
        self._lines = 0
        self._left_out = 0

    def warn(self, message: str, *arguments: object) -> None:
        """As ``logging`` takes it, the arguments apart."""
        second = int(self._now())
        if second != self._second:
            self._second, self._lines = second, 0
        self._lines += 1
        if self._lines > LINES_PER_SECOND:
            self._left_out += 1
            return
        log.warning(message, *arguments)
        if self._left_out:
            log.warning("%d more like this were not written", self._left_out)
            self._left_out = 0
