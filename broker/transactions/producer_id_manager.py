"""Generates producer ids from blocks that the controller allocates to this broker alone.

Kafka: ProducerIdManager.

The next block is requested when the last id is used, once for all callers that wait.  The rest of a
block is never used after the broker stops.  Producers do not know about the controller: if it is
not available they get COORDINATOR_LOAD_IN_PROGRESS, as in Kafka, and retry.

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from odradek.protocol.errors import CoordinatorLoadInProgress, KafkaError


class ProducerIdsBlock(Protocol):
    """A block of producer ids; both ends are included."""

    @property
    def block_start(self) -> int: ...

    @property
    def block_end(self) -> int: ...


class ProducerIdAllocator(Protocol):
    """Requests a block from the controller; raises a KafkaError if there is none, or it rejects."""

    async def __call__(self) -> ProducerIdsBlock: ...


class ProducerIdManager:
    """Returns each id of its blocks once, in order."""

    def __init__(self, allocate: ProducerIdAllocator) -> None:
        self._allocate = allocate
        self._remaining_ids = iter(range(0))
        self._lock = asyncio.Lock()

    def generate_producer_id_nowait(self) -> int | None:
        """Return None if a block has to be requested first."""
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
