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
SUPPORTED: Mapping[str, Versions] = {TRANSACTION_VERSION: Versions(0, 2)}


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
    type: UpgradeType


#: None for what is as it should be.
Outcomes = Mapping[str, KafkaError | None]
#: What a feature's level is to become, 0 if there is none, and why it may not.
Rule = Callable[[FeatureUpdate, int, Collection[BrokerRegistration]], KafkaError | None]


def decide_each(
    updates: Collection[FeatureUpdate],
    levels: Mapping[str, int],
    brokers: Collection[BrokerRegistration],
) -> tuple[Mapping[str, int], Outcomes]:
    """The levels after all changes that may be made, and what is told of each."""
    return _decided(_refusal_of_one, updates, levels, brokers)


def decide_all(
    updates: Collection[FeatureUpdate],
    levels: Mapping[str, int],
    brokers: Collection[BrokerRegistration],
) -> tuple[Mapping[str, int], Outcomes]:
    """The same, but one that may not be made keeps all the others from being made."""
    after, outcomes = _decided(_refusal_of_all, updates, levels, brokers)
    return levels if any(outcomes.values()) else after, outcomes


def is_supported(feature: str, level: int, brokers: Collection[BrokerRegistration]) -> bool:
    """By all of them."""
    supported = [broker.features.get(feature) for broker in brokers]
    return all(each and each.min_version <= level <= each.max_version for each in supported)


def _decided(
    rule: Rule,
    updates: Collection[FeatureUpdate],
    levels: Mapping[str, int],
    brokers: Collection[BrokerRegistration],
) -> tuple[Mapping[str, int], Outcomes]:
    after, outcomes = dict(levels), {}
    for update in updates:
        refusal = rule(update, levels.get(update.feature, 0), brokers)
        outcomes[update.feature] = refusal
        if refusal is None:
            after[update.feature] = max(0, update.level)
    return {feature: level for feature, level in after.items() if level}, outcomes


def _refusal_of_one(
    update: FeatureUpdate, present: int, brokers: Collection[BrokerRegistration]
) -> KafkaError | None:
    if not update.feature:
        refused: str | None = "A feature needs a name."
    elif update.type is UpgradeType.UNKNOWN:
        refused = "That is no kind of upgrade."
    elif update.level < 1:
        refused = _against_removal(update, present)
    else:
        refused = _against_level(update, present, brokers)
    return None if refused is None else InvalidRequest(refused)


def _against_removal(update: FeatureUpdate, present: int) -> str | None:
    if update.type is UpgradeType.UPGRADE:
        return f"Level {update.level} is no upgrade: only a downgrade takes a feature away."
    return None if present else "The feature is not in force and cannot be taken away."


def _against_level(
    update: FeatureUpdate, present: int, brokers: Collection[BrokerRegistration]
) -> str | None:
    wanted, kind = update.level, update.type
    refused = None
    if wanted == present:
        refused = f"The feature is at level {present} already."
    elif wanted < present and kind is not UpgradeType.SAFE_DOWNGRADE:
        refused = f"From level {present} to {wanted} only a safe downgrade leads."
    elif present and wanted > present and kind is not UpgradeType.UPGRADE:
        refused = f"From level {present} to {wanted} no downgrade leads."
    elif not _is_within_own(update) or not is_supported(update.feature, wanted, brokers):
        refused = f"Not every broker supports level {wanted} of the feature."
    return refused


def _refusal_of_all(
    update: FeatureUpdate, present: int, brokers: Collection[BrokerRegistration]
) -> KafkaError | None:
    wanted, kind = update.level, update.type
    refused = None
    if kind is UpgradeType.UNKNOWN:
        refused = "that is no kind of upgrade"
    elif wanted < 0:
        refused = "no level is less than 0"
    elif not _is_within_own(update) or (
        wanted and not is_supported(update.feature, wanted, brokers)
    ):
        refused = "not every broker supports it"
    elif wanted < present and kind is UpgradeType.UPGRADE:
        refused = f"from level {present} only a downgrade leads there"
    elif wanted > present and kind is not UpgradeType.UPGRADE:
        refused = f"from level {present} no downgrade leads there"
    if refused is None:
        return None
    text = f"Level {wanted} of {update.feature}: {refused}."
    return KafkaError(text, error=ErrorCode.INVALID_UPDATE_VERSION)


def _is_within_own(update: FeatureUpdate) -> bool:
    own = SUPPORTED.get(update.feature)
    return own is not None and update.level in own
