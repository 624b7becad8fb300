"""DeleteRecords: moves the log start offset of a partition forward on all its replicas.

The leader increments its log start offset at once.  Followers learn the new offset from their fetch
responses, and report their own log start offset in the next fetch.  The operation is complete when
every replica on a live broker, and a future log if there is one, has reached the offset.  Retention
removes the segments before the log start offset.

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from odradek.broker.replicas.fetch_watcher import WatcherEvent
from odradek.broker.replicas.partition import Partition
from odradek.protocol.errors import OffsetOutOfRange, PolicyViolation, RequestTimedOut
from odradek.storage.manager.hosted_log import HostedLog

HIGH_WATERMARK = -1


class DelayedDeleteRecords:
    """The deletion of all records before an offset of one partition."""

    def __init__(
        self,
        partition: Partition,
        offset: int,
        *,
        is_alive: Callable[[int], bool],
        future_log: Callable[[], HostedLog | None],
    ) -> None:
        """Increment the leader's log start offset; -1 means the high watermark."""
        self._partition = partition
        self._is_alive = is_alive
        self._future_log = future_log
        partition.require_leader()
        with partition.hosted_log as log:
            if not log.settings.deletes_old_segments:
                raise PolicyViolation(
                    f"Records of partition {log.partition} can not be deleted due to the "
                    "configured policy"
                )
            self._offset = log.high_watermark if offset == HIGH_WATERMARK else offset
            if self._offset < 0:
                raise OffsetOutOfRange(f"The offset {offset} is not valid")
            log.maybe_increment_log_start_offset(self._offset)
        future = future_log()
        if future is not None and future.is_usable:
            future.log.maybe_increment_log_start_offset(
                min(self._offset, future.log.high_watermark)
            )
        # Waiting follower fetches complete at once and carry the new log start offset.
        partition.notify_watchers()

    def low_watermark(self) -> int:
        """Return the lowest log start offset of all live replicas.

        Raises NotLeaderOrFollower if this broker no longer leads the partition.
        """
        leader_state = self._partition.require_leader()
        lowest = leader_state.low_watermark(
            self._partition.log.log_start_offset, is_alive=self._is_alive
        )
        future = self._future_log()
        if future is not None and future.is_usable:
            lowest = min(lowest, future.log.log_start_offset)
        return lowest

    def is_done(self) -> bool:
        return self.low_watermark() >= self._offset

    async def wait_until_done(self, timeout_s: float) -> None:
        watchers, event = self._partition.fetch_watchers, WatcherEvent()
        watchers.add(event)
        try:
            async with asyncio.timeout(timeout_s):
                while not self.is_done():
                    await event.wait_next()
        except TimeoutError:
            raise RequestTimedOut(
                f"not all replicas of {self._partition.topic_partition} have reached log start "
                f"offset {self._offset}"
            ) from None
        finally:
            watchers.discard(event)
