"""Delayed fetch: waits for records without a task.

There may be a thousand delayed fetches, and every append notifies the fetches of the followers.

When one of its partitions changes, the fetch is read again: once, in the next iteration of the
event loop, for all partitions that changed until then.  A read of very many partitions takes
several time slices.

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from odradek.broker.fetching.fetch_reader import FetchReader
from odradek.broker.time_slice import TimeSlice


class DelayedFetch:
    """Completes when there are enough bytes, at its timeout, or if ``completion`` is cancelled."""

    is_waiting = True
    __slots__ = (
        "_is_expired",
        "_is_read_due",
        "_loop",
        "_read_in_progress",
        "_reader",
        "_timer",
        "completion",
    )

    def __init__(self, reader: FetchReader, timeout_s: float) -> None:
        """Create it right after a read with too few bytes, or else call ``notify``."""
        self._reader = reader
        self._is_read_due = self._is_expired = False
        #: The read of the fetch in progress.
        self._read_in_progress: Iterator[None] | None = None
        self._loop = asyncio.get_running_loop()
        #: Its result is the error of a repeated read, or None.
        self.completion: asyncio.Future[Exception | None] = self._loop.create_future()
        self._timer = self._loop.call_later(timeout_s, self._expire)
        reader.partitions.register(self)
        self.completion.add_done_callback(self._on_complete)

    def notify(self) -> None:
        if not self._is_read_due:
            self._is_read_due = True
            if self._read_in_progress is None:
                self._loop.call_soon(self._try_complete)

    def _expire(self) -> None:
        self._is_expired = True
        self.notify()

    def _try_complete(self) -> None:
        """Start a read, or continue the one in progress."""
        if self.completion.done():
            return
        try:
            is_read = self._continue_read()
            is_satisfied = is_read and (self._is_expired or self._reader.is_satisfied())
        except Exception as error:  # noqa: BLE001 - raised where the response is built
            self.completion.set_result(error)
            return
        if is_satisfied:
            self.completion.set_result(None)
            return
        if is_read:
            self._reader.discard_responses()
        if self._is_read_due or not is_read:
            self._loop.call_soon(self._try_complete)

    def _continue_read(self) -> bool:
        """Return whether the read ended within this time slice."""
        if self._read_in_progress is None:
            self._is_read_due = False
            # Register before the read: a partition may change between two of its time slices.
            self._reader.partitions.register(self)
            self._read_in_progress = self._reader.read_stepwise()
        time_slice = TimeSlice()
        for _ in self._read_in_progress:
            if time_slice.is_used_up:
                return False
        self._read_in_progress = None
        return True

    def _on_complete(self, completion: asyncio.Future[Exception | None]) -> None:
        self._timer.cancel()
        self._reader.partitions.unregister(self)
        self._read_in_progress = None
        if completion.cancelled() or completion.result() is not None:
            self._reader.discard_responses()
