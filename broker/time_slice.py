"""Cooperative time slices: long work yields to the event loop every 2 ms.

    time_slice = TimeSlice()
    for item in many_items:
        ...
        if time_slice.is_used_up:
            await time_slice.yield_to_loop()

The work within a time slice is atomic; anything else in the broker may run between two slices.

The clock is not the event loop's: uvloop updates its clock only once per iteration.

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from time import monotonic
from typing import TypeVar

Item = TypeVar("Item")

#: How long other work waits at most.
TIME_SLICE_S = 0.002
#: This many entries of a request (partitions or topics) fit into a time slice for any API.
INLINE_ENTRIES_MAX = 100


class TimeSlice:
    """Starts when it is created."""

    __slots__ = ("_deadline",)

    def __init__(self) -> None:
        self._deadline = monotonic() + TIME_SLICE_S

    @property
    def is_used_up(self) -> bool:
        return monotonic() >= self._deadline

    async def yield_to_loop(self) -> None:
        """Let all other ready work run, then start a new time slice."""
        await asyncio.sleep(0)
        self._deadline = monotonic() + TIME_SLICE_S

    async def collect(self, items: Iterable[Item]) -> list[Item]:
        """Exhaust the iterable, in as many time slices as that takes."""
        collected = []
        for item in items:
            collected.append(item)
            if self.is_used_up:
                await self.yield_to_loop()
        return collected
