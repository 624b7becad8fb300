"""A partition that is fetched from a leader: since when, from where on, and whether it may be now.

Owner: the event loop; of a fetcher.
"""

from __future__ import annotations

from odradek.broker.replicas.follower_session import Asked, Wanted
from odradek.broker.replicas.partition import Partition
from odradek.protocol.types import ZERO_UUID

FIRST_REST_S = 0.02


class Followed:
    """A partition in one leader epoch."""

    __slots__ = (
        "_wanted",
        "asked_offset",
        "epoch",
        "has_all",
        "is_new",
        "partition",
        "rest_s",
        "rests_until",
        "trouble",
    )

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.epoch = partition.leader_epoch
        #: Whether it may have a tail that its leader cannot be asked about.
        self.is_new = True
        #: Where its log ended when it was last asked for; None if it was not.
        self.asked_offset: int | None = None
        self._wanted: Wanted | None = None
        self.rests_until = 0.0
        #: Whether it had all before the leader's high watermark when that was last heard of.
        self.has_all = False
        #: For how long it rested last, and why; 0 and None once something has been taken.
        self.rest_s = 0.0
        self.trouble: str | None = None

    @property
    def is_current(self) -> bool:
        return self.partition.leader is None and self.partition.leader_epoch == self.epoch

    def wanted(self, limit_bytes: int) -> Wanted:
        """From the end of its log on; the same object as before, if nothing else is wanted."""
        own = self.partition.log
        end, start, epoch = own.end_offset, own.start_offset, own.epochs.latest_epoch
        topic_id = self.partition.topic_id or ZERO_UUID
        self.asked_offset = end
        last = self._wanted
        if (
            last is None
            or last.asked.fetch_offset != end
            or last.asked.log_start_offset != start
            or last.asked.last_fetched_epoch != epoch
            or last.asked.partition_max_bytes != limit_bytes
            or last.topic_id is not topic_id
        ):
            asked = Asked(
                partition=self.partition.topic_partition.partition,
                current_leader_epoch=self.epoch,
                fetch_offset=end,
                last_fetched_epoch=epoch,
                log_start_offset=start,
                partition_max_bytes=limit_bytes,
            )
            last = self._wanted = Wanted(asked, topic_id)
        return last

    def rest(self, *, now_s: float, most_s: float) -> None:
        """Each time twice as long: most likely the leader is about to be told that it leads."""
        self.rest_s = min(most_s, max(FIRST_REST_S, 2 * self.rest_s))
        self.rests_until = now_s + self.rest_s

    def taken(self, *, high_watermark: int) -> None:
        """All is well; ``high_watermark`` is the leader's."""
        self.rest_s, self.trouble = 0.0, None
        self.has_all = self.partition.log.end_offset >= high_watermark

    @property
    def is_as_asked(self) -> bool:
        return self.is_current and self.asked_offset == self.partition.log.end_offset
