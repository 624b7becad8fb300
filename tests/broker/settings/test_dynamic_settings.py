"""Tests of broker/settings/dynamic.py and stored.py."""

import asyncio

import pytest

from odradek.broker.settings.dynamic import DynamicSettings, ProducerLimits
from odradek.broker.settings.server_settings import ServerSettings
from odradek.broker.settings.stored import stored_config, stored_configs
from odradek.config.definition import Layer, SettingError
from odradek.controller.config_admin import ConfigAdmin
from odradek.controller.config_changes import ConfigChanges
from odradek.controller.registration import create_roots
from odradek.controller.store import paths
from odradek.controller.store.payloads.config import EntityConfig
from odradek.controller.store.tree import Tree
from odradek.storage.cleaner.settings import CleanerSettings
from odradek.storage.log_settings import LogSettings
from tests.support.loops import at_end
from tests.support.memory_store import MemoryStore

ALL, OURS, ANOTHERS = paths.broker_config(None), paths.broker_config(1), paths.broker_config(2)
T = paths.topic_config("t")
ALICE = paths.user_config("alice")
HER_APP = paths.user_client_config(user="alice", client_id="app")


def dynamic(**file):
    texts = {name.replace("_", "."): text for name, text in file.items()}
    return DynamicSettings(ServerSettings.read({Layer.FILE: texts}), broker_id=1)


class Observer:
    """What a log manager would be told."""

    def __init__(self):
        self.told = []

    def configure(self, topic, settings):
        self.told.append((topic, settings and settings.retention_ms))

    def configure_defaults(self, defaults):
        self.told.append(("defaults", defaults.retention_ms))


async def opened(**configs):
    store = MemoryStore(Tree())
    at_end(store.close)
    await store.open_session()
    await create_roots(store)
    return store


async def write(store, entity, config):
    await store.create(entity.path, EntityConfig(config).encode())


# Layers


async def test_the_broker_beats_all_brokers_and_they_the_file():
    settings = dynamic(log_retention_ms="1")
    await settings.take(OURS, {"log.retention.ms": "3"})
    await settings.take(ALL, {"log.retention.ms": "2"})
    assert settings.current.log.retention_ms == 3
    await settings.take(OURS, {})
    assert settings.current.log.retention_ms == 2
    await settings.take(ALL, {})
    assert settings.current.log.retention_ms == 1


async def test_what_is_another_brokers_is_not_ours():
    settings = dynamic()
    await settings.take(ANOTHERS, {"log.retention.ms": "3"})
    assert settings.current == dynamic().current


async def test_a_topic_beats_the_broker():
    settings = dynamic()
    await settings.take(T, {"retention.ms": "5"})
    await settings.take(OURS, {"log.retention.ms": "3", "log.segment.bytes": "1000"})
    assert (settings.topic("t").retention_ms, settings.topic("t").segment_bytes) == (5, 1000)
    assert settings.topic("other").retention_ms == 3
    await settings.take(T, {})
    assert settings.topic("t").retention_ms == 3
    assert settings.topics == {}


# Who is told


async def test_those_who_listen_are_told_of_their_own_table_only():
    settings, told = dynamic(), []
    settings.listen(CleanerSettings, lambda table: told.append(table.threads))
    await settings.take(OURS, {"log.retention.ms": "3"})
    assert told == []
    await settings.take(OURS, {"log.cleaner.threads": "2"})
    await settings.take(OURS, {"log.cleaner.threads": "2", "plugin": "x"})
    assert told == [2]


async def test_whoever_is_told_finds_the_change_made():
    settings, found = dynamic(), []
    settings.listen(LogSettings, lambda table: found.append(settings.current.log is table))
    await settings.take(OURS, {"log.retention.ms": "3"})
    assert found == [True]


async def test_observers_of_topics_are_told_of_topics_and_defaults():
    settings, observer = dynamic(), Observer()
    settings.listen_to_topics(observer)
    await settings.take(T, {"segment.bytes": "1000"})
    await settings.take(OURS, {"log.retention.ms": "3"})
    await settings.take(T, {"segment.bytes": "1000", "retention.ms": "4"})
    await settings.take(OURS, {})
    await settings.take(T, {})
    week_ms = 7 * 24 * 3_600_000
    assert observer.told == [
        ("t", week_ms),
        ("defaults", 3),
        ("t", 3),
        ("t", 4),
        ("defaults", week_ms),
        ("t", None),
    ]


