"""The assignor ``range``: splits each topic's partitions into ranges, one for each subscriber.

Subscribers have the same order for all topics.  Topics with the same number of partitions are split
alike: partition n of each of them goes to the same member, which can join the topics.  Static
members come first, ordered by instance id, which survives a restart.

Previous assignments are ignored.  O(partitions + members log members), and members for each topic.

Kafka: RangeAssignor.

Owner: none; pure functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from odradek.broker.groups.consumer.assignor import Subscriber
from odradek.broker.groups.consumer.partitions import Partitions, TopicIdPartition, topic_partitions
from odradek.protocol.types import Uuid


def assign(
    subscribers: Mapping[str, Subscriber], partition_counts: Mapping[Uuid, int]
) -> dict[str, Partitions]:
    assignment: dict[str, list[TopicIdPartition]] = {member: [] for member in subscribers}
    for topic_id, members in _members_by_topic(subscribers).items():
        for member, partitions in zip(
            members,
            split_ranges(partition_counts[topic_id], member_count=len(members)),
            strict=True,
        ):
            assignment[member].extend(topic_partitions(topic_id, partitions))
    return {member: frozenset(partitions) for member, partitions in assignment.items()}


def split_ranges(partition_count: int, *, member_count: int) -> Iterator[range]:
    """Split the partitions into one range per member; the first ranges may be one longer."""
    length, longer = divmod(partition_count, member_count)
    start = 0
    for member_index in range(member_count):
        end = start + length + (member_index < longer)
        yield range(start, end)
        start = end


def _members_by_topic(subscribers: Mapping[str, Subscriber]) -> dict[Uuid, list[str]]:
    members: dict[Uuid, list[str]] = {}
    for member in sort_members(subscribers):
        for topic_id in subscribers[member].subscribed_topic_ids:
            members.setdefault(topic_id, []).append(member)
    return members


def sort_members(subscribers: Mapping[str, Subscriber]) -> Iterable[str]:
    def sort_key(member: str) -> tuple[bool, str]:
        instance_id = subscribers[member].instance_id
        return (instance_id is None, member if instance_id is None else instance_id)

    return sorted(subscribers, key=sort_key)
