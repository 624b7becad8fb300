"""Tests of controller/feature_updates.py."""

import pytest

from odradek.controller.feature_updates import (
    TRANSACTION_VERSION,
    FeatureUpdate,
    UpgradeType,
    apply_atomically,
    apply_individually,
)
from odradek.controller.store.payloads.broker import BrokerRegistration, SupportedVersionRange

UPGRADE, SAFE, UNSAFE = (
    UpgradeType.UPGRADE,
    UpgradeType.SAFE_DOWNGRADE,
    UpgradeType.UNSAFE_DOWNGRADE,
)
SUPPORTING = BrokerRegistration((), features={TRANSACTION_VERSION: SupportedVersionRange(1, 2)})
NOT_SUPPORTING = BrokerRegistration(())


def apply(
    apply_updates, current, requested, kind, *, feature=TRANSACTION_VERSION, brokers=(SUPPORTING,)
):
    """Return the level after the update, and the error."""
    levels = {feature: current} if current else {}
    after, outcomes = apply_updates([FeatureUpdate(feature, requested, kind)], levels, brokers)
    error = outcomes[feature]
    return after.get(feature, 0), "NONE" if error is None else error.error_code.name


@pytest.mark.parametrize("apply_updates", [apply_individually, apply_atomically])
@pytest.mark.parametrize(
    ("current", "requested", "kind"),
    [(0, 1, UPGRADE), (0, 2, UPGRADE), (1, 2, UPGRADE), (2, 1, SAFE), (2, 0, SAFE), (1, 0, UNSAFE)],
)
def test_valid_level_changes_are_applied(apply_updates, current, requested, kind):
    assert apply(apply_updates, current, requested, kind) == (requested, "NONE")


@pytest.mark.parametrize(
    ("apply_updates", "error"),
    [(apply_individually, "INVALID_REQUEST"), (apply_atomically, "INVALID_UPDATE_VERSION")],
)
@pytest.mark.parametrize(
    ("current", "requested", "kind"),
    [
        (0, 3, UPGRADE),
        (2, 1, UPGRADE),
        (1, 2, SAFE),
        (1, 2, UNSAFE),
        (1, 2, UpgradeType.UNKNOWN),
        (0, -1, UPGRADE),
    ],
)
def test_invalid_level_changes_are_rejected(apply_updates, error, current, requested, kind):
    assert apply(apply_updates, current, requested, kind) == (current, error)


@pytest.mark.parametrize(
    ("current", "requested", "kind"),
    [(2, 2, UPGRADE), (2, 2, SAFE), (0, 0, SAFE), (0, 0, UPGRADE), (2, 1, UNSAFE)],
)
def test_level_changes_that_only_individual_updates_reject(current, requested, kind):
    assert apply(apply_individually, current, requested, kind) == (current, "INVALID_REQUEST")
    assert apply(apply_atomically, current, requested, kind) == (requested, "NONE")


@pytest.mark.parametrize("apply_updates", [apply_individually, apply_atomically])
def test_level_that_a_broker_does_not_support_is_rejected(apply_updates):
    assert apply(apply_updates, 0, 2, UPGRADE, brokers=[SUPPORTING, NOT_SUPPORTING])[0] == 0
    assert apply(apply_updates, 0, 1, UPGRADE, feature="no.such.feature")[0] == 0


def test_feature_without_name_is_rejected():
    assert apply(apply_individually, 0, 1, UPGRADE, feature="") == (0, "INVALID_REQUEST")


def test_one_rejected_update_rejects_the_others_only_when_atomic():
    updates = [FeatureUpdate(TRANSACTION_VERSION, 2, UPGRADE), FeatureUpdate("other", 1, UPGRADE)]
    assert apply_individually(updates, {}, [SUPPORTING])[0] == {TRANSACTION_VERSION: 2}
    assert apply_atomically(updates, {}, [SUPPORTING])[0] == {}
