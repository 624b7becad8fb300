"""Turns on the loop: whoever has much to do lets others have theirs in between.

    turn = Turn()
    for each in much:
        ...
        if turn.is_over:
            await turn.next()

What is done within a turn is done in one go; whatever else the broker does may come between two.

Not by the loop's own clock: uvloop's stands still until the loop goes round.

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from time import monotonic
from typing import TypeVar

Item = TypeVar("Item")

#: For how long others wait at most.
TIME_SLICE_S = 0.002
#: So many entries of a request, partitions or topics, fit into a turn, whatever is asked of them.
INLINE_ENTRIES_MAX = 100


class TimeSlice:
    """Begins when it is made."""

    __slots__ = ("_deadline",)

    def __init__(self) -> None:
        self._deadline = monotonic() + TIME_SLICE_S

    @property
    def is_used_up(self) -> bool:
        return monotonic() >= self._deadline

    async def yield_to_loop(self) -> None:
        """After everybody else's."""
        await asyncio.sleep(0)
        self._deadline = monotonic() + TIME_SLICE_S

    async def collect(self, items: Iterable[Item]) -> list[Item]:
        """All that is made by going on, in this turn and as many others as it takes."""
        collected = []
        for item in items:
            collected.append(item)
            if self.is_used_up:
                await self.yield_to_loop()
        return collected
