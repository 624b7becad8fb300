"""A partition that is fetched from a leader: since when, from where on, and whether it may be now.

Owner: the event loop; of a fetcher.
"""

from __future__ import annotations

from odradek.broker.replicas.partition import Partition

FIRST_REST_S = 0.02


class Followed:
    """A partition in one leader epoch."""

    __slots__ = (
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
        self.rests_until = 0.0
        #: Whether it had all before the leader's high watermark when that was last heard of.
        self.has_all = False
        #: For how long it rested last, and why; 0 and None once something has been taken.
        self.rest_s = 0.0
        self.trouble: str | None = None

    @property
    def is_current(self) -> bool:
        return self.partition.leader is None and self.partition.leader_epoch == self.epoch

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
