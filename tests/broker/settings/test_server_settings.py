"""Tests of broker/settings/server_settings.py and of the tables in it."""

import pytest

from odradek.broker.settings import kafka_names
from odradek.broker.settings.server_settings import BY_NAME, TABLES, ServerSettings
from odradek.config.definition import Layer, SettingError, Update


def read(**layers):
    return ServerSettings.read({Layer[name.upper()]: texts for name, texts in layers.items()})


def test_every_table_is_read_from_the_same_layers():
    settings = read(
        file={"broker.id": "7", "log.segment.bytes": "1048576", "log.cleaner.threads": "3"}
    )
    assert settings.broker.id == 7
    assert settings.log.segment_bytes == 1048576
    assert settings.cleaner.threads == 3


def test_the_tables_stand_in_one_order():
    assert tuple(type(table) for table in read().tables) == TABLES


def test_a_name_is_in_two_tables_only_where_both_are_told():
    names = [name for table in TABLES for name in table.by_name]
    assert {name for name in names if names.count(name) > 1} == {"unclean.leader.election.enable"}


def test_what_two_tables_have_they_have_alike():
    settings = read(cluster={"unclean.leader.election.enable": "true"})
    assert settings.log.unclean_leader_election_enable
    assert settings.controller.unclean_leader_election_enable


def test_what_is_dynamic_here_is_dynamic_in_kafka():
    dynamic = {name for name, each in BY_NAME.items() if each.update is not Update.READ_ONLY}
    assert dynamic <= kafka_names.DYNAMIC


def test_what_is_read_only_in_kafka_only_is_a_known_list():
    read_only = {name for name, each in BY_NAME.items() if each.update is Update.READ_ONLY}
    assert read_only & kafka_names.DYNAMIC == {
        "advertised.listeners",
        "listener.security.protocol.map",
        "listeners",
        "num.io.threads",
        "num.network.threads",
    }


def test_settings_that_kafka_has_not_are_a_known_list():
    assert BY_NAME.keys() - kafka_names.READ_ONLY - kafka_names.DYNAMIC == {
        "group.consumer.migration.policy",  # from 4.0 on
        "log.initial.task.delay.ms",
        "producer.id.expiration.check.interval.ms",
        "zookeeper.sasl.jaas.config",
    }


# One broker or many


def test_alone_internal_topics_have_one_replica():
    topics = read().internal_topics
    assert topics.offsets_replication_factor == 1
    assert topics.transactions_replication_factor == 1
    assert topics.transactions_min_isr == 1


def test_alone_what_is_written_counts_all_the_same():
    settings = read(file={"offsets.topic.replication.factor": "2"})
    assert settings.internal_topics.offsets_replication_factor == 2


def test_alone_ones_are_defaults_that_nobody_has_written():
    described = read(file={}).describe("transaction.state.log.min.isr")
    assert (described.text, described.layer) == ("1", Layer.DEFAULT)
    assert [(each.text, each.layer) for each in described.synonyms] == [("1", Layer.DEFAULT)]
    described = read(file={described.setting.name: "2"}).describe(described.setting.name)
    assert [(each.text, each.layer) for each in described.synonyms] == [
        ("2", Layer.FILE),
        ("1", Layer.DEFAULT),
    ]


def test_an_empty_address_is_no_zookeeper():
    settings = read(file={"zookeeper.connect": ""})
    assert settings.is_alone
    assert settings.internal_topics.offsets_replication_factor == 1


def test_on_zookeeper_internal_topics_have_kafkas_defaults():
    settings = read(file={"zookeeper.connect": "host:2181"})
    assert not settings.is_alone
    assert settings.internal_topics.offsets_replication_factor == 3
    assert settings.internal_topics.transactions_min_isr == 2


# Rules between tables


@pytest.mark.parametrize("number", ["-2", "1001"])
def test_an_id_lies_where_none_are_generated(number):
    with pytest.raises(SettingError, match=r"must be between -1 and reserved.broker.max.id=1000"):
        read(file={"broker.id": number})


def test_a_higher_id_is_possible_where_it_is_reserved():
    assert read(file={"broker.id": "2000", "reserved.broker.max.id": "2000"}).broker.id == 2000


def test_without_generation_there_must_be_an_id():
    with pytest.raises(SettingError, match=r"broker.id=-1: must be at least 0"):
        read(file={"broker.id.generation.enable": "false"})


def test_without_generation_any_id_will_do():
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
def test_the_finest_unit_counts(texts, retention_ms):
    assert read(file=texts).log.retention_ms == retention_ms


def test_a_dynamic_value_beats_a_finer_unit_of_the_file():
    settings = read(file={"log.roll.hours": "5"}, cluster={"log.roll.ms": "60"})
    assert settings.log.roll_ms == 60
    assert [each.name for each in settings.describe("log.roll.ms").synonyms] == [
        "log.roll.ms",
        "log.roll.hours",
        "log.roll.hours",
    ]


def test_a_fallback_that_kafka_does_not_list_is_no_synonym():
    description = read(file={"log.dirs": "a", "log.dir": "b"}).describe("log.dirs")
    assert [each.name for each in description.synonyms] == ["log.dirs"]


# Topics


def test_a_topic_stands_on_the_tables_of_logs_and_of_the_cleaner():
    settings = read(file={"log.segment.bytes": "5000", "log.cleaner.min.cleanable.ratio": "0.1"})
    topic = settings.topic({"retention.ms": "9"})
    assert (topic.segment_bytes, topic.min_cleanable_dirty_ratio, topic.retention_ms) == (
        5000,
        0.1,
        9,
    )


# What no table has


def test_what_no_table_declares_is_kept_once():
    settings = read(file={"a.plugin": "1", "broker.id": "1"}, broker={"a.plugin": "2", "b": "3"})
    assert sorted(settings.undeclared()) == ["a.plugin", "b"]
    assert settings.texts(Layer.BROKER)["a.plugin"] == "2"


def test_what_no_table_declares_is_not_described():
    with pytest.raises(KeyError):
        read(file={"a.plugin": "1"}).describe("a.plugin")


def test_secrets_are_not_in_the_representation():
    settings = read(file={"zookeeper.ssl.keystore.password": "hush", "a.plugin.password": "hush"})
    assert "hush" not in repr(settings)
