"""Dynamic settings: layers, listeners, invalid values and the config store."""

import asyncio

import pytest

from odradek.broker.settings.config_store import read_all_configs, read_config
from odradek.broker.settings.dynamic_settings import DynamicSettings, ProducerStateManagerConfig
from odradek.broker.settings.server_settings import ServerSettings
from odradek.broker.settings.sources import BadSettings
from odradek.config.definition import ConfigSource, SettingError
from odradek.controller.config_admin import ConfigAdmin
from odradek.controller.dynamic_config_manager import DynamicConfigManager
from odradek.controller.registration import create_top_level_paths
from odradek.controller.store import paths
from odradek.controller.store.data_tree import DataTree
from odradek.controller.store.payloads.config import EntityConfig
from odradek.storage.cleaner.settings import CleanerSettings
from odradek.storage.log_settings import LogSettings
from tests.support.loops import at_end
from tests.support.memory_store import MemoryStore

ALL_BROKERS, BROKER_1, BROKER_2 = (
    paths.broker_config(None),
    paths.broker_config(1),
    paths.broker_config(2),
)
TOPIC = paths.topic_config("t")
ALICE = paths.user_config("alice")
ALICE_APP = paths.user_client_config(user="alice", client_id="app")


def new_settings(**file):
    texts = {name.replace("_", "."): text for name, text in file.items()}
    return DynamicSettings(ServerSettings.read({ConfigSource.FILE: texts}), broker_id=1)


class Observer:
    """Records what a log manager would receive."""

    def __init__(self):
        self.received = []

    def configure(self, topic, settings):
        self.received.append((topic, settings and settings.retention_ms))

    def configure_defaults(self, defaults):
        self.received.append(("defaults", defaults.retention_ms))


async def open_store(**configs):
    store = MemoryStore(DataTree())
    at_end(store.close)
    await store.open_session()
    await create_top_level_paths(store)
    return store


async def write(store, entity, config):
    await store.create(entity.path, EntityConfig(config).encode())


# Layers


async def test_broker_config_overrides_cluster_config_and_that_the_file():
    settings = new_settings(log_retention_ms="1")
    await settings.apply_config(BROKER_1, {"log.retention.ms": "3"})
    await settings.apply_config(ALL_BROKERS, {"log.retention.ms": "2"})
    assert settings.current.log.retention_ms == 3
    await settings.apply_config(BROKER_1, {})
    assert settings.current.log.retention_ms == 2
    await settings.apply_config(ALL_BROKERS, {})
    assert settings.current.log.retention_ms == 1


async def test_config_of_another_broker_is_ignored():
    settings = new_settings()
    await settings.apply_config(BROKER_2, {"log.retention.ms": "3"})
    assert settings.current == new_settings().current


async def test_topic_config_overrides_broker_config():
    settings = new_settings()
    await settings.apply_config(TOPIC, {"retention.ms": "5"})
    await settings.apply_config(BROKER_1, {"log.retention.ms": "3", "log.segment.bytes": "1000"})
    assert (settings.topic("t").retention_ms, settings.topic("t").segment_bytes) == (5, 1000)
    assert settings.topic("other").retention_ms == 3
    await settings.apply_config(TOPIC, {})
    assert settings.topic("t").retention_ms == 3
    assert settings.topics == {}


# Listeners


async def test_listener_is_called_for_changes_of_its_table_only():
    settings, thread_counts = new_settings(), []
    settings.add_listener(CleanerSettings, lambda table: thread_counts.append(table.threads))
    await settings.apply_config(BROKER_1, {"log.retention.ms": "3"})
    assert thread_counts == []
    await settings.apply_config(BROKER_1, {"log.cleaner.threads": "2"})
    await settings.apply_config(BROKER_1, {"log.cleaner.threads": "2", "plugin": "x"})
    assert thread_counts == [2]


async def test_listener_sees_the_change_applied():
    settings, is_applied = new_settings(), []
    settings.add_listener(
        LogSettings, lambda table: is_applied.append(settings.current.log is table)
    )
    await settings.apply_config(BROKER_1, {"log.retention.ms": "3"})
    assert is_applied == [True]


async def test_topic_observer_receives_topics_and_defaults():
    settings, observer = new_settings(), Observer()
    settings.add_topic_observer(observer)
    await settings.apply_config(TOPIC, {"segment.bytes": "1000"})
    await settings.apply_config(BROKER_1, {"log.retention.ms": "3"})
    await settings.apply_config(TOPIC, {"segment.bytes": "1000", "retention.ms": "4"})
    await settings.apply_config(BROKER_1, {})
    await settings.apply_config(TOPIC, {})
    week_ms = 7 * 24 * 3_600_000
    assert observer.received == [
        ("t", week_ms),
        ("defaults", 3),
        ("t", 3),
        ("t", 4),
        ("defaults", week_ms),
        ("t", None),
    ]


