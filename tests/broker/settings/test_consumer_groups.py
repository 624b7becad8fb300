"""Tests of broker/settings/consumer_groups.py."""

import pytest

from odradek.broker.groups.consumer.assignors import assignors_of
from odradek.broker.settings.consumer_groups import ConsumerGroupSettings
from odradek.config.definition import Layer, SettingError


def read(**texts):
    file = {name.replace("_", "."): text for name, text in texts.items()}
    return ConsumerGroupSettings.read({Layer.FILE: file})


def test_the_consumer_protocol_is_on_unless_it_is_switched_off():
    assert read().is_enabled
    assert not read(group_coordinator_rebalance_protocols="classic").is_enabled


def test_the_default_assignors_are_there():
    assert assignors_of(read().assignors).names == ("uniform", "range")
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
def test_the_policy_says_which_ways_groups_may_go(policy, may_upgrade, may_downgrade):
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
def test_sessions_and_heartbeats_keep_within_their_bounds(texts):
    with pytest.raises(SettingError):
        read(**texts)
