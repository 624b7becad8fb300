"""What one fetcher follows, and what of it is looked at before the next fetch.

Of hundreds of partitions that a broker follows, few get records at a time, and a fetch must not
cost what all do.  So one is looked at when it is touched:

    followed    for the first time or anew; or no more
    answered    the leader has told of it, whatever came of that
    rested      it was left alone for a while, which is over

Nobody tells when retention moves the start of a log, a topic is throttled or a log is opened again,
and none of it is urgent.  It is found by looking at all: whenever the leader had nothing to tell,
since then nobody waits for the next fetch, and now and then if it always has something.

Owner: the event loop; of a fetcher.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush

from odradek.broker.replicas.partition import Partition
from odradek.broker.replicas.partition_fetch_state import PartitionFetchState
from odradek.protocol.types import TopicPartition

#: For how long at most they are not, under load.  It is longer than a leader usually waits for
#: records (replica.fetch.wait.max.ms), else a lone record's acknowledgement would wait for that.
FULL_SCAN_INTERVAL_S = 1.0


class PartitionFetchStates:
    """Partitions of one leader."""

    def __init__(self) -> None:
        self._states: dict[TopicPartition, PartitionFetchState] = {}
        #: In the order in which they were; those that are followed no more are among them.
        self._dirty: dict[TopicPartition, None] = {}
        #: A heap, by when they have rested; what has been touched since may be there in vain.
        self._delayed: list[tuple[float, TopicPartition]] = []
        self._full_scan_due_s = 0.0

    def __iter__(self) -> Iterator[PartitionFetchState]:
        return iter(self._states.values())

    def __len__(self) -> int:
        return len(self._states)

    def find(self, topic_partition: TopicPartition) -> PartitionFetchState | None:
        return self._states.get(topic_partition)

    def add_partition(self, partition: Partition) -> None:
        """In its epoch of now."""
        topic_partition = partition.topic_partition
        self._states[topic_partition] = PartitionFetchState(partition)
        self.mark_dirty(topic_partition)

    def remove_partition(self, topic_partition: TopicPartition) -> None:
        self._states.pop(topic_partition, None)
        self.mark_dirty(topic_partition)

    def remove_all(self) -> None:
        for topic_partition in [*self._states]:
            self.remove_partition(topic_partition)

    # What is to be looked at

    def mark_dirty(self, topic_partition: TopicPartition) -> None:
        self._dirty[topic_partition] = None

    def mark_all_dirty(self) -> None:
        """The next time that anything is looked at."""
        self._full_scan_due_s = 0.0

    def delay(self, topic_partition: TopicPartition, until_s: float) -> None:
        heappush(self._delayed, (until_s, topic_partition))

    @property
    def next_due_s(self) -> float:
        """When something is to be looked at, even if nothing is touched before."""
        return (
            min(self._full_scan_due_s, self._delayed[0][0])
            if self._delayed
            else self._full_scan_due_s
        )

    def mark_due_dirty(self, now_s: float) -> None:
        """Touch those whose time has come."""
        if self._full_scan_due_s <= now_s:
            self._full_scan_due_s = now_s + FULL_SCAN_INTERVAL_S
            self._dirty.update(dict.fromkeys(self._states))
            self._delayed.clear()  # those that are not rested by then will be there again
        while self._delayed and self._delayed[0][0] <= now_s:
            self.mark_dirty(heappop(self._delayed)[1])

    def take_dirty(self) -> Iterable[TopicPartition]:
        """Since it was last asked, followed or not."""
        dirty, self._dirty = self._dirty, {}
        return dirty
