"""Which partitions of a fetch are to be looked at, and who is woken when one of them stirs.

    AllPartitions       without a session: all, every time
    StirredPartitions   in a session: those of which there may be news

A session may have thousands of partitions, of which few stir from one fetch to the next.  One that
would be passed over by the next is *quiet*: it is not looked at any more, but stands at its
partition, and is among the stirred again as soon as it is woken there.

What changes without waking anybody is found by looking at all from time to time: where a log
begins, when old segments are deleted; that a follower was noted by another of its sessions.

High watermarks do not wake followers either, but are no such case: what is quiet for a follower has
its watermark at the end of the log, where it stays until something is appended.

Invariant: whatever is not stirred stands at its partition; and while a fetch waits, all do.
Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from operator import attrgetter
from typing import NamedTuple

from odradek.broker.fetching.fetch_partition import FetchPartition, PartitionKey
from odradek.broker.replicas.fetch_watcher import FetchWatcher, register, unregister

#: How late a client may be told of what wakes nobody.  It is less than a fetch waits as a rule, so
#: an idle session goes over all of its partitions no more often than it would by its fetches.
FULL_SCAN_INTERVAL_MS = 200
_rank_of = attrgetter("rank")


class FetchRequester(NamedTuple):
    """On whose behalf partitions were found quiet: for another they may not be."""

    replica_id: int
    replica_epoch: int
    isolation_level: int

    @property
    def is_follower(self) -> bool:
        return self.replica_id >= 0


class AllPartitions:
    """Each is due in every pass, and whoever waits stands at all of them until it goes."""

    __slots__ = ("_is_follower", "_partitions", "_watcher_sets")

    def __init__(
        self, partitions: dict[PartitionKey, FetchPartition], *, is_follower: bool
    ) -> None:
        self._partitions = list(partitions.values())
        self._is_follower = is_follower
        self._watcher_sets: list[set[FetchWatcher]] = []

    def __len__(self) -> int:
        return len(self._partitions)

    def __iter__(self) -> Iterator[FetchPartition]:
        return iter(self._partitions)

    def due_partitions(self) -> list[FetchPartition]:
        return self._partitions

    def mark_clean(self, fetch_partition: FetchPartition) -> None:
        """It is due the next time all the same."""

    def register(self, watcher: FetchWatcher) -> None:
        if self._watcher_sets:
            return
        partitions = [
            fetch_partition.partition
            for fetch_partition in self._partitions
            if fetch_partition.partition is not None
        ]
        if self._is_follower:
            self._watcher_sets = [partition.follower_fetch_watchers for partition in partitions]
        else:
            self._watcher_sets = [partition.fetch_watchers for partition in partitions]
        register(watcher, self._watcher_sets)

    def unregister(self, watcher: FetchWatcher) -> None:
        unregister(watcher, self._watcher_sets)
        self._watcher_sets = []


class DirtyPartitions:
    """Those of a session: at first all are stirred."""

    __slots__ = (
        "_dirty",
        "_full_scan_interval_ms",
        "_is_closed",
        "_last_full_scan_ms",
        "_now_ms",
        "_partitions",
        "_ranks",
        "_requester",
        "_watchers",
    )

    def __init__(
        self,
        partitions: dict[PartitionKey, FetchPartition],
        requester: FetchRequester,
        *,
        now_ms: Callable[[], int],
        full_scan_interval_ms: int = FULL_SCAN_INTERVAL_MS,
    ) -> None:
        """``partitions`` are the session's, which changes them."""
        self._partitions = partitions
        self._requester = requester
        self._now_ms = now_ms
        self._full_scan_interval_ms = full_scan_interval_ms
        #: When the last pass over all of them began.
        self._last_full_scan_ms = now_ms()
        self._dirty: set[FetchPartition] = set()
        self._ranks = count()
        #: The fetches that wait; one, unless the client sent another before it was answered.
        self._watchers: set[FetchWatcher] = set()
        self._is_closed = False
        for fetch_partition in partitions.values():
            self.add(fetch_partition)

    def __len__(self) -> int:
        return len(self._partitions)

    def __iter__(self) -> Iterator[FetchPartition]:
        return iter(self._partitions.values())

    # What the session says

    def add(self, fetch_partition: FetchPartition) -> None:
        """It is new, or something else is wanted of it."""
        if fetch_partition.dirty_listener is not self:
            fetch_partition.dirty_listener, fetch_partition.rank = self, next(self._ranks)
        self._dirty.add(fetch_partition)

    def remove(self, fetch_partition: FetchPartition) -> None:
        self._dirty.discard(fetch_partition)
        fetch_partition.unregister()

    def move_to_end(self, fetch_partition: FetchPartition) -> None:
        fetch_partition.rank = next(self._ranks)

    def set_requester(self, requester: FetchRequester) -> None:
        if requester != self._requester:
            self._requester = requester
            self._mark_all_dirty()

    def close(self) -> None:
        """No other fetch will come.  One that is under way goes on as one without a session."""
        self._is_closed = True
        self._mark_all_dirty()
        self._unregister_if_closed()

    # What its fetches say

    def due_partitions(self) -> list[FetchPartition]:
        """In the order of the session."""
        now_ms = self._now_ms()
        if now_ms - self._last_full_scan_ms >= self._full_scan_interval_ms:
            self._last_full_scan_ms = now_ms
            self._mark_all_dirty()
        return sorted(self._dirty, key=_rank_of)

    def mark_clean(self, fetch_partition: FetchPartition) -> None:
        """It was found quiet just now: nothing can have stirred since."""
        # It may have been forgotten since it was due.
        if fetch_partition in self._dirty and not self._is_closed:
            self._dirty.discard(fetch_partition)
            fetch_partition.register(is_follower=self._requester.is_follower)

    def register(self, watcher: FetchWatcher) -> None:
        self._watchers.add(watcher)
        is_follower = self._requester.is_follower
        for fetch_partition in self._dirty:
            fetch_partition.register(is_follower=is_follower)

    def unregister(self, watcher: FetchWatcher) -> None:
        self._watchers.discard(watcher)
        self._unregister_if_closed()

    # What partitions say

    @property
    def has_pending_fetch(self) -> bool:
        return bool(self._watchers)

    def mark_dirty(self, fetch_partition: FetchPartition) -> None:
        self._dirty.add(fetch_partition)
        for watcher in self._watchers:
            watcher.notify()

    def _mark_all_dirty(self) -> None:
        self._dirty.update(self._partitions.values())

    def _unregister_if_closed(self) -> None:
        if self._is_closed and not self._watchers:
            for fetch_partition in self._partitions.values():
                fetch_partition.unregister()


#: Those that a fetch wants.
FetchPartitions = AllPartitions | DirtyPartitions
