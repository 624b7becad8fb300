"""The assignor ``uniform``: members have equally many partitions, and keep what they have.

Where all subscribe to the same topics, nobody has more than one partition more than anybody else,
and no assignment as even as that moves fewer partitions: the places for one more go to those who
have most.  O(partitions + members log members).  Where they do not, see assign_mixed.py.

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
    """How many partitions each member gets, those who have most first."""
    least, extra = divmod(partition_count, len(retained))
    for index, member in enumerate(
        sorted(retained, key=lambda member_id: (-len(retained[member_id]), member_id))
    ):
        yield member, least + (index < extra)
