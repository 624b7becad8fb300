"""The settings of a broker and the tables in them."""

import pytest

from odradek.broker.settings import kafka_config_names
from odradek.broker.settings.server_settings import SETTINGS_BY_NAME, TABLES, ServerSettings
from odradek.config.definition import ConfigSource, SettingError, UpdateMode


def read(**layers):
    return ServerSettings.read(
        {ConfigSource[name.upper()]: texts for name, texts in layers.items()}
    )


def test_every_table_is_read_from_the_same_layers():
    settings = read(
        file={"broker.id": "7", "log.segment.bytes": "1048576", "log.cleaner.threads": "3"}
    )
    assert settings.broker.id == 7
    assert settings.log.segment_bytes == 1048576
    assert settings.cleaner.threads == 3


def test_tables_have_a_fixed_order():
    assert tuple(type(table) for table in read().tables) == TABLES


def test_only_one_name_is_in_two_tables():
    names = [name for table in TABLES for name in table.by_name]
    assert {name for name in names if names.count(name) > 1} == {"unclean.leader.election.enable"}


def test_name_in_two_tables_has_the_same_value_in_both():
    settings = read(cluster={"unclean.leader.election.enable": "true"})
    assert settings.log.unclean_leader_election_enable
    assert settings.controller.unclean_leader_election_enable


def test_dynamic_settings_are_dynamic_in_kafka():
    dynamic = {
        name
        for name, setting in SETTINGS_BY_NAME.items()
        if setting.update is not UpdateMode.READ_ONLY
    }
    assert dynamic <= kafka_config_names.DYNAMIC


def test_settings_that_are_dynamic_in_kafka_only_are_known():
    read_only = {
        name for name, setting in SETTINGS_BY_NAME.items() if setting.update is UpdateMode.READ_ONLY
    }
    assert read_only & kafka_config_names.DYNAMIC == {
        "advertised.listeners",
        "listener.security.protocol.map",
        "listeners",
        "num.io.threads",
        "num.network.threads",
    }


def test_settings_that_kafka_does_not_have_are_known():
    assert SETTINGS_BY_NAME.keys() - kafka_config_names.READ_ONLY - kafka_config_names.DYNAMIC == {
        "group.consumer.migration.policy",  # from 4.0 on
        "log.initial.task.delay.ms",
        "producer.id.expiration.check.interval.ms",
        "zookeeper.sasl.jaas.config",
    }


# Standalone or cluster


def test_internal_topics_of_a_standalone_broker_have_one_replica():
    topics = read().internal_topics
    assert topics.offsets_replication_factor == 1
    assert topics.transactions_replication_factor == 1
    assert topics.transactions_min_isr == 1


def test_configured_replication_factor_overrides_the_standalone_default():
    settings = read(file={"offsets.topic.replication.factor": "2"})
    assert settings.internal_topics.offsets_replication_factor == 2


def test_standalone_values_are_described_as_defaults():
    described = read(file={}).describe("transaction.state.log.min.isr")
    assert (described.value, described.source) == ("1", ConfigSource.DEFAULT)
    assert [(synonym.value, synonym.source) for synonym in described.synonyms] == [
        ("1", ConfigSource.DEFAULT)
    ]
    described = read(file={described.setting.name: "2"}).describe(described.setting.name)
    assert [(synonym.value, synonym.source) for synonym in described.synonyms] == [
        ("2", ConfigSource.FILE),
        ("1", ConfigSource.DEFAULT),
    ]


def test_empty_zookeeper_connect_is_standalone():
    settings = read(file={"zookeeper.connect": ""})
    assert settings.uses_embedded_store
    assert settings.internal_topics.offsets_replication_factor == 1


def test_internal_topics_on_zookeeper_have_the_defaults_of_kafka():
    settings = read(file={"zookeeper.connect": "host:2181"})
    assert not settings.uses_embedded_store
    assert settings.internal_topics.offsets_replication_factor == 3
    assert settings.internal_topics.transactions_min_isr == 2


# Rules between tables


@pytest.mark.parametrize("number", ["-2", "1001"])
def test_broker_id_must_not_be_in_the_generated_range(number):
    with pytest.raises(SettingError, match=r"must be between -1 and reserved.broker.max.id=1000"):
        read(file={"broker.id": number})


def test_higher_broker_id_is_allowed_if_it_is_reserved():
    assert read(file={"broker.id": "2000", "reserved.broker.max.id": "2000"}).broker.id == 2000


def test_broker_id_is_required_without_generation():
    with pytest.raises(SettingError, match=r"broker.id=-1: must be at least 0"):
        read(file={"broker.id.generation.enable": "false"})


def test_any_broker_id_is_allowed_without_generation():
    settings = read(file={"broker.id.generation.enable": "false", "broker.id": "5000"})
    assert settings.broker.id == 5000


# Synonyms


@pytest.mark.parametrize(
    ("texts", "retention_ms"),
    [
        ({"log.retention.hours": "2"}, 7_200_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 180_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3", "log.retention.ms": "4"}, 4),
        ({"log.retention.hours": "-1"}, -3_600_000),
    ],
)
def test_finest_unit_wins(texts, retention_ms):
    assert read(file=texts).log.retention_ms == retention_ms


def test_dynamic_value_overrides_a_coarser_unit_in_the_file():
    settings = read(file={"log.roll.hours": "5"}, cluster={"log.roll.ms": "60"})
    assert settings.log.roll_ms == 60
    assert [synonym.name for synonym in settings.describe("log.roll.ms").synonyms] == [
        "log.roll.ms",
        "log.roll.hours",
        "log.roll.hours",
    ]


def test_fallback_that_kafka_does_not_list_is_not_a_synonym():
    description = read(file={"log.dirs": "a", "log.dir": "b"}).describe("log.dirs")
    assert [synonym.name for synonym in description.synonyms] == ["log.dirs"]


# Topics


def test_topic_defaults_come_from_the_log_and_cleaner_tables():
    settings = read(file={"log.segment.bytes": "5000", "log.cleaner.min.cleanable.ratio": "0.1"})
    topic = settings.topic({"retention.ms": "9"})
    assert (topic.segment_bytes, topic.min_cleanable_dirty_ratio, topic.retention_ms) == (
        5000,
        0.1,
        9,
    )


# Undeclared settings


def test_undeclared_settings_are_kept_once():
    settings = read(file={"a.plugin": "1", "broker.id": "1"}, broker={"a.plugin": "2", "b": "3"})
    assert sorted(settings.undeclared_names()) == ["a.plugin", "b"]
    assert settings.configs_from(ConfigSource.BROKER)["a.plugin"] == "2"


def test_undeclared_setting_is_not_described():
    with pytest.raises(KeyError):
        read(file={"a.plugin": "1"}).describe("a.plugin")


def test_secrets_are_not_in_the_representation():
    settings = read(file={"zookeeper.ssl.keystore.password": "hush", "a.plugin.password": "hush"})
    assert "hush" not in repr(settings)
