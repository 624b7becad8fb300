"""Validation of UpdateFeatures (KIP-584).

The rules depend on the version of the request.  Versions 0 and 1 validate and report each feature
separately, as Kafka 3.9 does; an update to the current level is an error.  Version 2 applies all
updates or none, as Kafka 4 does; an update to the current level is valid.

Level 0 means that the feature is not finalized.

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
#: The levels that this broker supports: flexible records in the transaction log (1), and an epoch
#: per transaction with partitions added when they are first written to (2).
SUPPORTED_FEATURES: Mapping[str, Versions] = {TRANSACTION_VERSION: Versions(0, 2)}


class UpgradeType(Enum):
    """The direction that an update allows, by its code in requests."""

    UNKNOWN = 0
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3

    @classmethod
    def of(cls, code: int) -> UpgradeType:
        return cls(code) if 1 <= code <= 3 else cls.UNKNOWN


@dataclass(frozen=True, slots=True)
class FeatureUpdate:
    """A requested level of a feature."""

    feature: str
    level: int
    upgrade_type: UpgradeType


#: feature -> error, or None if its update is valid.
FeatureUpdateResults = Mapping[str, KafkaError | None]
#: Receives an update, the current level (0 if not finalized) and the brokers; returns an error.
ValidationRule = Callable[[FeatureUpdate, int, Collection[BrokerRegistration]], KafkaError | None]


def apply_individually(
    updates: Collection[FeatureUpdate],
    levels: Mapping[str, int],
    brokers: Collection[BrokerRegistration],
) -> tuple[Mapping[str, int], FeatureUpdateResults]:
    """Return the levels after all valid updates, and the result of each update."""
    return _apply_updates(_individual_update_error, updates, levels, brokers)


def apply_atomically(
    updates: Collection[FeatureUpdate],
    levels: Mapping[str, int],
    brokers: Collection[BrokerRegistration],
) -> tuple[Mapping[str, int], FeatureUpdateResults]:
    """Like ``apply_individually``, but one invalid update prevents all others."""
    new_levels, results = _apply_updates(_atomic_update_error, updates, levels, brokers)
    return levels if any(results.values()) else new_levels, results


def is_supported(feature: str, level: int, brokers: Collection[BrokerRegistration]) -> bool:
    """Whether all of ``brokers`` support the level."""
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
        reason: str | None = "The feature name must not be empty."
    elif update.upgrade_type is UpgradeType.UNKNOWN:
        reason = "Unknown upgrade type: must be 1 (upgrade), 2 or 3 (safe or unsafe downgrade)."
    elif update.level < 1:
        reason = _removal_error(update, current_level)
    else:
        reason = _level_error(update, current_level, brokers)
    return None if reason is None else InvalidRequest(reason)


def _removal_error(update: FeatureUpdate, current_level: int) -> str | None:
    if update.upgrade_type is UpgradeType.UPGRADE:
        return f"Level {update.level} deletes the feature: set the upgrade type to a downgrade."
    return None if current_level else "Cannot delete a feature that is not finalized."


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
        reason = "unknown upgrade type"
    elif level < 0:
        reason = "a level must be at least 0"
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
