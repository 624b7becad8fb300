"""Accounting of the request that a connection receives or waits for: its memory and its progress.

Invariant: a request that a handler works on is counted, even after its connection has closed.
Owner: the loop of the connection's processor.
"""

from __future__ import annotations

from typing import Any

from odradek.broker.network.memory_pool import MemoryPool
from odradek.broker.request import DelayedOperation


class RequestAccounting:
    """``reserved_bytes`` are the bytes of the request that are reserved in the memory pool."""

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
        #: While the response is pending: whether the handler may still use the frame.
        self.needs_frame = False
        #: While the response is pending: whether it completes although nothing more is read.
        self.completes_on_shutdown = False

    def begin(self, response: Any, size: int) -> None:
        """Count a request whose response is pending."""
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
        """Count the request as done; its bytes may stay reserved a little longer."""
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
