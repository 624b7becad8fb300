"""The assignor ``range``: each topic's partitions are cut into runs, one for each subscriber.

Subscribers stand in one order for all topics, so that those with the same number of partitions are
cut alike: partition n of one and of the other meet at the same member, which joins them.  Static
members are ordered by their instance ids, which survive a restart; they stand before the others.

What members had plays no part.  O(partitions + members log members), and members for each topic.

Owner: none; pure functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from odradek.broker.groups.consumer.assignor import Subscriber
from odradek.broker.groups.consumer.partitions import Partitions, TopicIdPartition, of_topic
from odradek.protocol.types import Uuid


def assign(
    subscribers: Mapping[str, Subscriber], partition_counts: Mapping[Uuid, int]
) -> dict[str, Partitions]:
    given: dict[str, list[TopicIdPartition]] = {member: [] for member in subscribers}
    for topic_id, members in _members_by_topic(subscribers).items():
        for member, partitions in zip(
            members, runs(partition_counts[topic_id], among=len(members)), strict=True
        ):
            given[member].extend(of_topic(topic_id, partitions))
    return {member: frozenset(partitions) for member, partitions in given.items()}


def runs(count: int, *, among: int) -> Iterator[range]:
    """``count`` partitions in ``among`` runs; the first are one longer if it does not come out."""
    length, longer = divmod(count, among)
    start = 0
    for number in range(among):
        end = start + length + (number < longer)
        yield range(start, end)
        start = end


def _members_by_topic(subscribers: Mapping[str, Subscriber]) -> dict[Uuid, list[str]]:
    members: dict[Uuid, list[str]] = {}
    for member in in_order(subscribers):
        for topic_id in subscribers[member].topics:
            members.setdefault(topic_id, []).append(member)
    return members


def in_order(subscribers: Mapping[str, Subscriber]) -> Iterable[str]:
    def place(member: str) -> tuple[bool, str]:
        instance_id = subscribers[member].instance_id
        return (instance_id is None, member if instance_id is None else instance_id)

    return sorted(subscribers, key=place)
