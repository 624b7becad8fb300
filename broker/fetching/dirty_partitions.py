"""Dirty partitions: which partitions of a fetch must be read, and which watchers notify it.

    AllPartitions     without a session: all partitions, every time
    DirtyPartitions   in a session: those that may have changed

A session may have thousands of partitions, of which few change between two fetches.  A partition
that the next fetch would skip is *clean*: it is not read any more, but registered as a watcher of
its partition, and becomes dirty as soon as it is notified.

Some changes notify no watcher: the log start offset moves when old segments are deleted, and a
follower may be recorded by another of its sessions.  A full scan finds these from time to time.

High watermarks do not notify followers either, but need no scan: a partition that is clean for a
follower has its high watermark at the log end offset, where it stays until the next append.

Invariant: every clean partition is registered as a watcher; while a fetch waits, all are.
Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from operator import attrgetter
from typing import NamedTuple

from odradek.broker.fetching.fetch_partition import FetchPartition, PartitionKey
from odradek.broker.replicas.fetch_watcher import FetchWatcher, register, unregister

#: The longest delay of a change that notifies no watcher.  It is shorter than the usual wait of a
#: fetch, so an idle session scans its partitions no more often than its fetches would.
FULL_SCAN_INTERVAL_MS = 200
_rank_of = attrgetter("rank")


class FetchRequester(NamedTuple):
    """The requester for which partitions were found clean; for another they may not be."""

    replica_id: int
    replica_epoch: int
    isolation_level: int

    @property
    def is_follower(self) -> bool:
        return self.replica_id >= 0


class AllPartitions:
    """Every partition is due in every pass; a delayed fetch watches all until it completes."""

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
        """Do nothing: the partition is due the next time as well."""

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
    """The partitions of a session; all are dirty at first."""

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
        """``partitions`` belongs to the session, which changes it."""
        self._partitions = partitions
        self._requester = requester
        self._now_ms = now_ms
        self._full_scan_interval_ms = full_scan_interval_ms
        #: The start of the last pass over all partitions.
        self._last_full_scan_ms = now_ms()
        self._dirty: set[FetchPartition] = set()
        self._ranks = count()
        #: The delayed fetches: one, unless the client sent another before its response.
        self._watchers: set[FetchWatcher] = set()
        self._is_closed = False
        for fetch_partition in partitions.values():
            self.add(fetch_partition)

    def __len__(self) -> int:
        return len(self._partitions)

    def __iter__(self) -> Iterator[FetchPartition]:
        return iter(self._partitions.values())

    # Called by the session

    def add(self, fetch_partition: FetchPartition) -> None:
        """Mark a partition dirty that is new, or whose request changed."""
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
        """No further fetch will come.  A fetch in progress goes on as one without a session."""
        self._is_closed = True
        self._mark_all_dirty()
        self._unregister_if_closed()

    # Called by the fetches of the session

    def due_partitions(self) -> list[FetchPartition]:
        """Return the dirty partitions, in the order of the session."""
        now_ms = self._now_ms()
        if now_ms - self._last_full_scan_ms >= self._full_scan_interval_ms:
            self._last_full_scan_ms = now_ms
            self._mark_all_dirty()
        return sorted(self._dirty, key=_rank_of)

    def mark_clean(self, fetch_partition: FetchPartition) -> None:
        """Mark a partition clean that was just checked: it cannot have changed since."""
        # The client may have forgotten it since it was due.
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

    # Called by partitions

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


#: The partitions of a fetch.
FetchPartitions = AllPartitions | DirtyPartitions
