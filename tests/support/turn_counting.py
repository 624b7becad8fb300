"""How often did others have their turn before an answer came?"""

import asyncio
from typing import Any, NamedTuple

from odradek.broker.time_slice import INLINE_ENTRIES_MAX
from tests.support.calls import in_the_end

MANY = INLINE_ENTRIES_MAX + 1


class InTurns(NamedTuple):
    answer: Any
    turns: int


async def in_turns(answered: Any) -> InTurns:
    """Of something that must be waited for."""
    count = 0
    async with asyncio.TaskGroup() as group:
        answering = group.create_task(in_the_end(answered))
        while not answering.done():
            await asyncio.sleep(0)
            count += 1
    return InTurns(answering.result(), count)
