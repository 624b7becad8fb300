"""The settings of consumer groups."""

import pytest

from odradek.broker.groups.consumer.assignors import parse_assignors
from odradek.broker.settings.consumer_groups import ConsumerGroupSettings
from odradek.config.definition import ConfigSource, SettingError


def read(**texts):
    file = {name.replace("_", "."): text for name, text in texts.items()}
    return ConsumerGroupSettings.read({ConfigSource.FILE: file})


def test_consumer_protocol_is_enabled_by_default():
    assert read().is_enabled
    assert not read(group_coordinator_rebalance_protocols="classic").is_enabled


def test_default_assignors_exist_and_others_are_rejected():
    assert parse_assignors(read().assignors).names == ("uniform", "range")
    with pytest.raises(SettingError, match=r"group\.consumer\.assignors"):
        read(group_consumer_assignors="com.example.Mine")


@pytest.mark.parametrize(
    ("policy", "may_upgrade", "may_downgrade"),
    [
        ("bidirectional", True, True),
        ("upgrade", True, False),
        ("downgrade", False, True),
        ("disabled", False, False),
    ],
)
def test_migration_policy_allows_upgrade_and_downgrade(policy, may_upgrade, may_downgrade):
    settings = read(group_consumer_migration_policy=policy)
    assert (settings.may_upgrade, settings.may_downgrade) == (may_upgrade, may_downgrade)


@pytest.mark.parametrize(
    "texts",
    [
        {"group_consumer_session_timeout_ms": "1000"},
        {"group_consumer_session_timeout_ms": "70000"},
        {"group_consumer_heartbeat_interval_ms": "1000"},
        {"group_consumer_heartbeat_interval_ms": "20000"},
        {
            "group_consumer_min_session_timeout_ms": "4000",
            "group_consumer_session_timeout_ms": "4000",
        },
    ],
)
def test_session_timeout_and_heartbeat_interval_out_of_bounds_are_rejected(texts):
    with pytest.raises(SettingError):
        read(**texts)
