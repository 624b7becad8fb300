"""Requests about configurations, one after the other, most of them mistaken.

They go to one broker with id 1.  Each finds what those before it have left.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
NO_SUCH_TYPE = 99
NO_SUCH_OPERATION = 9

#: What the broker's file says besides what any broker needs.
FILE = {
    "log.roll.hours": "48",
    "log.retention.minutes": "20160",
    "log.segment.bytes": "536870912",
    "zookeeper.ssl.truststore.password": "secret",
    "nobody.knows.this": "42",
}


@dataclass(frozen=True, slots=True)
class Step:
    name: str
    api: str
    version: int
    request: Mapping[str, Any]


def steps() -> list[Step]:
    return [
        Step("topics are made", "CREATE_TOPICS", 4, _creation()),
        *_descriptions("at first"),
        _describe("the broker, at first", (BROKER, "1", None)),
        *_mistaken_descriptions(),
        *_changes(),
        *_descriptions("after changes of some"),
        *_mistaken_changes(),
        *_replacements(),
        *_descriptions("after changes of all"),
        *_deletions(),
        *_descriptions("without the changes"),
        *_changed_levels(),
    ]


def _creation() -> dict[str, Any]:
    configs = {"retention.ms": "1000", "cleanup.policy": "compact, delete", "segment.ms": "7200000"}
    return {
        "topics": [_topic("plain", {}), _topic("own", configs)],
        "timeoutMs": 30_000,
        "validateOnly": False,
    }


def _topic(name: str, configs: Mapping[str, str]) -> dict[str, Any]:
    return {
        "name": name,
        "numPartitions": 1,
        "replicationFactor": 1,
        "assignments": [],
        "configs": [{"name": key, "value": text} for key, text in configs.items()],
    }


def described(
    *resources: tuple[int, str, Sequence[str] | None], synonyms: bool = True, version: int = 4
) -> dict[str, Any]:
    request: dict[str, Any] = {
        "resources": [
            {"resourceType": kind, "resourceName": name, "configurationKeys": keys}
            for kind, name, keys in resources
        ]
    }
    if version >= 1:
        request["includeSynonyms"] = synonyms
    if version >= 3:
        request["includeDocumentation"] = False
    return request


def _describe(name: str, *resources: Any, version: int = 4, synonyms: bool = True) -> Step:
    request = described(*resources, version=version, synonyms=synonyms)
    return Step(name, "DESCRIBE_CONFIGS", version, request)


def _descriptions(when: str) -> list[Step]:
    return [
        _describe(f"a topic that has no configuration, {when}", (TOPIC, "plain", None)),
        _describe(f"a topic that has one, {when}", (TOPIC, "own", None)),
        _describe(f"what was changed of the broker, {when}", (BROKER, "1", CHANGED)),
        _describe(f"all brokers, {when}", (BROKER, "", None)),
    ]


#: What the steps below change of brokers, and what goes with it.
CHANGED = [
    "log.cleaner.threads",
    "log.cleanup.policy",
    "log.retention.bytes",
    "log.retention.hours",
    "log.retention.minutes",
    "log.retention.ms",
    "log.roll.hours",
    "log.roll.ms",
    "some.plugin.setting",
]
SOME_OF_TOPIC = ["retention.ms", "cleanup.policy", "segment.bytes", "no.such"]
SOME_OF_BROKER = ["log.roll.ms", "log.roll.hours", "broker.id", "nobody.knows.this", "log.dirs"]


def _mistaken_descriptions() -> list[Step]:
    both = ((TOPIC, "own", SOME_OF_TOPIC), (BROKER, "1", SOME_OF_BROKER))
    return [
        *(_describe(f"some settings in version {each}", *both, version=each) for each in range(5)),
        _describe("some settings without synonyms", *both, synonyms=False),
        _describe("no settings of a topic", (TOPIC, "own", []), synonyms=False),
        _describe("what a topic has that is not there", (TOPIC, "absent", None)),
        _describe("what a topic has that cannot be", (TOPIC, "a b", None)),
        _describe("what a topic has without a name", (TOPIC, "", None)),
        _describe("what another broker has", (BROKER, "2", None)),
        _describe("a broker that has no number", (BROKER, "one", None)),
        _describe("a broker with a sign", (BROKER, "+1", ["broker.id"])),
        _describe("a resource of unknown type", (0, "x", None), (TOPIC, "plain", ["retention.ms"])),
        _describe("a resource of no type", (NO_SUCH_TYPE, "x", None)),
        _describe("metrics of clients", (CLIENT_METRICS, "x", None), (CLIENT_METRICS, "", None)),
        _describe("a group", (GROUP, "", None)),
        _describe("a topic twice", *[(TOPIC, "plain", ["retention.ms"])] * 2),
        _describe("loggers of another broker", (LOGGER, "2", None), (LOGGER, "", None)),
        _describe("one logger", (LOGGER, "1", ["root", "no.such.logger"])),
    ]


def altered(
    *resources: tuple[int, str, Sequence[tuple[str, int, str | None]]], validate_only: bool = False
) -> dict[str, Any]:
    return {
        "resources": [
            {
                "resourceType": kind,
                "resourceName": name,
                "configs": [
                    {"name": key, "configOperation": operation, "value": text}
                    for key, operation, text in changes
                ],
            }
            for kind, name, changes in resources
        ],
        "validateOnly": validate_only,
    }


def _alter(name: str, *resources: Any, validate_only: bool = False) -> Step:
    request = altered(*resources, validate_only=validate_only)
    return Step(name, "INCREMENTAL_ALTER_CONFIGS", 1, request)


def _changes() -> list[Step]:
    return [
        _alter(
            "settings of the broker and of all brokers",
            (BROKER, "1", [("log.retention.ms", SET, "777777"), ("log.cleaner.threads", SET, "2")]),
            (BROKER, "", [("log.retention.ms", SET, "888888"), ("log.roll.ms", SET, "3600000")]),
            (BROKER, "", [("log.retention.ms", SET, "999999")]),
        ),
        _alter(
            "settings of the broker",
            (BROKER, "1", [("log.retention.ms", SET, "777777"), ("log.cleaner.threads", SET, "2")]),
        ),
        _alter(
            "settings of all brokers",
            (BROKER, "", [("log.retention.ms", SET, "888888"), ("log.roll.ms", SET, "3600000")]),
        ),
        _alter("what nobody knows", (BROKER, "1", [("some.plugin.setting", SET, "abc")])),
        _alter("a list grows", (BROKER, "", [("log.cleanup.policy", APPEND, "compact")])),
        _alter("a list shrinks", (BROKER, "", [("log.cleanup.policy", SUBTRACT, "delete")])),
        _alter("a topic", (TOPIC, "own", [("segment.bytes", SET, "1048576")])),
        _alter("a topic's list", (TOPIC, "own", [("cleanup.policy", SUBTRACT, "compact")])),
        _alter("only looked at", (TOPIC, "own", [("flush.ms", SET, "5")]), validate_only=True),
        _alter("nothing", (TOPIC, "own", []), (BROKER, "1", [])),
        _alter("deleted though not set", (BROKER, "1", [("log.roll.ms", DELETE, None)])),
        _alter("deleted with a value", (BROKER, "1", [("log.roll.ms", DELETE, "1")])),
    ]


#: Name, operation and value, each asked of the broker, of all brokers and of a topic.
_MISTAKES: list[tuple[str, int, str | None]] = [
    ("broker.id", SET, "3"),
    ("log.dirs", SET, "/elsewhere"),
    ("log.retention.hours", SET, "5"),
    ("zookeeper.ssl.truststore.password", SET, "x"),
    ("process.roles", SET, "broker"),
    ("no.such.setting", SET, "3"),
    ("no.such.setting", APPEND, "3"),
    ("no.such.setting", DELETE, None),
    ("broker.id", DELETE, None),
    ("retention.ms", SET, "many"),
    ("log.cleaner.threads", SET, "many"),
    ("log.cleaner.threads", SET, "-1"),
    ("log.cleaner.threads", SET, "9"),
    ("log.cleaner.threads", SET, "0"),
    ("log.cleaner.threads", SET, ""),
    ("log.cleaner.threads", APPEND, "1"),
    ("log.cleaner.threads", SUBTRACT, "1"),
    ("log.cleaner.threads", SET, None),
    ("log.cleaner.dedupe.buffer.size", SET, "1024"),
    ("log.cleaner.min.compaction.lag.ms", SET, str(2**63 - 1)),
    ("min.compaction.lag.ms", SET, str(2**63 - 1)),
    ("num.io.threads", SET, "100"),
    ("num.io.threads", SET, "1"),
    ("num.io.threads", SET, "5"),
    ("num.network.threads", SET, "3"),
    ("background.threads", SET, "30"),
    ("background.threads", SET, "12"),
    ("num.replica.fetchers", SET, "2"),
    ("num.recovery.threads.per.data.dir", SET, "2"),
    ("num.recovery.threads.per.data.dir", SET, "7"),
    ("max.connections", SET, "100"),
    ("max.connections.per.ip", SET, "100"),
    ("max.connections.per.ip.overrides", SET, "127.0.0.1:7"),
    ("max.connections.per.ip.overrides", SET, "127.0.0.1"),
    ("max.connection.creation.rate", SET, "1000"),
    ("listener.name.plaintext.max.connections", SET, "50"),
    ("listener.name.plaintext.max.connections", SET, "many"),
    ("listener.name.plaintext.num.network.threads", SET, "3"),
    ("listener.name.plaintext.ssl.keystore.location", SET, "x"),
    ("ssl.keystore.location", SET, "x"),
    ("ssl.keystore.password", SET, "x"),
    ("listeners", SET, "PLAINTEXT://:1"),
    ("advertised.listeners", SET, "OTHER://h:1"),
    ("log.retention.ms", SET, "0"),
    ("log.cleanup.policy", SET, "shred"),
    ("log.cleanup.policy", SET, ""),
    ("log.cleanup.policy", APPEND, "shred"),
    ("log.message.format.version", SET, "2.8"),
    ("compression.type", SET, "none"),
    ("compression.type", SET, "gzip"),
    ("message.max.bytes", NO_SUCH_OPERATION, "1"),
    ("unclean.leader.election.enable", SET, "maybe"),
    ("unclean.leader.election.enable", SET, "TRUE"),
    ("min.insync.replicas", SET, "2"),
    ("producer.id.expiration.ms", SET, "1000"),
    ("leader.replication.throttled.rate", SET, "1000"),
    ("leader.replication.throttled.rate", SET, "-5"),
    ("follower.replication.throttled.replicas", SET, "0:1"),
    ("follower.replication.throttled.replicas", SET, "0-1"),
    ("segment.bytes", SET, "2"),
    ("message.format.version", SET, "2.8"),
    ("remote.storage.enable", SET, "true"),
    ("min.cleanable.dirty.ratio", SET, "1.5"),
]


def _mistaken_changes() -> list[Step]:
    ask = {"the broker": (BROKER, "1"), "all brokers": (BROKER, ""), "a topic": (TOPIC, "plain")}
    one = [("log.roll.ms", SET, "5")]
    twice = [("segment.bytes", SET, "5000000"), ("segment.bytes", SET, "6000000")]
    nothing = [("a", SET, None), ("b", APPEND, None), ("c", DELETE, None)]
    return [
        *(
            _alter(
                f"{name} {operation} {text} of {whose}",
                (*resource, [(name, operation, text)]),
                validate_only=True,
            )
            for name, operation, text in _MISTAKES
            for whose, resource in ask.items()
        ),
        _alter("another broker", (BROKER, "2", one)),
        _alter("a broker without a number", (BROKER, "one", one)),
        _alter("a topic that is not there", (TOPIC, "absent", [("retention.ms", SET, "5")])),
        _alter("a topic that is not there, badly", (TOPIC, "absent", [("no.such", SET, "5")])),
        _alter("a topic without a name", (TOPIC, "", [("retention.ms", SET, "5")])),
        _alter("a topic that cannot be", (TOPIC, "a b", [("retention.ms", SET, "5")])),
        _alter("an unknown resource", (0, "x", one), (NO_SUCH_TYPE, "x", one)),
        _alter("metrics and a group", (CLIENT_METRICS, "x", one), (GROUP, "x", one)),
        _alter("a key twice", (TOPIC, "plain", twice), (BROKER, "1", twice)),
        _alter("keys without values", (TOPIC, "plain", nothing), (BROKER, "1", nothing)),
        _alter(
            "a resource twice, and another",
            (TOPIC, "plain", [("flush.ms", SET, "5")]),
            (TOPIC, "plain", [("flush.ms", SET, "6")]),
            (TOPIC, "own", [("flush.ms", SET, "7")]),
        ),
    ]


def replaced(
    *resources: tuple[int, str, Mapping[str, str | None]], validate_only: bool = False
) -> dict[str, Any]:
    return {
        "resources": [
            {
                "resourceType": kind,
                "resourceName": name,
                "configs": [{"name": key, "value": text} for key, text in texts.items()],
            }
            for kind, name, texts in resources
        ],
        "validateOnly": validate_only,
    }


def _replace(name: str, *resources: Any, validate_only: bool = False) -> Step:
    return Step(name, "ALTER_CONFIGS", 2, replaced(*resources, validate_only=validate_only))


def _replacements() -> list[Step]:
    mistakes = [(name, text) for name, operation, text in _MISTAKES if operation == SET]
    ask = {"the broker": (BROKER, "1"), "all brokers": (BROKER, ""), "a topic": (TOPIC, "plain")}
    return [
        *(
            _replace(
                f"{name}={text} alone of {whose}", (*resource, {name: text}), validate_only=True
            )
            for name, text in mistakes
            for whose, resource in ask.items()
        ),
        _replace("another broker's all", (BROKER, "2", {"log.roll.ms": "5"})),
        _replace("all of a topic that is not there", (TOPIC, "absent", {"retention.ms": "5"})),
        _replace("all of a topic without a name", (TOPIC, "", {"retention.ms": "5"})),
        _replace("loggers", (LOGGER, "1", {"root": "DEBUG"})),
        _replace(
            "unknown resources are replaced", (0, "x", {"a": "b"}), (NO_SUCH_TYPE, "x", {"a": "b"})
        ),
        _replace("all of metrics and a group", (CLIENT_METRICS, "x", {}), (GROUP, "x", {})),
        _replace(
            "resources are replaced twice",
            (TOPIC, "plain", {}),
            (TOPIC, "plain", {"flush.ms": "5"}),
        ),
        _replace("all of a topic", (TOPIC, "own", {"flush.messages": "10"})),
        _replace(
            "all of the broker",
            (BROKER, "1", {"log.cleaner.threads": "2", "log.retention.bytes": "12345"}),
        ),
    ]


def _deletions() -> list[Step]:
    keys = ("log.retention.ms", "log.roll.ms", "log.cleanup.policy")
    return [
        _replace("nothing of the broker", (BROKER, "1", {})),
        _alter("no more of all brokers", (BROKER, "", [(key, DELETE, None) for key in keys])),
        _replace("nothing of a topic", (TOPIC, "own", {})),
    ]


def _changed_levels() -> list[Step]:
    return [
        _alter("a level", (LOGGER, "1", [("kafka.server.KafkaApis", SET, "DEBUG")])),
        _describe("that logger", (LOGGER, "1", ["kafka.server.KafkaApis"])),
        _alter("no level", (LOGGER, "1", [("kafka.server.KafkaApis", SET, "LOUD")])),
        _alter("a level in small letters", (LOGGER, "1", [("root", SET, "info")])),
        _alter("no such logger", (LOGGER, "1", [("no.such.logger", SET, "DEBUG")])),
        _alter("the root without a level", (LOGGER, "1", [("root", DELETE, None)])),
        _alter("a logger without a level", (LOGGER, "1", [("kafka", DELETE, None)])),
        _alter("a level added", (LOGGER, "1", [("root", APPEND, "DEBUG")])),
        _alter("another broker's", (LOGGER, "2", [("root", SET, "DEBUG")])),
        _alter("nobody's", (LOGGER, "", [("root", SET, "DEBUG")])),
        _alter("a level, looked at", (LOGGER, "1", [("root", SET, "LOUD")]), validate_only=True),
    ]
