"""Limits on the requests in progress of a processor, and on their bytes in memory.

Kafka: MemoryPool (SimpleMemoryPool) for ``queued.max.request.bytes``.

    bytes         frames that were not received at once, from the allocation of their buffer on; and
                  frames that a handler uses, also after the client disconnected
    in progress   requests that a handler works on

A request that is handled immediately uses neither, and a delayed request uses neither.

As in Kafka, a request is admitted while anything is left, however large it is: otherwise a request
larger than the limit would wait forever.  A frame that already has a buffer is received to its end.
Requests of this broker itself are always admitted: the requests that use up the pool may wait for
their responses.

Owner: the loop of one processor.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable


class MemoryPool:
    """``is_exhausted`` says that nothing more may be read."""

    def __init__(
        self,
        bytes_max: int,
        call_soon: Callable[[Callable[[], None]], object],
        *,
        requests_max: int = 0,
    ) -> None:
        """A limit of 0 or less means no limit."""
        self._bytes_max = bytes_max
        self._requests_max = requests_max
        self._call_soon = call_soon
        self._waiters: deque[Callable[[], None]] = deque()
        self._is_resume_scheduled = False
        self.used_bytes = 0
        self.requests_in_progress = 0
        self.is_exhausted = False

    def reserve(self, size: int) -> None:
        self.used_bytes += size
        self._update_exhausted()

    def release(self, size: int) -> None:
        self.used_bytes -= size
        assert self.used_bytes >= 0, self.used_bytes
        self._update_exhausted()
        self._schedule_resume()

    def begin_request(self) -> None:
        """Count a request that a handler works on."""
        self.requests_in_progress += 1
        self._update_exhausted()

    def end_request(self) -> None:
        self.requests_in_progress -= 1
        assert self.requests_in_progress >= 0, self.requests_in_progress
        self._update_exhausted()
        self._schedule_resume()

    def call_when_available(self, resume: Callable[[], None]) -> None:
        """Call ``resume`` when the pool is not exhausted, in the order of these calls."""
        self._waiters.append(resume)
        self._schedule_resume()

    def _update_exhausted(self) -> None:
        self.is_exhausted = (
            0 < self._bytes_max <= self.used_bytes
            or 0 < self._requests_max <= self.requests_in_progress
        )

    def _schedule_resume(self) -> None:
        # Not in this call: the caller is in the middle of releasing.
        if self._waiters and not self.is_exhausted and not self._is_resume_scheduled:
            self._is_resume_scheduled = True
            self._call_soon(self._resume_waiters)

    def _resume_waiters(self) -> None:
        self._is_resume_scheduled = False
        # A waiter may exhaust the pool again; then the others go on waiting.
        for _ in range(len(self._waiters)):
            if self.is_exhausted:
                return
            self._waiters.popleft()()
