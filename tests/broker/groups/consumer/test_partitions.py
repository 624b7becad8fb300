"""Tests of broker/groups/consumer/partitions.py."""

from odradek.broker.groups.consumer.partitions import from_topics, to_topics
from odradek.protocol.api.consumer_group_heartbeat import TopicPartitions
from tests.support.subscriptions import A, B, partitions


def test_sets_become_ascending_lists_by_topic_and_back():
    held = partitions(B, 3, 1) | partitions(A, 2)
    topics = to_topics(held, TopicPartitions)
    assert topics == [
        TopicPartitions(topic_id=A, partitions=[2]),
        TopicPartitions(topic_id=B, partitions=[1, 3]),
    ]
    assert from_topics(topics) == held


def test_nothing_is_an_empty_list():
    assert to_topics(frozenset(), TopicPartitions) == []
    assert from_topics([]) == frozenset()


def test_what_is_named_twice_is_there_once():
    doubled = [TopicPartitions(topic_id=A, partitions=[1, 1])] * 2
    assert from_topics(doubled) == partitions(A, 1)
