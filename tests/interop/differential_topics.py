"""Topics made, grown, deleted, elected for and reassigned, rightly and not, in all versions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.types import ZERO_UUID
from tests.interop.differential_requests import (
    BROKER_ID,
    STRANGE_ID,
    TIMEOUT_MS,
    Asked,
    Scope,
    Step,
    Values,
    assigned_topic,
    created,
    creation,
    new_topic,
)

STRANGER = 9
DEFAULTS_SINCE = 4
ONLY_CHECKED_SINCE = 1
IDS_SINCE = 6
SOON_MS = 1000


def creations(scope: Scope) -> Iterator[Step]:
    for version in scope.of(ApiKey.CREATE_TOPICS):
        for name, values in _creations(version).items():
            yield Step(name, ApiKey.CREATE_TOPICS, version, values)
        yield from _seen(f"t-hurried-{version}")
    for name, topics in {
        "a name with a dot": [new_topic("t-col.x")],
        "a name that collides": [new_topic("t-col_x")],
        "a topic of brokers": [new_topic("__consumer_offsets", 4)],
    }.items():
        if scope.of(ApiKey.CREATE_TOPICS):
            yield Step(name, ApiKey.CREATE_TOPICS, 7, creation(*topics))


def _seen(name: str) -> Iterator[Step]:
    """Until both know it."""
    values = {"topics": [{"name": name}], "allow_auto_topic_creation": False}
    yield Step(f"{name} is known", ApiKey.METADATA, 8, values, is_eventual=True)


def _creations(version: int) -> Mapping[str, Values]:
    wrong_names = [new_topic(each) for each in ("", ".", "..", "a b", "x" * 250, "\u00e4")]
    cases = {
        "a topic": creation(new_topic(f"t-a-{version}", 2)),
        "an assigned topic": creation(
            assigned_topic(f"t-c-{version}", {0: [1], 1: [1]}, {"retention.ms": "777"})
        ),
        "a topic again": creation(new_topic(f"t-a-{version}", 2)),
        "a topic twice": creation(
            new_topic("t-twice"), new_topic("t-twice"), new_topic(f"t-once-{version}")
        ),
        "wrong names": creation(*wrong_names),
        "wrong counts": creation(
            *(new_topic(f"t-p{count}", count) for count in (0, -2)),
            *(new_topic(f"t-f{factor}", 1, factor) for factor in (0, 2, -2)),
        ),
        "wrong assignments": creation(
            new_topic("t-both", 1, 1, {0: [1]}),
            assigned_topic("t-gap", {1: [1]}),
            assigned_topic("t-replica-twice", {0: [1, 1]}),
            assigned_topic("t-uneven", {0: [1], 1: [1, 2]}),
        ),
        "wrong settings": creation(
            new_topic("t-s1", config={"nope": "1"}),
            new_topic("t-s2", config={"retention.ms": "x"}),
            new_topic("t-s3", config={"retention.ms": None}),
            new_topic("t-s4", config={"min.insync.replicas": "0"}),
            new_topic("t-s5", config={"segment.bytes": "1"}),
            new_topic("t-s6", config={"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "8"}),
            new_topic("t-s7", config={"cleanup.policy": "keep"}),
            new_topic("t-s8", config={"remote.storage.enable": "maybe"}),
        ),
        "settings": creation(
            new_topic(
                f"t-set-{version}",
                config={"cleanup.policy": "compact,delete", "message.format.version": "2.8"},
            )
        ),
        "the topic of KRaft": creation(new_topic("__cluster_metadata")),
        "in no time": creation(new_topic(f"t-hurried-{version}"), timeout_ms=0),
        "none": creation(),
    }
    if version >= ONLY_CHECKED_SINCE:
        checked = [new_topic(f"t-v-{version}"), new_topic("a b"), new_topic(f"t-a-{version}")]
        cases["only checked"] = creation(*checked, validate_only=True)
        cases["only checked, in no time"] = creation(*checked, validate_only=True, timeout_ms=0)
    if version >= DEFAULTS_SINCE:
        cases["by default"] = creation(new_topic(f"t-b-{version}", -1, -1))
    return cases


def growths(scope: Scope) -> Iterator[Step]:
    names = [f"g-{number}" for number in range(8)]
    yield from created(*(new_topic(name, 2) for name in names))
    for version in scope.of(ApiKey.CREATE_PARTITIONS):
        for name, values in _growths(version).items():
            yield Step(name, ApiKey.CREATE_PARTITIONS, version, values)
        topics = {"topics": [{"name": name} for name in names]}
        yield Step("as they are now", ApiKey.METADATA, 8, topics, is_eventual=True)


def _grown(name: str, count: int, replicas: Sequence[Sequence[int]] | None = None) -> Values:
    assignments = replicas if replicas is None else [{"broker_ids": each} for each in replicas]
    return {"name": name, "count": count, "assignments": assignments}


def _growths(version: int) -> Mapping[str, Values]:
    def growth(*topics: Values, **values: Any) -> Values:
        return {"topics": topics, "timeout_ms": TIMEOUT_MS, "validate_only": False, **values}

    return {
        "grown": growth(_grown("g-0", 3 + version)),
        "grown wrongly": growth(
            *(_grown(f"g-{number}", count) for number, count in enumerate((1, 2, -1, 0), start=1)),
            *(_grown(name, 3) for name in ("nope", "a b")),
        ),
        "grown without a name": growth(_grown("", 3)),
        "grown twice": growth(_grown("g-1", 9), _grown("g-1", 8)),
        "assigned wrongly": growth(
            _grown("g-1", 3, [[STRANGER]]),
            _grown("g-2", 3, [[1], [1]]),
            _grown("g-3", 3, [[1, 1]]),
            _grown("g-4", 3, [[]]),
            _grown("g-5", 3, []),
        ),
        "assigned": growth(_grown("g-6", 3 + version, [[1]])),
        "only checked": growth(_grown("g-7", 9), _grown("g-7x", 9), validate_only=True),
        "in no time": growth(_grown("g-7", 3 + version), timeout_ms=0),
        "none": growth(),
    }


def deletions(scope: Scope) -> Iterator[Step]:
    for version in scope.of(ApiKey.DELETE_TOPICS):
        names = [f"z-{name}-{version}" for name in ("a", "b", "c", "d", "e")]
        yield from created(*(new_topic(name, 2) for name in names))
        for name, values in _deletions(version).items():
            yield Step(name, ApiKey.DELETE_TOPICS, version, values)
        gone = {
            "topics": [{"name": name} for name in names],
            "allow_auto_topic_creation": False,
        }
        yield Step("as they are now", ApiKey.METADATA, 8, gone, is_eventual=True)


def _deletions(version: int) -> Mapping[str, Values | Callable[[Asked], Values]]:
    def deletion(*names: str, timeout_ms: int = TIMEOUT_MS) -> Values:
        if version < IDS_SINCE:
            return {"topic_names": names, "timeout_ms": timeout_ms}
        topics = [{"name": name, "topic_id": ZERO_UUID} for name in names]
        return {"topics": topics, "timeout_ms": timeout_ms}

    cases: dict[str, Values | Callable[[Asked], Values]] = {
        "deleted, and others": deletion(f"z-a-{version}", "nope", "a b", ""),
        "deleted again": deletion(f"z-a-{version}"),
        "deleted twice": deletion(f"z-b-{version}", f"z-b-{version}"),
        "unknown twice": deletion("nope", "nope"),
        "in no time": deletion(f"z-c-{version}", timeout_ms=0),
        "none": deletion(),
    }
    if version >= IDS_SINCE:
        cases |= {
            "by id": _by_id((None, f"z-d-{version}"), (None, "nope")),
            "by name and id": _by_id((f"z-e-{version}", f"z-e-{version}"), ("nope", "nope")),
            "by neither": {"topics": [{"topic_id": ZERO_UUID}], "timeout_ms": TIMEOUT_MS},
            "by id twice": _by_id((None, f"z-e-{version}"), (None, f"z-e-{version}")),
            "by an id of nobody": {
                "topics": [{"topic_id": STRANGE_ID}, {"topic_id": STRANGE_ID}],
                "timeout_ms": TIMEOUT_MS,
            },
        }
    return cases


def _by_id(*topics: tuple[str | None, str | None]) -> Callable[[Asked], Values]:
    def of(broker: Asked) -> Values:
        entries = [
            {"name": name, "topic_id": broker.topic_id(ided) if ided else ZERO_UUID}
            for name, ided in topics
        ]
        return {"topics": entries, "timeout_ms": TIMEOUT_MS}

    return of


def elections(scope: Scope) -> Iterator[Step]:
    yield from created(new_topic("v-0", 3))
    several = [
        {"topic": "v-0", "partitions": [0, 1, 77, 0]},
        {"topic": "nope", "partitions": [0]},
        {"topic": "v-0", "partitions": [2]},
    ]
    for version in scope.of(ApiKey.ELECT_LEADERS):
        asked: dict[str, Values] = {
            "some": {"topic_partitions": several},
            "no partitions": {"topic_partitions": [{"topic": "v-0", "partitions": []}]},
            "none": {"topic_partitions": []},
            "all": {"topic_partitions": None},
        }
        if version:
            for kind in (1, 7):
                asked |= {f"some by {kind}": {"topic_partitions": several, "election_type": kind}}
                asked |= {f"all by {kind}": {"topic_partitions": None, "election_type": kind}}
        for name, values in asked.items():
            given = {"timeout_ms": SOON_MS, **values}
            yield Step(f"elected, {name}", ApiKey.ELECT_LEADERS, version, given)


def reassignments(scope: Scope) -> Iterator[Step]:
    yield from created(new_topic("m-0", 3), new_topic("m-1", 3))
    key = ApiKey.ALTER_PARTITION_REASSIGNMENTS
    for version in scope.of(key):
        for name, topics in _moves().items():
            yield Step(f"moved, {name}", key, version, {"topics": topics})
    key = ApiKey.LIST_PARTITION_REASSIGNMENTS
    for version in scope.of(key):
        for name, asked in {
            "all": None,
            "none": [],
            "some": [{"name": "m-0", "partition_indexes": [0, 77]}],
            "unknown": [{"name": "nope", "partition_indexes": [0]}],
        }.items():
            yield Step(f"moving, {name}", key, version, {"topics": asked})
    # Only some controllers raise the epoch of what stays where it is.
    values = {"topic_names": ["m-0", "m-1"], "timeout_ms": TIMEOUT_MS}
    yield Step("moved topics deleted", ApiKey.DELETE_TOPICS, 5, values)
    gone = {"topics": [{"name": "m-0"}, {"name": "m-1"}], "allow_auto_topic_creation": False}
    yield Step("moved topics are gone", ApiKey.METADATA, 8, gone, is_eventual=True)


def _moves() -> Mapping[str, Sequence[Values]]:
    def move(topic: str, *targets: tuple[int, Sequence[int] | None]) -> Values:
        partitions = [{"partition_index": number, "replicas": there} for number, there in targets]
        return {"name": topic, "partitions": partitions}

    here = [BROKER_ID]
    return {
        "where they are": [move("m-0", (0, here), (1, here))],
        "back": [move("m-0", (0, None)), move("nope", (0, None))],
        "to strangers": [move("m-0", (2, [STRANGER]), (1, [BROKER_ID, STRANGER]))],
        "what is not there": [move("m-0", (77, here), (-1, here)), move("nope", (0, here))],
        "to nowhere": [move("m-1", (0, []), (1, [1, 1]), (2, [-1]))],
        "one twice": [move("m-1", (0, here), (0, []))],
        "a topic twice": [move("m-1", (0, [])), move("m-1", (1, []))],
        "no partitions": [move("m-1")],
        "nothing": [],
    }
