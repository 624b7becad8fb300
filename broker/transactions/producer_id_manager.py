"""Ids for producers: from blocks that the controller gives to this broker alone.

The next block is asked for when the last id is gone, once for all who wait.  What is left of a
block when the broker stops is never used.  Producers know nothing of controllers: where there is
none they are told, as by Kafka, to ask again.

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from odradek.protocol.errors import CoordinatorLoadInProgress, KafkaError


class Block(Protocol):
    """Both ends are in it."""

    @property
    def block_start(self) -> int: ...

    @property
    def block_end(self) -> int: ...


class Allocate(Protocol):
    """Asks the controller; KafkaError if there is none, or it refuses."""

    async def __call__(self) -> Block: ...


class ProducerIds:
    """One after the other."""

    def __init__(self, allocate: Allocate) -> None:
        self._allocate = allocate
        self._left = iter(range(0))
        self._turn = asyncio.Lock()

    def next_nowait(self) -> int | None:
        """None if a block has to be asked for first."""
        return next(self._left, None)

    async def next(self) -> int:
        """Raises CoordinatorLoadInProgress."""
        async with self._turn:
            found = self.next_nowait()
            while found is None:
                try:
                    block = await self._allocate()
                except KafkaError as failure:
                    raise CoordinatorLoadInProgress(f"no producer ids yet: {failure}") from failure
                self._left = iter(range(block.block_start, block.block_end + 1))
                found = self.next_nowait()
            return found
