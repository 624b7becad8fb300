"""Tests of broker/groups/consumer/partitions.py."""

from odradek.broker.groups.consumer.partitions import partitions_from_topics, partitions_to_topics
from odradek.protocol.api.consumer_group_heartbeat import TopicPartitions
from tests.support.subscriptions import A, B, partitions


def test_partition_sets_convert_to_sorted_topic_lists_and_back():
    held = partitions(B, 3, 1) | partitions(A, 2)
    topics = partitions_to_topics(held, TopicPartitions)
    assert topics == [
        TopicPartitions(topic_id=A, partitions=[2]),
        TopicPartitions(topic_id=B, partitions=[1, 3]),
    ]
    assert partitions_from_topics(topics) == held


def test_empty_set_converts_to_an_empty_list():
    assert partitions_to_topics(frozenset(), TopicPartitions) == []
    assert partitions_from_topics([]) == frozenset()


def test_duplicates_are_merged():
    duplicates = [TopicPartitions(topic_id=A, partitions=[1, 1])] * 2
    assert partitions_from_topics(duplicates) == partitions(A, 1)
