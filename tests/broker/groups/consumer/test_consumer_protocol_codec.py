"""Tests of broker/groups/consumer/classic_blobs.py."""

import pytest

from odradek.broker.groups.consumer.classic_blobs import (
    read_assignment,
    read_subscription,
    written_assignment,
)
from odradek.broker.groups.consumer.topics import Topics
from odradek.protocol.errors import DecodeError
from odradek.protocol.internal.consumer_protocol import ConsumerProtocolSubscription
from odradek.protocol.internal.log_record import encode_part
from tests.support.consumer_group_scene import of
from tests.support.live_group_scene import subscribed
from tests.support.metadata_updates import cluster, state, update

TOPICS = Topics(cluster(update({"a": [state(0)], "b": [state(0)]})).picture)


@pytest.mark.parametrize("version", range(4))
def test_a_subscription_of_any_version_is_read(version):
    told = ConsumerProtocolSubscription(
        topics=["a", "gone"],
        owned_partitions=[
            ConsumerProtocolSubscription.TopicPartitions(topic=name, partitions=[0, 1])
            for name in ("a", "gone")
        ],
        rack_id="r",
    )
    read = read_subscription(encode_part(told, version), TOPICS)
    assert read.names == {"a", "gone"}
    assert read.owned == (of("a", 0, 1) if version >= 1 else frozenset())
    assert read.rack_id == ("r" if version >= 3 else None)


def test_a_newer_version_begins_with_the_fields_we_know():
    newer = b"\0\7" + encode_part(ConsumerProtocolSubscription(topics=["a"]), 3)[2:] + b"more"
    assert read_subscription(newer, TOPICS).names == {"a"}


@pytest.mark.parametrize("blob", [b"", b"\0", b"\xff\xff\0\0", b"\0\1\0\0\0\5"])
def test_what_is_no_subscription_is_refused(blob):
    with pytest.raises(DecodeError):
        read_subscription(blob, TOPICS)


def test_an_assignment_is_written_in_the_version_of_its_subscription():
    held = of("b", 0) | of("a", 0, 1)
    for version in range(4):
        like = encode_part(ConsumerProtocolSubscription(topics=["a"]), version)
        blob = written_assignment(held, TOPICS, like=like)
        assert blob[:2] == bytes([0, version])
        assert read_assignment(blob, TOPICS) == held


def test_topics_that_are_gone_are_not_assigned():
    blob = written_assignment(of("gone", 0) | of("a", 0), TOPICS, like=subscribed("a"))
    assert read_assignment(blob, TOPICS) == of("a", 0)


def test_whoever_was_given_nothing_has_nothing():
    assert read_assignment(b"", TOPICS) == frozenset()
