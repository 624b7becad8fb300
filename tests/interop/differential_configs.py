"""Settings of topics and brokers, shown and changed, in all versions.

How each broker setting of Kafka is shown is recorded elsewhere (config_steps); here the versions
count, and the mistakes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from odradek.protocol.api_keys import ApiKey
from tests.interop.config_steps import BROKER, CLIENT_METRICS, GROUP, TOPIC
from tests.interop.differential_requests import BROKER_ID, Scope, Step, Values, created, new_topic

SET, DELETE, APPEND, SUBTRACT = range(4)
NO_SUCH_TYPE = 99
OWN = str(BROKER_ID)
SOME_OF_BROKER = ["log.roll.ms", "log.roll.hours", "broker.id", "no.such.setting", "num.partitions"]
CHANGED = ["log.retention.ms", "log.cleaner.threads", "log.cleanup.policy", "message.max.bytes"]

Resource = tuple[int, str, Any]


def scenario(scope: Scope) -> Iterator[Step]:
    yield from created(
        new_topic("n-0", config={"retention.ms": "777", "cleanup.policy": "compact,delete"}),
        new_topic("n-1"),
    )
    yield from _descriptions(scope)
    for version in scope.of(ApiKey.INCREMENTAL_ALTER_CONFIGS):
        for name, values in _changes(version).items():
            yield Step(name, ApiKey.INCREMENTAL_ALTER_CONFIGS, version, values)
            yield from _as_it_is_now(scope)
    for version in scope.of(ApiKey.ALTER_CONFIGS):
        for name, values in _replacements(version).items():
            yield Step(name, ApiKey.ALTER_CONFIGS, version, values)
            yield from _as_it_is_now(scope)
    for version in scope.of(ApiKey.ALTER_CONFIGS, 2):
        for name, values in _refused_replacements().items():
            yield Step(name, ApiKey.ALTER_CONFIGS, version, values, may_be_silent=True)


def _described(*resources: Resource, **values: Any) -> Values:
    return {
        "resources": [
            {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
            for kind, name, keys in resources
        ],
        **values,
    }


def _as_it_is_now(scope: Scope) -> Iterator[Step]:
    asked = _described((TOPIC, "n-0", None), (BROKER, OWN, CHANGED), (BROKER, "", CHANGED))
    yield Step("as it is now", ApiKey.DESCRIBE_CONFIGS, 0, asked, is_eventual=True)


def _descriptions(scope: Scope) -> Iterator[Step]:
    resources: Mapping[str, Sequence[Resource]] = {
        "topics": [(TOPIC, "n-0", None), (TOPIC, "n-1", None)],
        "some of a topic": [(TOPIC, "n-0", ["retention.ms", "no.such", "segment.bytes"])],
        "none of a topic": [(TOPIC, "n-0", [])],
        "a topic twice": [(TOPIC, "n-1", ["retention.ms"])] * 2,
        "unknown topics": [(TOPIC, "nope", None), (TOPIC, "a b", None), (TOPIC, "", None)],
        "some of the broker": [(BROKER, OWN, SOME_OF_BROKER)],
        "all brokers": [(BROKER, "", None)],
        "other brokers": [
            (BROKER, "2", None),
            (BROKER, "one", None),
            (BROKER, "+1", ["broker.id"]),
        ],
        "resources of no type": [(0, "x", None), (TOPIC, "n-1", ["retention.ms"])],
        "resources of unknown type": [(NO_SUCH_TYPE, "x", None)],
        "metrics": [(CLIENT_METRICS, "x", None), (CLIENT_METRICS, "", None)],
        "a group": [(GROUP, "g", None), (GROUP, "", None)],
        "nothing": [],
    }
    for version in scope.of(ApiKey.DESCRIBE_CONFIGS):
        for name, asked in resources.items():
            for synonyms in (False, True) if version else (False,):
                values = (
                    _described(*asked, include_synonyms=synonyms) if version else _described(*asked)
                )
                title = f"{name} with synonyms" if synonyms else name
                yield Step(title, ApiKey.DESCRIBE_CONFIGS, version, values)
            if version >= 3:
                values = _described(*asked, include_documentation=True)
                yield Step(f"{name} explained", ApiKey.DESCRIBE_CONFIGS, version, values)


def _altered(*resources: Resource, only_checked: bool = False) -> Values:
    return {
        "resources": [
            {
                "resource_type": kind,
                "resource_name": name,
                "configs": [
                    {"name": key, "config_operation": operation, "value": text}
                    for key, operation, text in changes
                ],
            }
            for kind, name, changes in resources
        ],
        "validate_only": only_checked,
    }


def _changes(version: int) -> Mapping[str, Values]:
    number = str(5_000_000 + version)
    return {
        "a topic changed": _altered((TOPIC, "n-0", [("segment.bytes", SET, number)])),
        "a list grows": _altered((TOPIC, "n-1", [("cleanup.policy", APPEND, "compact")])),
        "a list shrinks": _altered((TOPIC, "n-1", [("cleanup.policy", SUBTRACT, "delete")])),
        "back to the default": _altered((TOPIC, "n-1", [("cleanup.policy", DELETE, None)])),
        "only looked at": _altered((TOPIC, "n-0", [("flush.ms", SET, "5")]), only_checked=True),
        "the broker changed": _altered((BROKER, OWN, [("log.retention.ms", SET, number)])),
        "all brokers changed": _altered((BROKER, "", [("message.max.bytes", SET, number)])),
        "back to what was": _altered(
            (BROKER, OWN, [("log.retention.ms", DELETE, None)]),
        ),
        "all back to what was": _altered((BROKER, "", [("message.max.bytes", DELETE, None)])),
        "a wrong number": _altered((TOPIC, "n-0", [("segment.bytes", SET, "many")])),
        "an unknown setting": _altered((TOPIC, "n-0", [("no.such", SET, "1")])),
        "what no list is": _altered((TOPIC, "n-0", [("segment.bytes", APPEND, "1")])),
        "an unknown operation": _altered((TOPIC, "n-0", [("segment.bytes", 7, "1")])),
        "no value": _altered((TOPIC, "n-0", [("segment.bytes", SET, None)])),
        "a setting twice": _altered(
            (TOPIC, "n-0", [("flush.ms", SET, "5"), ("flush.ms", SET, "6")])
        ),
        "a topic twice": _altered((TOPIC, "n-0", [("flush.ms", SET, "5")]), (TOPIC, "n-0", [])),
        "no changes": _altered((TOPIC, "n-0", [])),
        "what cannot change": _altered((BROKER, OWN, [("broker.id", SET, "5")])),
        "what is for all": _altered((BROKER, "", [("advertised.listeners", SET, "A://h:1")])),
        "unknown topics": _altered(
            *((TOPIC, name, [("flush.ms", SET, "5")]) for name in ("nope", "a b", ""))
        ),
        "other brokers": _altered(
            *((BROKER, name, [("log.retention.ms", SET, "5")]) for name in ("2", "one"))
        ),
        "other resources": _altered(
            *((kind, "x", [("a", SET, "5")]) for kind in (0, NO_SUCH_TYPE, CLIENT_METRICS))
        ),
        "a group changed": _altered((GROUP, "x", [("a", SET, "5")])),
        "nothing": _altered(),
    }


def _replaced(*resources: Resource, only_checked: bool = False) -> Values:
    return {
        "resources": [
            {
                "resource_type": kind,
                "resource_name": name,
                "configs": [{"name": key, "value": text} for key, text in texts.items()],
            }
            for kind, name, texts in resources
        ],
        "validate_only": only_checked,
    }


def _replacements(version: int) -> Mapping[str, Values]:
    number = str(6_000_000 + version)
    return {
        "a topic's replaced": _replaced((TOPIC, "n-0", {"segment.bytes": number})),
        "replaced by nothing": _replaced((TOPIC, "n-0", {})),
        "replacement only looked at": _replaced(
            (TOPIC, "n-0", {"flush.ms": "5"}), only_checked=True
        ),
        "the broker's replaced": _replaced((BROKER, OWN, {"log.retention.ms": number})),
        "the broker's replaced by nothing": _replaced((BROKER, OWN, {})),
        "all brokers' replaced": _replaced((BROKER, "", {"message.max.bytes": number})),
        "all brokers' replaced by nothing": _replaced((BROKER, "", {})),
        "replaced by a wrong number": _replaced((TOPIC, "n-0", {"segment.bytes": "many"})),
        "replaced by no value": _replaced((TOPIC, "n-0", {"segment.bytes": None})),
        "replaced by what is unknown": _replaced((TOPIC, "n-0", {"no.such": "1"})),
        "replaced, what cannot be": _replaced((BROKER, OWN, {"broker.id": "5"})),
        "replaced for unknown topics": _replaced(
            *((TOPIC, name, {"flush.ms": "5"}) for name in ("nope", "a b", ""))
        ),
        "replaced for other brokers": _replaced(
            *((BROKER, name, {"log.retention.ms": "5"}) for name in ("2", "one"))
        ),
        "nothing replaced": _replaced(),
    }


def _refused_replacements() -> Mapping[str, Values]:
    return {
        "replaced twice": _replaced((TOPIC, "n-1", {}), (TOPIC, "n-1", {"flush.ms": "5"})),
        "replaced for other resources": _replaced(
            *((kind, "x", {"a": "5"}) for kind in (0, NO_SUCH_TYPE, CLIENT_METRICS, GROUP))
        ),
    }
