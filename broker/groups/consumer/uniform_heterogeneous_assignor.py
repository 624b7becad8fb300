"""The assignor ``uniform`` where members subscribe to different topics.

1. Members keep what they have and still subscribe to.
2. Free partitions go to the subscriber who has least; topics with few subscribers come first, as
   they leave least choice.
3. Topic by topic, partitions move from whoever has most to whoever has least, until they differ by
   one at most; a move in one topic may make room in another, so the topics are gone through again.

Afterwards nobody has a partition that a member with two fewer could have.  That is not always the
most even assignment there is, which would take a search.  Every move makes the loads more even, so
there is an end to it; after PASSES it is left at what has been reached.

O((partitions + members) log members) for each pass; most groups take two, the second moves nothing.

Invariant: nothing moves that does not make the loads more even.

Owner: none; pure functions, and a Balance for the length of one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from heapq import heapify, heappop, heappush, heapreplace

from odradek.broker.groups.consumer.assignor import Subscriber
from odradek.broker.groups.consumer.partitions import Partitions, TopicIdPartition, of_topic
from odradek.protocol.types import Uuid

PASSES = (
    16  # as many as Kafka allows itself; chains of overlapping subscriptions take more than two
)


def assign(
    subscribers: Mapping[str, Subscriber], partition_counts: Mapping[Uuid, int]
) -> dict[str, Partitions]:
    balance = _Balance(subscribers, partition_counts)
    for topic_id in _hardest_first(balance.members_of, partition_counts):
        balance.give_free_partitions(topic_id, partition_counts[topic_id])
    shared = [topic for topic, members in balance.members_of.items() if len(members) > 1]
    for _ in range(PASSES):
        moved = [balance.even_out(topic_id) for topic_id in shared]
        if not any(moved):
            break
    return balance.assignment()


def _hardest_first(
    members_of: Mapping[Uuid, list[str]], partition_counts: Mapping[Uuid, int]
) -> Iterable[Uuid]:
    """Most partitions for a subscriber, then fewest subscribers."""
    return sorted(
        members_of,
        key=lambda each: (
            -partition_counts[each] / len(members_of[each]),
            len(members_of[each]),
            each,
        ),
    )


class _Balance:
    """Who has what while it is being evened out."""

    def __init__(
        self, subscribers: Mapping[str, Subscriber], partition_counts: Mapping[Uuid, int]
    ) -> None:
        self.members_of: dict[Uuid, list[str]] = {}
        for member in sorted(subscribers):
            for topic_id in sorted(subscribers[member].topics):
                self.members_of.setdefault(topic_id, []).append(member)
        self._has: dict[Uuid, dict[str, list[int]]] = {topic: {} for topic in self.members_of}
        self._loads = dict.fromkeys(subscribers, 0)
        self._keepers: dict[Uuid, dict[int, str]] = {topic: {} for topic in self.members_of}
        for member, subscriber in subscribers.items():
            for topic_id, partition in subscriber.has:
                if topic_id in subscriber.topics and partition < partition_counts[topic_id]:
                    self._keepers[topic_id][partition] = member
        for topic_id, owners in self._keepers.items():
            for partition in sorted(owners):
                self._give(topic_id, partition, owners[partition])

    def give_free_partitions(self, topic_id: Uuid, count: int) -> None:
        """To those who have least."""
        owners = self._keepers[topic_id]
        waiting = [(self._loads[member], member) for member in self.members_of[topic_id]]
        heapify(waiting)
        for partition in range(count):
            if partition not in owners:
                load, member = waiting[0]
                self._give(topic_id, partition, member)
                heapreplace(waiting, (load + 1, member))

    def even_out(self, topic_id: Uuid) -> bool:
        """Whether anything has moved."""
        has = self._has[topic_id]
        least = [(self._loads[member], member) for member in self.members_of[topic_id]]
        most = [(-self._loads[member], member) for member, theirs in has.items() if theirs]
        heapify(least)
        heapify(most)
        is_moved = False
        while most:
            load, giver = heappop(most)
            to_load, taker = least[0]
            if -load - to_load <= 1:
                break
            self._give(topic_id, has[giver].pop(), taker)
            self._loads[giver] -= 1
            heapreplace(least, (to_load + 1, taker))
            if has[giver]:
                heappush(most, (load + 1, giver))
            is_moved = True
        return is_moved

    def _give(self, topic_id: Uuid, partition: int, member: str) -> None:
        self._has[topic_id].setdefault(member, []).append(partition)
        self._loads[member] += 1

    def assignment(self) -> dict[str, Partitions]:
        given: dict[str, list[TopicIdPartition]] = {member: [] for member in self._loads}
        for topic_id, has in self._has.items():
            for member, partitions in has.items():
                given[member].extend(of_topic(topic_id, partitions))
        return {member: frozenset(partitions) for member, partitions in given.items()}
