"""Tests of broker/groups/consumer/consumer_protocol_codec.py."""

import pytest

from odradek.broker.groups.consumer.consumer_protocol_codec import (
    deserialize_assignment,
    deserialize_subscription,
    serialize_assignment,
)
from odradek.broker.groups.consumer.topics import TopicsSnapshot
from odradek.protocol.errors import DecodeError
from odradek.protocol.internal.consumer_protocol import ConsumerProtocolSubscription
from odradek.protocol.internal.coordinator_record import encode_version_prefixed
from tests.support.consumer_group_scene import of
from tests.support.live_group_scene import subscribed
from tests.support.metadata_updates import cluster, state, update

TOPICS = TopicsSnapshot(cluster(update({"a": [state(0)], "b": [state(0)]})).snapshot)


@pytest.mark.parametrize("version", range(4))
def test_all_subscription_versions_are_read(version):
    subscription = ConsumerProtocolSubscription(
        topics=["a", "gone"],
        owned_partitions=[
            ConsumerProtocolSubscription.TopicPartitions(topic=name, partitions=[0, 1])
            for name in ("a", "gone")
        ],
        rack_id="r",
    )
    read = deserialize_subscription(encode_version_prefixed(subscription, version), TOPICS)
    assert read.topic_names == {"a", "gone"}
    assert read.owned_partitions == (of("a", 0, 1) if version >= 1 else frozenset())
    assert read.rack_id == ("r" if version >= 3 else None)


def test_newer_version_is_read_by_its_known_fields():
    newer = (
        b"\0\7"
        + encode_version_prefixed(ConsumerProtocolSubscription(topics=["a"]), 3)[2:]
        + b"more"
    )
    assert deserialize_subscription(newer, TOPICS).topic_names == {"a"}


@pytest.mark.parametrize("blob", [b"", b"\0", b"\xff\xff\0\0", b"\0\1\0\0\0\5"])
def test_invalid_subscription_is_rejected(blob):
    with pytest.raises(DecodeError):
        deserialize_subscription(blob, TOPICS)


def test_assignment_is_written_in_the_version_of_its_subscription():
    held = of("b", 0) | of("a", 0, 1)
    for version in range(4):
        subscription = encode_version_prefixed(ConsumerProtocolSubscription(topics=["a"]), version)
        blob = serialize_assignment(held, TOPICS, subscription_blob=subscription)
        assert blob[:2] == bytes([0, version])
        assert deserialize_assignment(blob, TOPICS) == held


def test_deleted_topics_are_not_assigned():
    blob = serialize_assignment(
        of("gone", 0) | of("a", 0), TOPICS, subscription_blob=subscribed("a")
    )
    assert deserialize_assignment(blob, TOPICS) == of("a", 0)


def test_empty_bytes_are_an_empty_assignment():
    assert deserialize_assignment(b"", TOPICS) == frozenset()