async def test_unchanged_config_is_not_reported_again():
    settings, observer = new_settings(), Observer()
    settings.add_topic_observer(observer)
    for _ in range(2):
        await settings.apply_config(TOPIC, {"retention.ms": "4"})
        await settings.apply_config(BROKER_1, {"log.cleaner.threads": "2"})
    assert observer.received == [("t", 4)]


async def test_producer_state_config_follows_dynamic_changes():
    settings = new_settings()
    limits = ProducerStateManagerConfig(settings)
    await settings.apply_config(
        ALL_BROKERS,
        {"producer.id.expiration.ms": "5", "transaction.partition.verification.enable": "false"},
    )
    assert limits.producer_id_expiration_ms == 5
    assert not limits.transaction_partition_verification_enable


# Invalid values


async def test_invalid_value_is_ignored_and_the_others_apply(caplog):
    settings = new_settings()
    await settings.apply_config(
        BROKER_1, {"log.roll.ms": "0", "log.retention.ms": "3", "broker.id": "8"}
    )
    assert settings.current.log.retention_ms == 3
    assert settings.current.broker.id == -1
    assert len(caplog.records) == 2


async def test_inconsistent_values_change_nothing(caplog):
    settings = new_settings()
    await settings.apply_config(BROKER_1, {"log.retention.ms": "3"})
    lags = {
        "log.cleaner.min.compaction.lag.ms": "9",
        "log.cleaner.max.compaction.lag.ms": "8",
        "log.retention.ms": "4",
    }
    await settings.apply_config(BROKER_1, lags)
    assert settings.current.log.retention_ms == 3
    assert "Ignoring the configuration of" in caplog.records[-1].message


async def test_invalid_topic_value_is_ignored_and_the_others_apply(caplog):
    settings = new_settings()
    await settings.apply_config(TOPIC, {"segment.bytes": "few", "retention.ms": "3", "remote": "x"})
    assert settings.topic("t").retention_ms == 3
    assert len(caplog.records) == 1


@pytest.mark.parametrize("topic_config", ["min.compaction.lag.ms", "max.compaction.lag.ms"])
async def test_one_of_two_inconsistent_topic_values_is_ignored(topic_config, caplog):
    settings = new_settings()
    await settings.apply_config(TOPIC, {topic_config: "50", "retention.ms": "-1"})
    lags = {"log.cleaner.min.compaction.lag.ms": "9", "log.cleaner.max.compaction.lag.ms": "10"}
    if topic_config == "max.compaction.lag.ms":
        lags = dict.fromkeys(lags, "60")
    await settings.apply_config(ALL_BROKERS, lags)
    assert settings.topic("t").retention_ms == -1
    assert (
        settings.topic("t").min_compaction_lag_ms == settings.current.cleaner.min_compaction_lag_ms
    )
    assert (
        settings.topic("t").max_compaction_lag_ms == settings.current.cleaner.max_compaction_lag_ms
    )
    assert [record.levelname for record in caplog.records] == ["ERROR"]


async def test_values_outside_of_two_broken_rules_apply(monkeypatch):
    rules = [{"retention.ms", "retention.bytes"}, {"segment.ms", "segment.bytes"}]
    read_topic = ServerSettings.topic

    def strict(server, config):
        for rule in rules:
            if rule <= config.keys():
                raise SettingError(min(rule), "7", "does not go with the other")
        return read_topic(server, config)

    monkeypatch.setattr(ServerSettings, "topic", strict)
    settings = new_settings()
    names = {"max.message.bytes", "retention.ms", "retention.bytes", "segment.ms", "segment.bytes"}
    await settings.apply_config(TOPIC, dict.fromkeys(sorted(names), "77777"))
    topic = settings.topic("t")
    applied = [name for name in names if topic.describe(name).source is ConfigSource.TOPIC]
    assert len(applied) == 3
    assert "max.message.bytes" in applied


async def test_unsupported_setting_is_logged_once(caplog):
    settings = new_settings()
    for roll_ms in "56":
        await settings.apply_config(
            ALL_BROKERS, {"metric.reporters": "x.Y", "log.roll.ms": roll_ms}
        )
    (record,) = caplog.records
    assert record.message == (
        "Ignoring unsupported settings of brokers/<default>: metric.reporters"
    )


async def test_thread_count_changes_by_a_factor_of_two_at_most(caplog):
    settings = new_settings()
    await settings.apply_config(BROKER_1, {"background.threads": "50"})
    assert settings.current.broker.background_threads == 10
    await settings.apply_config(BROKER_1, {"background.threads": "20"})
    assert settings.current.broker.background_threads == 20


