"""How many requests are in progress, how many bytes of them are in memory, and who waits for that.

Bytes are of frames that did not come whole, from when their buffer is allocated, and of frames in
which a handler is at work, whether or not its peer is still there.  In progress is what a handler
is at work at.  What is answered at once takes neither, nor does what is parked.

As in Kafka, a request is let in while anything is left, however large it is: else one that is
larger than the bound would wait for ever.  One that has begun to come is let in too, and so is what
the broker asks itself: those who take the room may be waiting for its answer.

Owner: the loop of one processor.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable


class MemoryPool:
    """``is_exhausted`` says whether more may be read."""

    def __init__(
        self,
        bytes_max: int,
        call_soon: Callable[[Callable[[], None]], object],
        *,
        requests_max: int = 0,
    ) -> None:
        """A bound of 0 or less is none."""
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
        """A handler is at work."""
        self.requests_in_progress += 1
        self._update_exhausted()

    def end_request(self) -> None:
        self.requests_in_progress -= 1
        assert self.requests_in_progress >= 0, self.requests_in_progress
        self._update_exhausted()
        self._schedule_resume()

    def call_when_available(self, resume: Callable[[], None]) -> None:
        """Call ``resume`` when there is room; who came first is called first."""
        self._waiters.append(resume)
        self._schedule_resume()

    def _update_exhausted(self) -> None:
        self.is_exhausted = (
            0 < self._bytes_max <= self.used_bytes
            or 0 < self._requests_max <= self.requests_in_progress
        )

    def _schedule_resume(self) -> None:
        # Not at once: whoever gives back is in the middle of something.
        if self._waiters and not self.is_exhausted and not self._is_resume_scheduled:
            self._is_resume_scheduled = True
            self._call_soon(self._resume_waiters)

    def _resume_waiters(self) -> None:
        self._is_resume_scheduled = False
        # One that takes the last of the room, or finds none, leaves the others waiting.
        for _ in range(len(self._waiters)):
            if self.is_exhausted:
                return
            self._waiters.popleft()()