async def test_nobody_is_told_twice_of_the_same():
    settings, observer = dynamic(), Observer()
    settings.listen_to_topics(observer)
    for _ in range(2):
        await settings.take(T, {"retention.ms": "4"})
        await settings.take(OURS, {"log.cleaner.threads": "2"})
    assert observer.told == [("t", 4)]


async def test_the_memory_of_producers_follows():
    settings = dynamic()
    limits = ProducerLimits(settings)
    await settings.take(
        ALL,
        {"producer.id.expiration.ms": "5", "transaction.partition.verification.enable": "false"},
    )
    assert limits.producer_id_expiration_ms == 5
    assert not limits.transaction_partition_verification_enable


# What cannot be


async def test_a_bad_value_is_ignored_and_the_others_hold(caplog):
    settings = dynamic()
    await settings.take(OURS, {"log.roll.ms": "0", "log.retention.ms": "3", "broker.id": "8"})
    assert settings.current.log.retention_ms == 3
    assert settings.current.broker.id == -1
    assert len(caplog.records) == 2


async def test_values_that_do_not_go_together_change_nothing(caplog):
    settings = dynamic()
    await settings.take(OURS, {"log.retention.ms": "3"})
    lags = {
        "log.cleaner.min.compaction.lag.ms": "9",
        "log.cleaner.max.compaction.lag.ms": "8",
        "log.retention.ms": "4",
    }
    await settings.take(OURS, lags)
    assert settings.current.log.retention_ms == 3
    assert "has no effect" in caplog.records[-1].message


async def test_a_bad_value_of_a_topic_is_ignored_and_the_others_hold(caplog):
    settings = dynamic()
    await settings.take(T, {"segment.bytes": "few", "retention.ms": "3", "remote": "x"})
    assert settings.topic("t").retention_ms == 3
    assert len(caplog.records) == 1


@pytest.mark.parametrize("own", ["min.compaction.lag.ms", "max.compaction.lag.ms"])
async def test_of_values_that_do_not_go_together_one_is_ignored_and_the_others_hold(own, caplog):
    settings = dynamic()
    await settings.take(T, {own: "50", "retention.ms": "-1"})
    lags = {"log.cleaner.min.compaction.lag.ms": "9", "log.cleaner.max.compaction.lag.ms": "10"}
    if own == "max.compaction.lag.ms":
        lags = dict.fromkeys(lags, "60")
    await settings.take(ALL, lags)
    assert settings.topic("t").retention_ms == -1
    assert (
        settings.topic("t").min_compaction_lag_ms == settings.current.cleaner.min_compaction_lag_ms
    )
    assert (
        settings.topic("t").max_compaction_lag_ms == settings.current.cleaner.max_compaction_lag_ms
    )
    assert [record.levelname for record in caplog.records] == ["ERROR"]


async def test_where_two_rules_are_broken_all_others_hold(monkeypatch):
    rules = [{"retention.ms", "retention.bytes"}, {"segment.ms", "segment.bytes"}]
    as_it_is = ServerSettings.topic

    def strict(server, config):
        for rule in rules:
            if rule <= config.keys():
                raise SettingError(min(rule), "7", "does not go with the other")
        return as_it_is(server, config)

    monkeypatch.setattr(ServerSettings, "topic", strict)
    settings = dynamic()
    names = {"max.message.bytes", "retention.ms", "retention.bytes", "segment.ms", "segment.bytes"}
    await settings.take(T, dict.fromkeys(sorted(names), "77777"))
    topic = settings.topic("t")
    own = [name for name in names if topic.describe(name).layer is Layer.TOPIC]
    assert len(own) == 3
    assert "max.message.bytes" in own


async def test_what_has_no_effect_is_told_once(caplog):
    settings = dynamic()
    for roll_ms in "56":
        await settings.take(ALL, {"metric.reporters": "x.Y", "log.roll.ms": roll_ms})
    (record,) = caplog.records
    assert record.message == (
        "Of the configuration of brokers/<default> has no effect: metric.reporters"
    )


