"""Reads the subscriptions and writes the assignments of classic members in a consumer group.

In a classic group the leader reads the subscriptions and writes the assignments.  A consumer group
has no leader, so the broker does both.  A version newer than ours begins with the fields we know.

Kafka: ConsumerProtocol.

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
    """The subscription that a member sends with JoinGroup."""

    topic_names: frozenset[str]
    owned_partitions: Partitions
    rack_id: str | None


def deserialize_subscription(blob: bytes, topics: TopicsSnapshot) -> MemberSubscription:
    """Raise DecodeError if the format is invalid."""
    subscription = _deserialize(ConsumerProtocolSubscription, blob)
    owned = frozenset(
        partition
        for topic in subscription.owned_partitions
        for partition in _partitions_of_topic(topic.topic, topic.partitions, topics)
    )
    return MemberSubscription(frozenset(subscription.topics), owned, subscription.rack_id)


def deserialize_assignment(blob: bytes, topics: TopicsSnapshot) -> Partitions:
    """Return the partitions of existing topics; none for empty bytes.  Raise DecodeError."""
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
    """Encode the assignment in the version of the member's ``subscription_blob``."""
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
