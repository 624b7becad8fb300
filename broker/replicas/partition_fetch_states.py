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

from odradek.broker.replicas.followed import Followed
from odradek.broker.replicas.partition import Partition
from odradek.protocol.types import TopicPartition

#: For how long at most they are not, under load.  It is longer than a leader usually waits for
#: records (replica.fetch.wait.max.ms), else a lone record's acknowledgement would wait for that.
LOOK_AT_ALL_S = 1.0


class Following:
    """Partitions of one leader."""

    def __init__(self) -> None:
        self._partitions: dict[TopicPartition, Followed] = {}
        #: In the order in which they were; those that are followed no more are among them.
        self._touched: dict[TopicPartition, None] = {}
        #: A heap, by when they have rested; what has been touched since may be there in vain.
        self._resting: list[tuple[float, TopicPartition]] = []
        self._all_due_s = 0.0

    def __iter__(self) -> Iterator[Followed]:
        return iter(self._partitions.values())

    def __len__(self) -> int:
        return len(self._partitions)

    def find(self, where: TopicPartition) -> Followed | None:
        return self._partitions.get(where)

    def follow(self, partition: Partition) -> None:
        """In its epoch of now."""
        where = partition.topic_partition
        self._partitions[where] = Followed(partition)
        self.touch(where)

    def forget(self, where: TopicPartition) -> None:
        self._partitions.pop(where, None)
        self.touch(where)

    def forget_all(self) -> None:
        for where in [*self._partitions]:
            self.forget(where)

    # What is to be looked at

    def touch(self, where: TopicPartition) -> None:
        self._touched[where] = None

    def touch_all(self) -> None:
        """The next time that anything is looked at."""
        self._all_due_s = 0.0

    def rests(self, where: TopicPartition, until_s: float) -> None:
        heappush(self._resting, (until_s, where))

    @property
    def next_due_s(self) -> float:
        """When something is to be looked at, even if nothing is touched before."""
        return min(self._all_due_s, self._resting[0][0]) if self._resting else self._all_due_s

    def wake(self, now_s: float) -> None:
        """Touch those whose time has come."""
        if self._all_due_s <= now_s:
            self._all_due_s = now_s + LOOK_AT_ALL_S
            self._touched.update(dict.fromkeys(self._partitions))
            self._resting.clear()  # those that are not rested by then will be there again
        while self._resting and self._resting[0][0] <= now_s:
            self.touch(heappop(self._resting)[1])

    def touched(self) -> Iterable[TopicPartition]:
        """Since it was last asked, followed or not."""
        touched, self._touched = self._touched, {}
        return touched
