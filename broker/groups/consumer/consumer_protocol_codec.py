"""What members of the classic protocol tell one another, read and written by the broker for them.

In a group of the consumer protocol there is no leader that would read their subscriptions, and no
one but the broker to write their assignments.  A version newer than ours begins with our fields.

Owner: none; pure functions.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeVar

from odradek.broker.groups.consumer.partitions import (
    NOTHING,
    Partitions,
    TopicIdPartition,
    of_topic,
)
from odradek.broker.groups.consumer.topics import Topics
from odradek.protocol.codec import encode_bytes
from odradek.protocol.compiler import prefix_decoder
from odradek.protocol.errors import DecodeError
from odradek.protocol.internal.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from odradek.protocol.internal.log_record import VERSION, part_version
from odradek.protocol.schema import Message

_NEWEST = 3

M = TypeVar("M", bound=Message)


class ReadSubscription(NamedTuple):
    """What a member says when it joins."""

    names: frozenset[str]
    owned: Partitions
    rack_id: str | None


def read_subscription(blob: bytes, topics: Topics) -> ReadSubscription:
    """Raises DecodeError."""
    told = _read(ConsumerProtocolSubscription, blob)
    owned = frozenset(
        place
        for topic in told.owned_partitions
        for place in _places(topic.topic, topic.partitions, topics)
    )
    return ReadSubscription(frozenset(told.topics), owned, told.rack_id)


def read_assignment(blob: bytes, topics: Topics) -> Partitions:
    """Of topics that exist; none at all if the member was given nothing.  Raises DecodeError."""
    if not blob:
        return NOTHING
    return frozenset(
        place
        for topic in _read(ConsumerProtocolAssignment, blob).assigned_partitions
        for place in _places(topic.topic, topic.partitions, topics)
    )


def written_assignment(partitions: Partitions, topics: Topics, *, like: bytes) -> bytes:
    """In the version of the subscription ``like`` which it answers."""
    by_name: dict[str, list[int]] = {}
    for topic_id, partition in sorted(partitions):
        name = topics.name_of(topic_id)
        if name is not None:
            by_name.setdefault(name, []).append(partition)
    version = _version(like)
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=[
            ConsumerProtocolAssignment.TopicPartitions(topic=name, partitions=numbers)
            for name, numbers in sorted(by_name.items())
        ]
    )
    return VERSION.pack(version) + encode_bytes(assignment, version)


def _read(message: type[M], blob: bytes) -> M:
    decoded: M
    decoded, _ = prefix_decoder(message, _version(blob))(blob, VERSION.size)
    return decoded


def _version(blob: bytes) -> int:
    version = part_version(blob)
    if version < 0:
        raise DecodeError(f"there is no version {version}")
    return min(version, _NEWEST)


def _places(name: str, partitions: list[int], topics: Topics) -> Iterable[TopicIdPartition]:
    topic_id = topics.id_of(name)
    return () if topic_id is None else of_topic(topic_id, partitions)
