"""Deleting the oldest records of a partition: its start moves forward, here and at its followers.

The leader's start moves at once; followers learn of it by their fetches, and tell by their next
ones where they begin.  It is done when no replica on a live broker, and no copy on its way to
another directory, begins earlier.  Segments that are left before the start are removed by
retention.

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from odradek.broker.replicas.partition import Partition
from odradek.broker.replicas.waiter import Stir
from odradek.protocol.errors import OffsetOutOfRange, PolicyViolation, RequestTimedOut
from odradek.storage.manager.hosted_log import HostedLog

HIGH_WATERMARK = -1


class RecordDeletion:
    """All before an offset of one partition is to be deleted."""

    def __init__(
        self,
        partition: Partition,
        offset: int,
        *,
        is_alive: Callable[[int], bool],
        copy: Callable[[], HostedLog | None],
    ) -> None:
        """Moves the leader's start; -1 stands for the high watermark."""
        self._partition = partition
        self._is_alive = is_alive
        self._copy = copy
        partition.leading()
        with partition.hosted as log:
            if not log.settings.deletes_old_segments:
                raise PolicyViolation(f"{log.partition} is compacted, its records are not deleted")
            self._offset = log.high_watermark if offset == HIGH_WATERMARK else offset
            if self._offset < 0:
                raise OffsetOutOfRange(f"{offset} is no offset")
            log.advance_start(self._offset)
        moving = copy()
        if moving is not None and moving.is_usable:
            moving.log.advance_start(min(self._offset, moving.log.high_watermark))
        # Followers that wait for records hear of it at once.
        partition.wake()

    def low_watermark(self) -> int:
        """Where the first of all replicas begins; NotLeader if others are to be asked by now."""
        role = self._partition.leading()
        lowest = role.lowest_start(self._partition.log.start_offset, is_alive=self._is_alive)
        moving = self._copy()
        if moving is not None and moving.is_usable:
            lowest = min(lowest, moving.log.start_offset)
        return lowest

    def is_done(self) -> bool:
        return self.low_watermark() >= self._offset

    async def wait_until_done(self, timeout_s: float) -> None:
        waiting, stir = self._partition.waiting, Stir()
        waiting.add(stir)
        try:
            async with asyncio.timeout(timeout_s):
                while not self.is_done():
                    await stir.next()
        except TimeoutError:
            raise RequestTimedOut(
                f"not all replicas of {self._partition.topic_partition} begin at {self._offset} yet"
            ) from None
        finally:
            waiting.discard(stir)
