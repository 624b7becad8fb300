"""Tests of broker/settings/internal_topics.py."""

from odradek.broker.metadata.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from odradek.broker.settings.internal_topics import ONE_BROKER, InternalTopicSettings
from odradek.config.definition import Layer
from odradek.controller.config_alterations import checked_topic_config


def configured(entry):
    return checked_topic_config({each.name: each.value for each in entry.configs}, server=())


def test_offsets_are_compacted_and_left_as_they_come():
    entry = InternalTopicSettings(offsets_partitions=4).entry(CONSUMER_OFFSETS)
    assert (entry.num_partitions, entry.replication_factor) == (4, 3)
    topic = configured(entry)
    assert topic.is_compacted
    assert not topic.deletes_old_segments
    assert topic.compression_type == "producer"
    assert topic.segment_bytes == 104857600


def test_transactions_are_compacted_and_never_led_by_a_replica_that_lags():
    settings = InternalTopicSettings(transactions_min_isr=1, transactions_segment_bytes=5000)
    topic = configured(settings.entry(TRANSACTION_STATE))
    assert topic.is_compacted
    assert (topic.min_insync_replicas, topic.segment_bytes) == (1, 5000)
    assert not topic.unclean_leader_election_enable
    assert topic.compression_type == "uncompressed"


def test_other_topics_are_none_of_the_brokers():
    assert InternalTopicSettings().entry("t") is None


def test_one_broker_can_hold_them():
    settings = InternalTopicSettings.read({Layer.FILE: ONE_BROKER})
    for topic in (CONSUMER_OFFSETS, TRANSACTION_STATE):
        assert settings.entry(topic).replication_factor == 1
