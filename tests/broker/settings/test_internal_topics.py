"""The settings of internal topics."""

from odradek.broker.metadata.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from odradek.broker.settings.internal_topics import STANDALONE_DEFAULTS, InternalTopicSettings
from odradek.config.definition import ConfigSource
from odradek.controller.config_alterations import validate_topic_config


def topic_settings_of(entry):
    return validate_topic_config(
        {config.name: config.value for config in entry.configs}, server_settings=()
    )


def test_offsets_topic_is_compacted_and_keeps_the_compression_of_producers():
    entry = InternalTopicSettings(offsets_partitions=4).creatable_topic(CONSUMER_OFFSETS)
    assert (entry.num_partitions, entry.replication_factor) == (4, 3)
    topic = topic_settings_of(entry)
    assert topic.is_compacted
    assert not topic.deletes_old_segments
    assert topic.compression_type == "producer"
    assert topic.segment_bytes == 104857600


def test_transactions_topic_is_compacted_without_unclean_leader_election():
    settings = InternalTopicSettings(transactions_min_isr=1, transactions_segment_bytes=5000)
    topic = topic_settings_of(settings.creatable_topic(TRANSACTION_STATE))
    assert topic.is_compacted
    assert (topic.min_insync_replicas, topic.segment_bytes) == (1, 5000)
    assert not topic.unclean_leader_election_enable
    assert topic.compression_type == "uncompressed"


def test_other_topics_are_not_internal():
    assert InternalTopicSettings().creatable_topic("t") is None


def test_standalone_defaults_have_one_replica():
    settings = InternalTopicSettings.read({ConfigSource.FILE: STANDALONE_DEFAULTS})
    for topic in (CONSUMER_OFFSETS, TRANSACTION_STATE):
        assert settings.creatable_topic(topic).replication_factor == 1
