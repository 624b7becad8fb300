"""What members of the classic protocol tell one another, read and written by the broker for them.

In a group of the consumer protocol there is no leader that would read their subscriptions, and no
one but the broker to write their assignments.  A version newer than ours begins with our fields.

Owner: none; pure functions.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeVar

from odradek.broker.groups.consumer.partitions import (
    NO_PARTITIONS,
    Partitions,
    TopicIdPartition,
    topic_partitions,
)
from odradek.broker.groups.consumer.topics import TopicsSnapshot
from odradek.protocol.codec import encode_bytes
from odradek.protocol.compiler import prefix_decoder
from odradek.protocol.errors import DecodeError
from odradek.protocol.internal.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from odradek.protocol.internal.coordinator_record import VERSION, read_version_prefix
from odradek.protocol.schema import Message

_HIGHEST_SUPPORTED_VERSION = 3

M = TypeVar("M", bound=Message)


class MemberSubscription(NamedTuple):
    """What a member says when it joins."""

    topic_names: frozenset[str]
    owned_partitions: Partitions
    rack_id: str | None


def deserialize_subscription(blob: bytes, topics: TopicsSnapshot) -> MemberSubscription:
    """Raises DecodeError."""
    subscription = _deserialize(ConsumerProtocolSubscription, blob)
    owned = frozenset(
        partition
        for topic in subscription.owned_partitions
        for partition in _partitions_of_topic(topic.topic, topic.partitions, topics)
    )
    return MemberSubscription(frozenset(subscription.topics), owned, subscription.rack_id)


def deserialize_assignment(blob: bytes, topics: TopicsSnapshot) -> Partitions:
    """Of topics that exist; none at all if the member was given nothing.  Raises DecodeError."""
    if not blob:
        return NO_PARTITIONS
    return frozenset(
        partition
        for topic in _deserialize(ConsumerProtocolAssignment, blob).assigned_partitions
        for partition in _partitions_of_topic(topic.topic, topic.partitions, topics)
    )


def serialize_assignment(
    partitions: Partitions, topics: TopicsSnapshot, *, subscription_blob: bytes
) -> bytes:
    """In the version of the subscription ``like`` which it answers."""
    by_name: dict[str, list[int]] = {}
    for topic_id, partition in sorted(partitions):
        name = topics.topic_name(topic_id)
        if name is not None:
            by_name.setdefault(name, []).append(partition)
    version = _version(subscription_blob)
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=[
            ConsumerProtocolAssignment.TopicPartitions(topic=name, partitions=partition_indexes)
            for name, partition_indexes in sorted(by_name.items())
        ]
    )
    return VERSION.pack(version) + encode_bytes(assignment, version)


def _deserialize(message: type[M], blob: bytes) -> M:
    decoded: M
    decoded, _ = prefix_decoder(message, _version(blob))(blob, VERSION.size)
    return decoded


def _version(blob: bytes) -> int:
    version = read_version_prefix(blob)
    if version < 0:
        raise DecodeError(f"version {version}: must be at least 0")
    return min(version, _HIGHEST_SUPPORTED_VERSION)


def _partitions_of_topic(
    name: str, partitions: list[int], topics: TopicsSnapshot
) -> Iterable[TopicIdPartition]:
    topic_id = topics.topic_id(name)
    return () if topic_id is None else topic_partitions(topic_id, partitions)
