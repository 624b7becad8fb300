"""Sets of partitions, by topic id: what members have, shall have and must give up.

Frozen sets of pairs, since all that is ever asked of them is what two have in common and in what
they differ.  On the wire and in the log they are lists of topics with lists of partitions, each
message with a class of its own of the same shape.

Owner: none; immutable, any thread.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol, TypeVar

from odradek.protocol.types import Uuid


class TopicIdPartition(NamedTuple):
    """A partition of a topic, which may have been deleted and created again meanwhile."""

    topic_id: Uuid
    partition: int


Partitions = frozenset[TopicIdPartition]
Made = TypeVar("Made", covariant=True)

NOTHING: Partitions = frozenset()


class ByTopic(Protocol):
    """One topic's part of a list on the wire or in the log."""

    topic_id: Uuid
    partitions: list[int]


class MakesByTopic(Protocol[Made]):
    def __call__(self, *, topic_id: Uuid, partitions: list[int]) -> Made: ...


def from_topics(topics: Iterable[ByTopic]) -> Partitions:
    return frozenset(
        TopicIdPartition(topic.topic_id, partition)
        for topic in topics
        for partition in topic.partitions
    )


def to_topics(partitions: Partitions, make: MakesByTopic[Made]) -> list[Made]:
    """In ascending order, so that equal sets are equal bytes."""
    by_topic: dict[Uuid, list[int]] = {}
    for topic_id, partition in sorted(partitions):
        by_topic.setdefault(topic_id, []).append(partition)
    return [make(topic_id=topic_id, partitions=each) for topic_id, each in by_topic.items()]
