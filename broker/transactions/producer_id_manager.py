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


class ProducerIdsBlock(Protocol):
    """Both ends are in it."""

    @property
    def block_start(self) -> int: ...

    @property
    def block_end(self) -> int: ...


class ProducerIdAllocator(Protocol):
    """Asks the controller; KafkaError if there is none, or it refuses."""

    async def __call__(self) -> ProducerIdsBlock: ...


class ProducerIdManager:
    """One after the other."""

    def __init__(self, allocate: ProducerIdAllocator) -> None:
        self._allocate = allocate
        self._remaining_ids = iter(range(0))
        self._lock = asyncio.Lock()

    def generate_producer_id_nowait(self) -> int | None:
        """None if a block has to be asked for first."""
        return next(self._remaining_ids, None)

    async def generate_producer_id(self) -> int:
        """Raises CoordinatorLoadInProgress."""
        async with self._lock:
            producer_id = self.generate_producer_id_nowait()
            while producer_id is None:
                try:
                    block = await self._allocate()
                except KafkaError as error:
                    raise CoordinatorLoadInProgress(
                        f"failed to allocate producer ids: {error}"
                    ) from error
                self._remaining_ids = iter(range(block.block_start, block.block_end + 1))
                producer_id = self.generate_producer_id_nowait()
            return producer_id
