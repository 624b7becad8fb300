"""The request that a connection receives or is busy with: what of it is counted, and for how long.

Invariant: what a handler is at work at is counted, even after the connection has closed.
Owner: the loop of the connection's processor.
"""

from __future__ import annotations

from typing import Any

from odradek.broker.network.memory_pool import MemoryPool
from odradek.broker.request import DelayedOperation


class RequestAccounting:
    """``counted_bytes`` of it are in memory."""

    __slots__ = (
        "_is_in_progress",
        "_memory_pool",
        "completes_on_shutdown",
        "needs_frame",
        "reserved_bytes",
    )

    def __init__(self, memory_pool: MemoryPool) -> None:
        self._memory_pool = memory_pool
        self._is_in_progress = False
        self.reserved_bytes = 0
        #: While an answer is waited for: may its handler still use the frame?
        self.needs_frame = False
        #: And does the answer come although nothing is read any more?
        self.completes_on_shutdown = False

    def begin(self, response: Any, size: int) -> None:
        """The answer has to be waited for."""
        self._is_in_progress = self.needs_frame = self.completes_on_shutdown = True
        self._memory_pool.begin_request()
        if isinstance(response, DelayedOperation):
            self.delay(response)
        if self.needs_frame and not self.reserved_bytes:
            self.reserve(size)

    def delay(self, operation: DelayedOperation[Any]) -> None:
        self._end_progress()
        self.needs_frame = operation.needs_frame
        self.completes_on_shutdown = operation.completes_on_shutdown

    def end(self) -> None:
        """It is answered; its bytes may be counted for a little longer."""
        self._end_progress()
        self.needs_frame = self.completes_on_shutdown = False

    def reserve(self, size: int) -> None:
        self.reserved_bytes = size
        self._memory_pool.reserve(size)

    def release(self) -> None:
        size, self.reserved_bytes = self.reserved_bytes, 0
        self._memory_pool.release(size)

    def _end_progress(self) -> None:
        if self._is_in_progress:
            self._is_in_progress = False
            self._memory_pool.end_request()