def test_change_is_validated_without_being_applied():
    settings = new_settings()
    settings.check(ConfigSource.BROKER, {"background.threads": "20"})
    with pytest.raises(SettingError, match="must be between 5 and 20"):
        settings.check(ConfigSource.BROKER, {"background.threads": "21"})
    with pytest.raises(SettingError, match="1 MiB for each"):
        settings.check(ConfigSource.CLUSTER, {"log.cleaner.dedupe.buffer.size": "1024"})
    assert settings.current.broker.background_threads == 10


# The store


async def test_all_stored_configs_are_loaded():
    store = await open_store()
    await write(store, BROKER_1, {"log.retention.ms": "3", "background.threads": "50"})
    await write(store, ALL_BROKERS, {"log.retention.ms": "2", "log.segment.bytes": "1000"})
    await write(store, TOPIC, {"retention.ms": "5"})
    await write(store, ALICE, {})
    await store.create(f"{ALICE.path}/clients")
    await write(store, ALICE_APP, {"producer_byte_rate": "9"})
    settings = new_settings()
    await settings.load(store)
    assert settings.current.log.retention_ms == 3
    assert settings.current.log.segment_bytes == 1000
    assert settings.current.broker.background_threads == 50
    assert settings.topic("t").retention_ms == 5
    assert settings.unapplied_configs == {ALICE_APP: {"producer_byte_rate": "9"}}


async def test_stored_unsupported_plugin_prevents_the_start():
    store = await open_store()
    await write(store, BROKER_1, {"listener.name.a.principal.builder.class": "com.example.Builder"})
    with pytest.raises(BadSettings, match=r"^The stored configuration of brokers/1: .*supported"):
        await new_settings().load(store)


async def test_configs_of_new_topics_are_read_by_name():
    store, settings, observer = await open_store(), new_settings(), Observer()
    settings.add_topic_observer(observer)
    await settings.apply_config(paths.topic_config("again"), {"retention.ms": "4"})
    await write(store, TOPIC, {"retention.ms": "5"})
    await write(store, paths.topic_config("again"), {})
    await settings.read_topics(store, ["t", "again", "absent"])
    assert observer.received == [("again", 4), ("t", 5), ("again", None)]


async def test_unapplied_config_is_removed_when_it_is_empty():
    settings = new_settings()
    await settings.apply_config(ALICE, {"producer_byte_rate": "9"})
    await settings.apply_config(ALICE, {})
    assert settings.unapplied_configs == {}


async def test_unreadable_config_is_logged_and_ignored(caplog):
    store = await open_store()
    await store.create(TOPIC.path, b"{")
    await write(store, BROKER_1, {"log.retention.ms": "3"})
    assert await read_all_configs(store) == {BROKER_1: {"log.retention.ms": "3"}}
    assert await read_config(store, TOPIC) == {}
    assert len(caplog.records) == 2


async def test_change_in_the_store_applies_after_its_notification():
    store = await open_store()
    settings, is_notified = new_settings(), asyncio.Event()
    settings.add_listener(LogSettings, lambda _: is_notified.set())
    async with asyncio.TaskGroup() as group:
        changes = DynamicConfigManager(
            store, settings.apply_config, now_ms=lambda: 0, start_task=group.create_task
        )
        await changes.start()
        admin = ConfigAdmin(store, server_settings=lambda: settings.current.topic_default_tables)
        await admin.update_entity_config(BROKER_1, lambda _: {"log.retention.ms": "3"})
        await is_notified.wait()
        await changes.close()
    assert settings.current.log.retention_ms == 3


# Groups


async def test_group_configs_are_loaded_changed_and_removed():
    store, settings = await open_store(), new_settings()
    await store.create("/config/groups")
    group = paths.group_config("a/b")
    await write(store, group, {"consumer.session.timeout.ms": "50000", "unknown": "x"})
    await settings.load(store)
    assert settings.groups["a/b"].session_timeout_ms == 50_000
    assert settings.groups["a/b"].heartbeat_interval_ms == 5_000
    await settings.apply_config(group, {"consumer.heartbeat.interval.ms": "never"})
    assert settings.groups["a/b"].session_timeout_ms == 45_000
    await settings.apply_config(group, {})
    assert not settings.groups


async def test_default_group_config_applies_to_no_group():
    settings = new_settings()
    entity = paths.ConfigEntity(paths.EntityType.GROUP, "<default>")
    await settings.apply_config(entity, {"consumer.session.timeout.ms": "50000"})
    assert not settings.groups
