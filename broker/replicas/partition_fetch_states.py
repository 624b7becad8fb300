"""The partitions that one fetcher follows, and which of them to check before the next fetch.

Few of the hundreds of partitions that a broker follows receive records at a time, and the cost of a
fetch must not depend on all of them.  So only dirty partitions are checked.  A partition is marked
dirty when

    added or removed    the fetcher starts, restarts or stops following it
    in a response       the leader's response contained it, whatever the result
    delay is over       its backoff or throttle time has ended

Some changes mark nothing dirty: retention moves a log start offset, a topic is throttled, a log is
opened again.  None of them is urgent.  A scan of all partitions finds them.  The scan runs whenever
a response was empty, because then no client waits for the next fetch, and once per
FULL_SCAN_INTERVAL_S if responses are never empty.

Owner: the event loop; part of a fetcher.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush

from odradek.broker.replicas.partition import Partition
from odradek.broker.replicas.partition_fetch_state import PartitionFetchState
from odradek.protocol.types import TopicPartition

#: The longest time between two full scans under load.  It is longer than the usual wait of a leader
#: for records (replica.fetch.wait.max.ms), else the acknowledgement of a single record would wait
#: for a scan.
FULL_SCAN_INTERVAL_S = 1.0


class PartitionFetchStates:
    """The partitions of one leader."""

    def __init__(self) -> None:
        self._states: dict[TopicPartition, PartitionFetchState] = {}
        #: In the order of marking; contains partitions that are no longer followed.
        self._dirty: dict[TopicPartition, None] = {}
        #: A heap by the end of the delay; entries of partitions marked dirty since are obsolete.
        self._delayed: list[tuple[float, TopicPartition]] = []
        self._full_scan_due_s = 0.0

    def __iter__(self) -> Iterator[PartitionFetchState]:
        return iter(self._states.values())

    def __len__(self) -> int:
        return len(self._states)

    def find(self, topic_partition: TopicPartition) -> PartitionFetchState | None:
        return self._states.get(topic_partition)

    def add_partition(self, partition: Partition) -> None:
        """Follow a partition in its present leader epoch."""
        topic_partition = partition.topic_partition
        self._states[topic_partition] = PartitionFetchState(partition)
        self.mark_dirty(topic_partition)

    def remove_partition(self, topic_partition: TopicPartition) -> None:
        self._states.pop(topic_partition, None)
        self.mark_dirty(topic_partition)

    def remove_all(self) -> None:
        for topic_partition in [*self._states]:
            self.remove_partition(topic_partition)

    # Dirty partitions

    def mark_dirty(self, topic_partition: TopicPartition) -> None:
        self._dirty[topic_partition] = None

    def mark_all_dirty(self) -> None:
        """Make the next check a full scan."""
        self._full_scan_due_s = 0.0

    def delay(self, topic_partition: TopicPartition, until_s: float) -> None:
        heappush(self._delayed, (until_s, topic_partition))

    @property
    def next_due_s(self) -> float:
        """The time of the next check if nothing is marked dirty before."""
        return (
            min(self._full_scan_due_s, self._delayed[0][0])
            if self._delayed
            else self._full_scan_due_s
        )

    def mark_due_dirty(self, now_s: float) -> None:
        """Mark the partitions whose delay is over, and all of them if a full scan is due."""
        if self._full_scan_due_s <= now_s:
            self._full_scan_due_s = now_s + FULL_SCAN_INTERVAL_S
            self._dirty.update(dict.fromkeys(self._states))
            self._delayed.clear()  # partitions with a remaining delay are pushed again
        while self._delayed and self._delayed[0][0] <= now_s:
            self.mark_dirty(heappop(self._delayed)[1])

    def take_dirty(self) -> Iterable[TopicPartition]:
        """Return the partitions marked dirty since the last call, followed or not."""
        dirty, self._dirty = self._dirty, {}
        return dirty
