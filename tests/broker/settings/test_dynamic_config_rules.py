"""The rules for dynamic changes of settings."""

import pytest

from odradek.broker.settings.dynamic_config_rules import (
    THREAD_COUNTS,
    check_thread_counts,
    check_update,
    filter_valid_configs,
    split_listener,
)
from odradek.broker.settings.server_settings import ServerSettings
from odradek.config.definition import ConfigSource, SettingError

BROKER_AND_CLUSTER = (ConfigSource.BROKER, ConfigSource.CLUSTER)


@pytest.mark.parametrize("layer", BROKER_AND_CLUSTER)
@pytest.mark.parametrize("name", ["broker.id", "listeners", "process.roles", "log.dirs"])
def test_read_only_setting_cannot_be_changed(name, layer):
    with pytest.raises(SettingError, match="cannot be changed while the broker runs"):
        check_update(name, "1", layer)


@pytest.mark.parametrize("layer", BROKER_AND_CLUSTER)
@pytest.mark.parametrize("name", ["log.cleaner.threads", "listener.name.a.max.connections"])
def test_value_must_have_the_type_of_the_setting(name, layer):
    check_update(name, "2", layer)
    with pytest.raises(SettingError, match="must be a whole number"):
        check_update(name, "two", layer)


@pytest.mark.parametrize("name", ["sasl.jaas.config", "listener.name.a.ssl.keystore.location"])
def test_per_broker_setting_cannot_be_changed_for_the_cluster(name):
    check_update(name, "x", ConfigSource.BROKER)
    with pytest.raises(SettingError, match="can only be changed per broker"):
        check_update(name, "x", ConfigSource.CLUSTER)


def test_keystore_settings_need_a_listener_prefix():
    with pytest.raises(SettingError, match=r"as listener\.name\.NAME\.ssl\.keystore\.location"):
        check_update("ssl.keystore.location", "x", ConfigSource.BROKER)


@pytest.mark.parametrize(
    "name", ["principal.builder.class", "listener.name.a.principal.builder.class"]
)
def test_unsupported_plugin_cannot_be_set(name):
    check_update(name, "", ConfigSource.BROKER)
    with pytest.raises(SettingError, match="is not supported"):
        check_update(name, "com.example.Builder", ConfigSource.BROKER)


@pytest.mark.parametrize("layer", BROKER_AND_CLUSTER)
def test_unknown_setting_may_have_any_value(layer):
    check_update("some.plugin", "x", layer)


def test_replication_quota_must_not_be_negative():
    check_update("leader.replication.throttled.rate", "0", ConfigSource.CLUSTER)
    with pytest.raises(SettingError, match="must be at least 0"):
        check_update("leader.replication.throttled.rate", "-1", ConfigSource.CLUSTER)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("max.connections", ("", "max.connections")),
        ("listener.name.a.max.connections", ("a", "max.connections")),
        ("listener.name.a", ("a", "")),
    ],
)
def test_listener_prefix_is_split_from_the_name(name, parts):
    assert split_listener(name) == parts


def test_invalid_configs_are_logged_and_dropped(caplog):
    config = {"broker.id": "3", "log.cleaner.threads": "x", "log.roll.ms": "5", "plugin": "y"}
    assert filter_valid_configs(config, ConfigSource.CLUSTER, entity_name="brokers/1") == {
        "log.roll.ms": "5",
        "plugin": "y",
    }
    assert len(caplog.records) == 2


def with_threads(name, count):
    return ServerSettings.read({ConfigSource.FILE: {name: str(count)}})


@pytest.mark.parametrize("name", THREAD_COUNTS)
def test_thread_count_changes_by_a_factor_of_two_at_most(name):
    for count in (2, 3, 5, 10):
        check_thread_counts(with_threads(name, 5), with_threads(name, count))
    for count in (1, 11):
        with pytest.raises(SettingError, match="must be between 2 and 10"):
            check_thread_counts(with_threads(name, 5), with_threads(name, count))


def test_cleaner_keeps_at_least_one_thread():
    name = "log.cleaner.threads"
    check_thread_counts(with_threads(name, 0), with_threads(name, 0))
    with pytest.raises(SettingError, match="must be between 1 and 2"):
        check_thread_counts(with_threads(name, 1), with_threads(name, 0))
