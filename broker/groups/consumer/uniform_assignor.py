"""The assignor ``uniform``: members have equally many partitions, and keep what they have.

Where all subscribe to the same topics, nobody has more than one partition more than anybody else,
and no assignment as even as that moves fewer partitions: the places for one more go to those who
have most.  O(partitions + members log members).  Where they do not, see assign_mixed.py.

Owner: none; pure functions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain, islice

from odradek.broker.groups.consumer import assign_mixed
from odradek.broker.groups.consumer.assignor import Subscriber, subscribe_to_the_same
from odradek.broker.groups.consumer.partitions import Partitions, TopicIdPartition, of_topic
from odradek.protocol.types import Uuid


def assign(
    subscribers: Mapping[str, Subscriber], partition_counts: Mapping[Uuid, int]
) -> dict[str, Partitions]:
    if not subscribers:
        return {}
    if not subscribe_to_the_same(subscribers):
        return assign_mixed.assign(subscribers, partition_counts)
    topics = next(iter(subscribers.values())).topics
    return _evenly(subscribers, _all_partitions(topics, partition_counts))


def _all_partitions(
    topics: frozenset[Uuid], partition_counts: Mapping[Uuid, int]
) -> list[TopicIdPartition]:
    return [
        *chain.from_iterable(
            of_topic(topic_id, range(partition_counts[topic_id])) for topic_id in sorted(topics)
        )
    ]


def _evenly(
    subscribers: Mapping[str, Subscriber], partitions: list[TopicIdPartition]
) -> dict[str, Partitions]:
    assignable = frozenset(partitions)
    kept = {member: each.has & assignable for member, each in subscribers.items()}
    quotas = dict(_quotas(kept, len(partitions)))
    for member, quota in quotas.items():
        if len(kept[member]) > quota:
            kept[member] = frozenset(sorted(kept[member])[:quota])
    taken = frozenset().union(*kept.values())
    free = iter([each for each in partitions if each not in taken])
    for member, quota in quotas.items():
        missing = quota - len(kept[member])
        if missing:
            kept[member] |= frozenset(islice(free, missing))
    return kept


def _quotas(kept: Mapping[str, Partitions], count: int) -> Iterator[tuple[str, int]]:
    """How many partitions each member gets, those who have most first."""
    least, extra = divmod(count, len(kept))
    for place, member in enumerate(sorted(kept, key=lambda each: (-len(kept[each]), each))):
        yield member, least + (place < extra)
