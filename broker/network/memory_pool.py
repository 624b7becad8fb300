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


class RequestMemory:
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
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_waking = False
        self.used_bytes = 0
        self.in_progress = 0
        self.is_exhausted = False

    def take(self, size: int) -> None:
        self.used_bytes += size
        self._compare()

    def give_back(self, size: int) -> None:
        self.used_bytes -= size
        assert self.used_bytes >= 0, self.used_bytes
        self._compare()
        self._wake_soon()

    def begin(self) -> None:
        """A handler is at work."""
        self.in_progress += 1
        self._compare()

    def end(self) -> None:
        self.in_progress -= 1
        assert self.in_progress >= 0, self.in_progress
        self._compare()
        self._wake_soon()

    def wait(self, resume: Callable[[], None]) -> None:
        """Call ``resume`` when there is room; who came first is called first."""
        self._waiting.append(resume)
        self._wake_soon()

    def _compare(self) -> None:
        self.is_exhausted = (
            0 < self._bytes_max <= self.used_bytes or 0 < self._requests_max <= self.in_progress
        )

    def _wake_soon(self) -> None:
        # Not at once: whoever gives back is in the middle of something.
        if self._waiting and not self.is_exhausted and not self._is_waking:
            self._is_waking = True
            self._call_soon(self._wake)

    def _wake(self) -> None:
        self._is_waking = False
        # One that takes the last of the room, or finds none, leaves the others waiting.
        for _ in range(len(self._waiting)):
            if self.is_exhausted:
                return
            self._waiting.popleft()()
