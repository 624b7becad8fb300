"""Sets of partitions by topic id: assigned partitions, target partitions, pending revocations.

They are frozen sets of pairs, since the code needs only intersections and differences.  The pairs
are plain tuples that are built in bulk: 10,000 of them, as a group may have, take 0.5 ms, while
named tuples take 4 ms.  On the wire and in the log they are lists of topics with lists of
partitions; each message has its own class of the same shape.

Owner: none; immutable, any thread.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import chain, repeat
from typing import Protocol, TypeVar

from odradek.protocol.types import Uuid

#: Topic id and partition index.  The id distinguishes a topic from a later one of the same name.
TopicIdPartition = tuple[Uuid, int]
Partitions = frozenset[TopicIdPartition]
Entry = TypeVar("Entry", covariant=True)

NO_PARTITIONS: Partitions = frozenset()


class TopicPartitionList(Protocol):
    """The partitions of one topic in a message or record."""

    topic_id: Uuid
    partitions: list[int]


class TopicPartitionListFactory(Protocol[Entry]):
    def __call__(self, *, topic_id: Uuid, partitions: list[int]) -> Entry: ...


def topic_partitions(
    topic_id: Uuid, partition_indexes: Iterable[int]
) -> Iterable[TopicIdPartition]:
    return zip(repeat(topic_id), partition_indexes)


def partitions_from_topics(topics: Iterable[TopicPartitionList]) -> Partitions:
    return frozenset(
        chain.from_iterable(topic_partitions(topic.topic_id, topic.partitions) for topic in topics)
    )


def partitions_to_topics(
    partitions: Partitions, factory: TopicPartitionListFactory[Entry]
) -> list[Entry]:
    """Return lists in ascending order, so that equal sets have equal bytes."""
    by_topic: dict[Uuid, list[int]] = defaultdict(list)
    for topic_id, partition in partitions:
        by_topic[topic_id].append(partition)
    return [
        factory(topic_id=topic_id, partitions=sorted(by_topic[topic_id]))
        for topic_id in sorted(by_topic)
    ]
