"""What the leader of a partition knows beside its log: who is in sync, and how far each has come.

The high watermark is the lowest log end in the in-sync set, the leader's own among them: what lies
before it is on every replica that may lead next.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable


class LeaderRole:
    """One broker's time as the leader, from one leader epoch to the next."""

    __slots__ = ("_ends", "_starts", "epoch", "in_sync", "local_id", "replicas", "start_offset")

    def __init__(
        self,
        *,
        local_id: int,
        epoch: int,
        start_offset: int,
        replicas: Iterable[int],
        in_sync: Iterable[int],
    ) -> None:
        """``start_offset`` is where the log ended when the epoch began."""
        self.local_id = local_id
        self.epoch = epoch
        self.start_offset = start_offset
        self.replicas = tuple(replicas)
        self.in_sync = frozenset(in_sync)
        #: Where the followers' logs end; one that has not fetched yet is nowhere.
        self._ends = {replica: -1 for replica in self.replicas if replica != local_id}
        #: Where they start.
        self._starts = dict(self._ends)

    def note_follower(self, replica_id: int, *, end_offset: int, start_offset: int) -> bool:
        """What a follower's fetch has told; whether its start has moved."""
        has_moved = self._starts.get(replica_id) != start_offset
        self._ends[replica_id] = end_offset
        self._starts[replica_id] = start_offset
        return has_moved

    def lowest_start(self, log_start: int, *, is_alive: Callable[[int], bool]) -> int:
        """Where the first of all replicas begins; -1 if one that is alive has not told yet."""
        starts = [start for replica, start in self._starts.items() if is_alive(replica)]
        return min([log_start, *starts])

    def replicated_up_to(self, log_end: int) -> int | None:
        """How far every replica in sync has come; None if one has not been heard of yet."""
        lowest = log_end
        for replica in self.in_sync:
            if replica != self.local_id:
                lowest = min(lowest, self._ends.get(replica, -1))
        return lowest if lowest >= 0 else None
