"""May the level of a feature be changed as somebody asks?

Two generations of tools ask.  Those of the first, up to version 1 of the request, are told of each
feature alone, as Kafka 3.9 does: to ask for the level that is there is a mistake.  Those of the
second, from version 2 on, have all or nothing, as in Kafka 4: what is there already is fine.

Level 0 is no level: the feature is not in force.

Owner: none; immutable, any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import Enum

from odradek.controller.store.payloads.broker import BrokerRegistration
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import InvalidRequest, KafkaError
from odradek.protocol.field import Versions

TRANSACTION_VERSION = "transaction.version"
#: What this broker can do: flexible records in the log of transactions (1), and an epoch for each
#: transaction, whose partitions are added as they are written to (2).
SUPPORTED_FEATURES: Mapping[str, Versions] = {TRANSACTION_VERSION: Versions(0, 2)}


class UpgradeType(Enum):
    """Which way a level may go; by the number that requests carry."""

    UNKNOWN = 0
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3

    @classmethod
    def of(cls, code: int) -> UpgradeType:
        return cls(code) if 1 <= code <= 3 else cls.UNKNOWN


@dataclass(frozen=True, slots=True)
class FeatureUpdate:
    """A level that somebody asks for."""

    feature: str
    level: int
    upgrade_type: UpgradeType


#: None for what is as it should be.
FeatureUpdateResults = Mapping[str, KafkaError | None]
#: What a feature's level is to become, 0 if there is none, and why it may not.
ValidationRule = Callable[[FeatureUpdate, int, Collection[BrokerRegistration]], KafkaError | None]


def apply_individually(
    updates: Collection[FeatureUpdate],
    levels: Mapping[str, int],
    brokers: Collection[BrokerRegistration],
) -> tuple[Mapping[str, int], FeatureUpdateResults]:
    """The levels after all changes that may be made, and what is told of each."""
    return _apply_updates(_individual_update_error, updates, levels, brokers)


def apply_atomically(
    updates: Collection[FeatureUpdate],
    levels: Mapping[str, int],
    brokers: Collection[BrokerRegistration],
) -> tuple[Mapping[str, int], FeatureUpdateResults]:
    """The same, but one that may not be made keeps all the others from being made."""
    new_levels, results = _apply_updates(_atomic_update_error, updates, levels, brokers)
    return levels if any(results.values()) else new_levels, results


def is_supported(feature: str, level: int, brokers: Collection[BrokerRegistration]) -> bool:
    """By all of them."""
    supported = [broker.features.get(feature) for broker in brokers]
    return all(
        versions and versions.min_version <= level <= versions.max_version for versions in supported
    )


def _apply_updates(
    rule: ValidationRule,
    updates: Collection[FeatureUpdate],
    levels: Mapping[str, int],
    brokers: Collection[BrokerRegistration],
) -> tuple[Mapping[str, int], FeatureUpdateResults]:
    new_levels, results = dict(levels), {}
    for update in updates:
        error = rule(update, levels.get(update.feature, 0), brokers)
        results[update.feature] = error
        if error is None:
            new_levels[update.feature] = max(0, update.level)
    return {feature: level for feature, level in new_levels.items() if level}, results


def _individual_update_error(
    update: FeatureUpdate, current_level: int, brokers: Collection[BrokerRegistration]
) -> KafkaError | None:
    if not update.feature:
        reason: str | None = "A feature needs a name."
    elif update.upgrade_type is UpgradeType.UNKNOWN:
        reason = "That is no kind of upgrade."
    elif update.level < 1:
        reason = _removal_error(update, current_level)
    else:
        reason = _level_error(update, current_level, brokers)
    return None if reason is None else InvalidRequest(reason)


def _removal_error(update: FeatureUpdate, current_level: int) -> str | None:
    if update.upgrade_type is UpgradeType.UPGRADE:
        return f"Level {update.level} deletes the feature: set the upgrade type to a downgrade."
    return None if current_level else "The feature is not in force and cannot be taken away."


def _level_error(
    update: FeatureUpdate, current_level: int, brokers: Collection[BrokerRegistration]
) -> str | None:
    level, upgrade_type = update.level, update.upgrade_type
    reason = None
    if level == current_level:
        reason = f"The feature is already at level {current_level}."
    elif level < current_level and upgrade_type is not UpgradeType.SAFE_DOWNGRADE:
        reason = (
            f"Cannot downgrade from level {current_level} to {level} without setting the upgrade "
            "type to safe downgrade."
        )
    elif current_level and level > current_level and upgrade_type is not UpgradeType.UPGRADE:
        reason = (
            f"Cannot upgrade from level {current_level} to {level} without setting the upgrade "
            "type to upgrade."
        )
    elif not _is_supported_locally(update) or not is_supported(update.feature, level, brokers):
        reason = f"Not every broker supports level {level} of the feature."
    return reason


def _atomic_update_error(
    update: FeatureUpdate, current_level: int, brokers: Collection[BrokerRegistration]
) -> KafkaError | None:
    level, upgrade_type = update.level, update.upgrade_type
    reason = None
    if upgrade_type is UpgradeType.UNKNOWN:
        reason = "that is no kind of upgrade"
    elif level < 0:
        reason = "no level is less than 0"
    elif not _is_supported_locally(update) or (
        level and not is_supported(update.feature, level, brokers)
    ):
        reason = "not every broker supports it"
    elif level < current_level and upgrade_type is UpgradeType.UPGRADE:
        reason = (
            f"cannot downgrade from level {current_level} without setting the upgrade type to safe "
            "or unsafe downgrade"
        )
    elif level > current_level and upgrade_type is not UpgradeType.UPGRADE:
        reason = f"cannot downgrade from level {current_level} to a newer level"
    if reason is None:
        return None
    message = f"Invalid update to level {level} of feature {update.feature}: {reason}."
    return KafkaError(message, error_code=ErrorCode.INVALID_UPDATE_VERSION)


def _is_supported_locally(update: FeatureUpdate) -> bool:
    versions = SUPPORTED_FEATURES.get(update.feature)
    return versions is not None and update.level in versions
