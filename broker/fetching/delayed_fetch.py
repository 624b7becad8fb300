"""A fetch that waits for records, without a task: there may be a thousand, and followers are woken
by every record.

When one of its partitions stirs, the plan is read again: at the loop's next turn, once, however
many have stirred by then; in several turns, if those are very many.

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from odradek.broker.fetching.fetch_reader import FetchReader
from odradek.broker.time_slice import TimeSlice


class DelayedFetch:
    """Ends when there is enough, when the time is over, or when ``over`` is cancelled."""

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
        """The plan has been read just now, and had not enough; else it is to be woken at once."""
        self._reader = reader
        self._is_read_due = self._is_expired = False
        #: Of the plan, under way.
        self._read_in_progress: Iterator[None] | None = None
        self._loop = asyncio.get_running_loop()
        #: Brings what went wrong when the plan was read again.
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
        """Begin to read, or read on."""
        if self.completion.done():
            return
        try:
            is_read = self._continue_read()
            is_satisfied = is_read and (self._is_expired or self._reader.is_satisfied())
        except Exception as error:  # noqa: BLE001 - raised by whoever makes the answer
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
        """Whether that was possible in this turn."""
        if self._read_in_progress is None:
            self._is_read_due = False
            # Again: what has stirred is watched before it is read, since others may have their turn
            # in between.
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
