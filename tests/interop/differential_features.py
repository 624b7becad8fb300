"""Features that all brokers of a cluster have agreed on, and how they are changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from odradek.protocol.api_keys import ApiKey
from tests.interop.differential_requests import Scope, Step, Values

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
TRANSACTIONS = "transaction.version"


def features(scope: Scope) -> Iterator[Step]:
    """Nothing is changed."""
    key = ApiKey.UPDATE_FEATURES
    for version in scope.of(key):
        for name, updates in {
            "nothing": [],
            "an unknown one": [_to("nope", 1)],
            "no name": [_to("", 1)],
            "one twice": [_to("nope", 1), _to("nope", 2)],
            "an unknown one removed": [_to("nope", 0, UNSAFE_DOWNGRADE)],
            "an unknown one removed without saying so": [_to("nope", 0)],
            "beyond what is known": [_to(TRANSACTIONS, 99)],
            "a level before the first": [_to(TRANSACTIONS, -1)],
            "of no kind of change": [_to(TRANSACTIONS, 2, 7)],
        }.items():
            for is_only_checked in (True, False) if version else (False,):
                values: Values = {"feature_updates": updates, "validate_only": is_only_checked}
                yield Step(f"{name}, checked {is_only_checked}", key, version, values)
        if not scope.is_of_zookeeper:
            yield from _of_transactions(version)


def _of_transactions(version: int) -> Iterator[Step]:
    """Whose feature clusters without ZooKeeper have from the beginning; only checked."""
    for level in (0, 1, 2, 3):
        for kind in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
            values = {"feature_updates": [_to(TRANSACTIONS, level, kind)], "validate_only": True}
            name = f"transactions to {level} by {kind}"
            yield Step(name, ApiKey.UPDATE_FEATURES, version, values)


def _to(feature: str, level: int, kind: int = UPGRADE) -> dict[str, Any]:
    return {
        "feature": feature,
        "max_version_level": level,
        "upgrade_type": kind,
        "allow_downgrade": kind != UPGRADE,
    }
