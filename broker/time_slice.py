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

Made = TypeVar("Made")

#: For how long others wait at most.
TURN_S = 0.002
#: So many entries of a request, partitions or topics, fit into a turn, whatever is asked of them.
FEW = 100


class Turn:
    """Begins when it is made."""

    __slots__ = ("_end",)

    def __init__(self) -> None:
        self._end = monotonic() + TURN_S

    @property
    def is_over(self) -> bool:
        return monotonic() >= self._end

    async def next(self) -> None:
        """After everybody else's."""
        await asyncio.sleep(0)
        self._end = monotonic() + TURN_S

    async def listed(self, making: Iterable[Made]) -> list[Made]:
        """All that is made by going on, in this turn and as many others as it takes."""
        made = []
        for each in making:
            made.append(each)
            if self.is_over:
                await self.next()
        return made
