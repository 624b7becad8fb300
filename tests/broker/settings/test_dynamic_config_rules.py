"""Tests of broker/settings/updates.py."""

import pytest

from odradek.broker.settings.server_settings import ServerSettings
from odradek.broker.settings.updates import (
    THREAD_COUNTS,
    check_thread_counts,
    check_update,
    split_listener,
    usable,
)
from odradek.config.definition import Layer, SettingError

BOTH = (Layer.BROKER, Layer.CLUSTER)


@pytest.mark.parametrize("layer", BOTH)
@pytest.mark.parametrize("name", ["broker.id", "listeners", "process.roles", "log.dirs"])
def test_what_is_read_only_cannot_be_changed(name, layer):
    with pytest.raises(SettingError, match="cannot be changed while the broker runs"):
        check_update(name, "1", layer)


@pytest.mark.parametrize("layer", BOTH)
@pytest.mark.parametrize("name", ["log.cleaner.threads", "listener.name.a.max.connections"])
def test_a_value_must_be_of_its_kind(name, layer):
    check_update(name, "2", layer)
    with pytest.raises(SettingError, match="must be a whole number"):
        check_update(name, "two", layer)


@pytest.mark.parametrize("name", ["sasl.jaas.config", "listener.name.a.ssl.keystore.location"])
def test_what_is_for_single_brokers_is_not_for_all(name):
    check_update(name, "x", Layer.BROKER)
    with pytest.raises(SettingError, match="for each broker by itself"):
        check_update(name, "x", Layer.CLUSTER)


def test_keys_and_certificates_are_for_single_listeners():
    with pytest.raises(SettingError, match=r"as listener\.name\.NAME\.ssl\.keystore\.location"):
        check_update("ssl.keystore.location", "x", Layer.BROKER)


@pytest.mark.parametrize("layer", BOTH)
def test_what_nobody_knows_may_be_anything(layer):
    check_update("some.plugin", "x", layer)


def test_a_quota_of_replication_must_not_be_negative():
    check_update("leader.replication.throttled.rate", "0", Layer.CLUSTER)
    with pytest.raises(SettingError, match="must be at least 0"):
        check_update("leader.replication.throttled.rate", "-1", Layer.CLUSTER)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("max.connections", ("", "max.connections")),
        ("listener.name.a.max.connections", ("a", "max.connections")),
        ("listener.name.a", ("a", "")),
    ],
)
def test_a_name_is_split_at_its_listener(name, parts):
    assert split_listener(name) == parts


def test_the_unusable_part_is_logged_and_left_out(caplog):
    config = {"broker.id": "3", "log.cleaner.threads": "x", "log.roll.ms": "5", "plugin": "y"}
    assert usable(config, Layer.CLUSTER, whose="brokers/1") == {"log.roll.ms": "5", "plugin": "y"}
    assert len(caplog.records) == 2


def with_threads(name, count):
    return ServerSettings.read({Layer.FILE: {name: str(count)}})


@pytest.mark.parametrize("name", THREAD_COUNTS)
def test_threads_are_doubled_or_halved_at_most(name):
    for count in (2, 3, 5, 10):
        check_thread_counts(with_threads(name, 5), with_threads(name, count))
    for count in (1, 11):
        with pytest.raises(SettingError, match="must be between 2 and 10"):
            check_thread_counts(with_threads(name, 5), with_threads(name, count))


def test_compaction_does_not_lose_its_last_thread():
    name = "log.cleaner.threads"
    check_thread_counts(with_threads(name, 0), with_threads(name, 0))
    with pytest.raises(SettingError, match="must be between 1 and 2"):
        check_thread_counts(with_threads(name, 1), with_threads(name, 0))