async def test_threads_are_not_changed_too_far_at_once(caplog):
    settings = dynamic()
    await settings.take(OURS, {"background.threads": "50"})
    assert settings.current.broker.background_threads == 10
    await settings.take(OURS, {"background.threads": "20"})
    assert settings.current.broker.background_threads == 20


def test_a_change_is_checked_before_it_is_made():
    settings = dynamic()
    settings.check(Layer.BROKER, {"background.threads": "20"})
    with pytest.raises(SettingError, match="must be between 5 and 20"):
        settings.check(Layer.BROKER, {"background.threads": "21"})
    with pytest.raises(SettingError, match="1 MiB for each"):
        settings.check(Layer.CLUSTER, {"log.cleaner.dedupe.buffer.size": "1024"})
    assert settings.current.broker.background_threads == 10


# The store


async def test_all_that_is_stored_is_loaded():
    store = await opened()
    await write(store, OURS, {"log.retention.ms": "3", "background.threads": "50"})
    await write(store, ALL, {"log.retention.ms": "2", "log.segment.bytes": "1000"})
    await write(store, T, {"retention.ms": "5"})
    await write(store, ALICE, {})
    await store.create(f"{ALICE.path}/clients")
    await write(store, HER_APP, {"producer_byte_rate": "9"})
    settings = dynamic()
    await settings.load(store)
    assert settings.current.log.retention_ms == 3
    assert settings.current.log.segment_bytes == 1000
    assert settings.current.broker.background_threads == 50
    assert settings.topic("t").retention_ms == 5
    assert settings.kept == {HER_APP: {"producer_byte_rate": "9"}}


async def test_topics_that_are_new_here_are_read_by_name():
    store, settings, observer = await opened(), dynamic(), Observer()
    settings.listen_to_topics(observer)
    await settings.take(paths.topic_config("again"), {"retention.ms": "4"})
    await write(store, T, {"retention.ms": "5"})
    await write(store, paths.topic_config("again"), {})
    await settings.read_topics(store, ["t", "again", "absent"])
    assert observer.told == [("again", 4), ("t", 5), ("again", None)]


async def test_a_kept_configuration_goes_when_it_is_empty():
    settings = dynamic()
    await settings.take(ALICE, {"producer_byte_rate": "9"})
    await settings.take(ALICE, {})
    assert settings.kept == {}


async def test_what_cannot_be_read_is_logged_and_left_out(caplog):
    store = await opened()
    await store.create(T.path, b"{")
    await write(store, OURS, {"log.retention.ms": "3"})
    assert await stored_configs(store) == {OURS: {"log.retention.ms": "3"}}
    assert await stored_config(store, T) == {}
    assert len(caplog.records) == 2


async def test_a_change_in_the_store_is_in_force_when_the_store_has_told_of_it():
    store = await opened()
    settings, is_told = dynamic(), asyncio.Event()
    settings.listen(LogSettings, lambda _: is_told.set())
    async with asyncio.TaskGroup() as group:
        changes = ConfigChanges(
            store, settings.take, now_ms=lambda: 0, start_task=group.create_task
        )
        await changes.start()
        admin = ConfigAdmin(store, server=lambda: settings.current.defaults_of_topics)
        await admin.alter(OURS, lambda _: {"log.retention.ms": "3"})
        await is_told.wait()
        await changes.close()
    assert settings.current.log.retention_ms == 3


# Groups


async def test_groups_are_loaded_change_and_go():
    store, settings = await opened(), dynamic()
    await store.create("/config/groups")
    group = paths.group_config("a/b")
    await write(store, group, {"consumer.session.timeout.ms": "50000", "unknown": "x"})
    await settings.load(store)
    assert settings.groups["a/b"].session_timeout_ms == 50_000
    assert settings.groups["a/b"].heartbeat_interval_ms == 5_000
    await settings.take(group, {"consumer.heartbeat.interval.ms": "never"})
    assert settings.groups["a/b"].session_timeout_ms == 45_000
    await settings.take(group, {})
    assert not settings.groups


async def test_what_all_groups_have_in_common_is_nobodys():
    settings = dynamic()
    entity = paths.ConfigEntity(paths.EntityType.GROUP, "<default>")
    await settings.take(entity, {"consumer.session.timeout.ms": "50000"})
    assert not settings.groups
