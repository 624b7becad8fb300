"""Tests of controller/feature_updates.py."""

import pytest

from odradek.controller.feature_updates import (
    TRANSACTION_VERSION,
    FeatureUpdate,
    UpgradeType,
    decide_all,
    decide_each,
)
from odradek.controller.store.payloads.broker import BrokerRegistration, FeatureVersions

UPGRADE, SAFE, UNSAFE = (
    UpgradeType.UPGRADE,
    UpgradeType.SAFE_DOWNGRADE,
    UpgradeType.UNSAFE_DOWNGRADE,
)
ABLE = BrokerRegistration((), features={TRANSACTION_VERSION: FeatureVersions(1, 2)})
UNABLE = BrokerRegistration(())


def told(decide, present, wanted, kind, *, feature=TRANSACTION_VERSION, brokers=(ABLE,)):
    """The level afterwards, and the error."""
    levels = {feature: present} if present else {}
    after, outcomes = decide([FeatureUpdate(feature, wanted, kind)], levels, brokers)
    refusal = outcomes[feature]
    return after.get(feature, 0), "NONE" if refusal is None else refusal.error.name


@pytest.mark.parametrize("decide", [decide_each, decide_all])
@pytest.mark.parametrize(
    ("present", "wanted", "kind"),
    [(0, 1, UPGRADE), (0, 2, UPGRADE), (1, 2, UPGRADE), (2, 1, SAFE), (2, 0, SAFE), (1, 0, UNSAFE)],
)
def test_levels_that_may_be_changed(decide, present, wanted, kind):
    assert told(decide, present, wanted, kind) == (wanted, "NONE")


@pytest.mark.parametrize(
    ("decide", "error"),
    [(decide_each, "INVALID_REQUEST"), (decide_all, "INVALID_UPDATE_VERSION")],
)
@pytest.mark.parametrize(
    ("present", "wanted", "kind"),
    [
        (0, 3, UPGRADE),
        (2, 1, UPGRADE),
        (1, 2, SAFE),
        (1, 2, UNSAFE),
        (1, 2, UpgradeType.UNKNOWN),
        (0, -1, UPGRADE),
    ],
)
def test_levels_that_may_not(decide, error, present, wanted, kind):
    assert told(decide, present, wanted, kind) == (present, error)


@pytest.mark.parametrize(
    ("present", "wanted", "kind"),
    [(2, 2, UPGRADE), (2, 2, SAFE), (0, 0, SAFE), (0, 0, UPGRADE), (2, 1, UNSAFE)],
)
def test_only_older_tools_are_refused(present, wanted, kind):
    assert told(decide_each, present, wanted, kind) == (present, "INVALID_REQUEST")
    assert told(decide_all, present, wanted, kind) == (wanted, "NONE")


@pytest.mark.parametrize("decide", [decide_each, decide_all])
def test_every_broker_must_support_a_level(decide):
    assert told(decide, 0, 2, UPGRADE, brokers=[ABLE, UNABLE])[0] == 0
    assert told(decide, 0, 1, UPGRADE, feature="no.such.feature")[0] == 0


def test_a_feature_needs_a_name():
    assert told(decide_each, 0, 1, UPGRADE, feature="") == (0, "INVALID_REQUEST")


def test_one_refusal_keeps_all_others_from_newer_tools_only():
    wanted = [FeatureUpdate(TRANSACTION_VERSION, 2, UPGRADE), FeatureUpdate("other", 1, UPGRADE)]
    assert decide_each(wanted, {}, [ABLE])[0] == {TRANSACTION_VERSION: 2}
    assert decide_all(wanted, {}, [ABLE])[0] == {}
