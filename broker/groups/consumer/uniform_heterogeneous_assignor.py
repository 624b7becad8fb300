"""The assignor ``uniform`` for members that subscribe to different topics.

1. Members keep the partitions of topics that they still subscribe to.
2. Unassigned partitions go to the subscriber with fewest partitions.  Topics with most partitions
   per subscriber come first, as they leave least choice.
3. Topic by topic, partitions move from the member with most to the member with fewest partitions,
   until these differ by at most one.  A move in one topic may allow another one in another topic,
   so the topics are balanced again.

Afterwards no member has a partition that a subscriber with two fewer partitions could have.  That
is not always the most balanced assignment, which would need a search.  Every move improves the
balance, so the iteration ends; it stops after MAX_ITERATION_COUNT passes in any case.

O((partitions + members) log members) for each pass.  Most groups need two; the second moves
nothing.

Invariant: a partition moves only if that improves the balance.

Kafka: UniformHeterogeneousAssignmentBuilder.

Owner: none; pure functions, and an _AssignmentBuilder for one call.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from heapq import heapify, heappop, heappush, heapreplace

from odradek.broker.groups.consumer.assignor import Subscriber
from odradek.broker.groups.consumer.partitions import Partitions, TopicIdPartition, topic_partitions
from odradek.protocol.types import Uuid

#: Kafka's limit.  Chains of overlapping subscriptions need more than two passes.
MAX_ITERATION_COUNT = 16


def assign(
    subscribers: Mapping[str, Subscriber], partition_counts: Mapping[Uuid, int]
) -> dict[str, Partitions]:
    builder = _AssignmentBuilder(subscribers, partition_counts)
    for topic_id in _most_constrained_first(builder.subscribers_by_topic, partition_counts):
        builder.assign_unassigned_partitions(topic_id, partition_counts[topic_id])
    shared = [topic for topic, members in builder.subscribers_by_topic.items() if len(members) > 1]
    for _ in range(MAX_ITERATION_COUNT):
        moved = [builder.balance_topic(topic_id) for topic_id in shared]
        if not any(moved):
            break
    return builder.build_assignment()


def _most_constrained_first(
    subscribers_by_topic: Mapping[Uuid, list[str]], partition_counts: Mapping[Uuid, int]
) -> Iterable[Uuid]:
    """Sort by most partitions per subscriber, then by fewest subscribers."""
    return sorted(
        subscribers_by_topic,
        key=lambda topic_id: (
            -partition_counts[topic_id] / len(subscribers_by_topic[topic_id]),
            len(subscribers_by_topic[topic_id]),
            topic_id,
        ),
    )


class _AssignmentBuilder:
    """The assignment while it is being balanced."""

    def __init__(
        self, subscribers: Mapping[str, Subscriber], partition_counts: Mapping[Uuid, int]
    ) -> None:
        self.subscribers_by_topic: dict[Uuid, list[str]] = {}
        for member in sorted(subscribers):
            for topic_id in sorted(subscribers[member].subscribed_topic_ids):
                self.subscribers_by_topic.setdefault(topic_id, []).append(member)
        self._assigned: dict[Uuid, dict[str, list[int]]] = {
            topic: {} for topic in self.subscribers_by_topic
        }
        self._loads = dict.fromkeys(subscribers, 0)
        self._retained_owners: dict[Uuid, dict[int, str]] = {
            topic: {} for topic in self.subscribers_by_topic
        }
        for member, subscriber in subscribers.items():
            for topic_id, partition in subscriber.assigned_partitions:
                if (
                    topic_id in subscriber.subscribed_topic_ids
                    and partition < partition_counts[topic_id]
                ):
                    self._retained_owners[topic_id][partition] = member
        for topic_id, owners in self._retained_owners.items():
            for partition in sorted(owners):
                self._assign(topic_id, partition, owners[partition])

    def assign_unassigned_partitions(self, topic_id: Uuid, partition_count: int) -> None:
        """Assign the partitions without an owner to the members with fewest partitions."""
        owners = self._retained_owners[topic_id]
        candidates = [
            (self._loads[member], member) for member in self.subscribers_by_topic[topic_id]
        ]
        heapify(candidates)
        for partition in range(partition_count):
            if partition not in owners:
                load, member = candidates[0]
                self._assign(topic_id, partition, member)
                heapreplace(candidates, (load + 1, member))

    def balance_topic(self, topic_id: Uuid) -> bool:
        """Balance the topic; return whether a partition has moved."""
        assigned = self._assigned[topic_id]
        least = [(self._loads[member], member) for member in self.subscribers_by_topic[topic_id]]
        most = [
            (-self._loads[member], member) for member, partitions in assigned.items() if partitions
        ]
        heapify(least)
        heapify(most)
        is_moved = False
        while most:
            load, source = heappop(most)
            to_load, destination = least[0]
            if -load - to_load <= 1:
                break
            self._assign(topic_id, assigned[source].pop(), destination)
            self._loads[source] -= 1
            heapreplace(least, (to_load + 1, destination))
            if assigned[source]:
                heappush(most, (load + 1, source))
            is_moved = True
        return is_moved

    def _assign(self, topic_id: Uuid, partition: int, member: str) -> None:
        self._assigned[topic_id].setdefault(member, []).append(partition)
        self._loads[member] += 1

    def build_assignment(self) -> dict[str, Partitions]:
        assignment: dict[str, list[TopicIdPartition]] = {member: [] for member in self._loads}
        for topic_id, assigned in self._assigned.items():
            for member, partitions in assigned.items():
                assignment[member].extend(topic_partitions(topic_id, partitions))
        return {member: frozenset(partitions) for member, partitions in assignment.items()}
