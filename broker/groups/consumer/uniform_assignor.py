"""The assignor ``uniform``: balanced and sticky.

If all members subscribe to the same topics, partition counts differ by at most one, and no other
balanced assignment moves fewer partitions: the members with most partitions get the extra ones.
O(partitions + members log members).  For different subscriptions see
uniform_heterogeneous_assignor.py.

Kafka: UniformAssignor, UniformHomogeneousAssignmentBuilder.

Owner: none; pure functions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain, islice

from odradek.broker.groups.consumer import uniform_heterogeneous_assignor
from odradek.broker.groups.consumer.assignor import Subscriber, is_homogeneous
from odradek.broker.groups.consumer.partitions import Partitions, TopicIdPartition, topic_partitions
from odradek.protocol.types import Uuid


def assign(
    subscribers: Mapping[str, Subscriber], partition_counts: Mapping[Uuid, int]
) -> dict[str, Partitions]:
    if not subscribers:
        return {}
    if not is_homogeneous(subscribers):
        return uniform_heterogeneous_assignor.assign(subscribers, partition_counts)
    topics = next(iter(subscribers.values())).subscribed_topic_ids
    return _assign_evenly(subscribers, _all_partitions(topics, partition_counts))


def _all_partitions(
    topics: frozenset[Uuid], partition_counts: Mapping[Uuid, int]
) -> list[TopicIdPartition]:
    return [
        *chain.from_iterable(
            topic_partitions(topic_id, range(partition_counts[topic_id]))
            for topic_id in sorted(topics)
        )
    ]


def _assign_evenly(
    subscribers: Mapping[str, Subscriber], partitions: list[TopicIdPartition]
) -> dict[str, Partitions]:
    assignable = frozenset(partitions)
    retained = {
        member: subscriber.assigned_partitions & assignable
        for member, subscriber in subscribers.items()
    }
    quotas = dict(_quotas(retained, len(partitions)))
    for member, quota in quotas.items():
        if len(retained[member]) > quota:
            retained[member] = frozenset(sorted(retained[member])[:quota])
    taken = frozenset().union(*retained.values())
    free = iter([partition for partition in partitions if partition not in taken])
    for member, quota in quotas.items():
        missing = quota - len(retained[member])
        if missing:
            retained[member] |= frozenset(islice(free, missing))
    return retained


def _quotas(retained: Mapping[str, Partitions], partition_count: int) -> Iterator[tuple[str, int]]:
    """Yield the partition count of each member, beginning with those that have most now."""
    least, extra = divmod(partition_count, len(retained))
    for index, member in enumerate(
        sorted(retained, key=lambda member_id: (-len(retained[member_id]), member_id))
    ):
        yield member, least + (index < extra)
