"""What is asked about logs: offsets, epochs, producers, directories; and records deleted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.records.compression import Codec
from tests.interop.differential_requests import (
    TIMEOUT_MS,
    Asked,
    Scope,
    Step,
    Values,
    created,
    new_topic,
    produced,
)
from tests.support.logs import records_batch

TOPIC = "r"
#: Latest, earliest, of the largest timestamp, earliest and latest here, tiered, and what is none.
SPECIAL = (-1, -2, -3, -4, -5, -6, -7)


def offsets(scope: Scope) -> Iterator[Step]:
    yield from _filled("o")
    for version in scope.of(ApiKey.LIST_OFFSETS):
        for moment in (*SPECIAL, 0, 1000, 1001, 2500, 3001, 10**15):
            if version or moment < 0 or moment == 10**15:
                values = _listed("o", (0, moment), (1, moment), (2, moment), (7, moment))
                yield Step(f"offsets at {moment}", ApiKey.LIST_OFFSETS, version, values)
        yield from _asked_for_otherwise(version)


def _filled(topic: str) -> Iterator[Step]:
    yield from created(new_topic(topic, 4))
    yield produced(topic, records_batch(b"x" * 300, b"y" * 300, timestamp=1000))
    yield produced(topic, records_batch(b"z" * 300, timestamp=3000))
    yield produced(topic, records_batch(b"w", timestamp=2000, codec=Codec.GZIP))
    yield produced(topic, records_batch(b"q" * 100, timestamp=5000), 1)
    producer = {"producer_id": 100, "producer_epoch": 0, "base_sequence": 0}
    yield produced(topic, records_batch(b"p", timestamp=7000, **producer), 2)


def _listed(topic: str, *partitions: tuple[int, int], **values: Any) -> Values:
    entries = [{"partition_index": number, "timestamp": moment} for number, moment in partitions]
    return {"replica_id": -1, "topics": [{"name": topic, "partitions": entries}], **values}


def _asked_for_otherwise(version: int) -> Iterator[Step]:
    def step(name: str, values: Values) -> Step:
        return Step(name, ApiKey.LIST_OFFSETS, version, values)

    yield step("a partition twice", _listed("o", (0, -1), (0, -2)))
    yield step("another twice", _listed("o", (0, -1), (0, -2), (1, -1)))
    yield step("an unknown topic", _listed("nope", (0, -1)))
    yield step("an impossible topic", _listed("a b", (0, -1)))
    yield step("a negative partition", _listed("o", (-1, -1)))
    yield step("no partitions", _listed("o"))
    yield step("no topics", {"replica_id": -1, "topics": []})
    for replica in (-2, -3, 1, 5):
        yield step(f"as replica {replica}", _listed("o", (0, -1), replica_id=replica))
    for level in (1, 7) if version >= 2 else ():
        values = _listed("o", (0, -1), (2, -1), isolation_level=level)
        yield step(f"isolation level {level}", values)
    for epoch in (0, 9, -2) if version >= 4 else ():
        entry = {"partition_index": 0, "timestamp": -1, "current_leader_epoch": epoch}
        topics = [{"name": "o", "partitions": [entry]}]
        yield step(f"leader epoch {epoch}", {"replica_id": -1, "topics": topics})
    for count in (5, 0, -1) if version == 0 else ():
        entry = {"partition_index": 0, "timestamp": -1, "max_num_offsets": count}
        topics = [{"name": "o", "partitions": [entry]}]
        yield step(f"{count} offsets", {"replica_id": -1, "topics": topics})


def epochs(scope: Scope) -> Iterator[Step]:
    yield from _filled("e")
    for version in scope.of(ApiKey.OFFSET_FOR_LEADER_EPOCH):
        for epoch in (-2, -1, 0, 1, 5):
            for current in (-1, 0, 9, -2) if version >= 2 else (-1,):
                for replica in (-1, -2, 1, 5) if version >= 3 else (-2,):
                    values = _epochs("e", epoch, current, replica)
                    name = f"the end of {epoch} in {current} as {replica}"
                    yield Step(name, ApiKey.OFFSET_FOR_LEADER_EPOCH, version, values)
        for topic in ("nope", "a b", ""):
            values = _epochs(topic, 0, -1, -1)
            yield Step(f"epochs of {topic!r}", ApiKey.OFFSET_FOR_LEADER_EPOCH, version, values)
        yield Step("no epochs", ApiKey.OFFSET_FOR_LEADER_EPOCH, version, {"topics": []})


def _epochs(topic: str, epoch: int, current: int, replica: int) -> Values:
    entries = [
        {"partition": number, "leader_epoch": epoch, "current_leader_epoch": current}
        for number in (0, 3, 7)
    ]
    return {"replica_id": replica, "topics": [{"topic": topic, "partitions": entries}]}


def producers(scope: Scope) -> Iterator[Step]:
    yield from _filled("d")
    key = ApiKey.DESCRIBE_PRODUCERS
    for version in scope.of(key):
        for name in ("d", "nope", "b/d", ""):
            topics = [{"name": name, "partition_indexes": [0, 2, 7, -1]}]
            yield Step(f"producers of {name!r}", key, version, {"topics": topics})
        twice = [{"name": "d", "partition_indexes": [2, 2]}] * 2
        yield Step("producers twice", key, version, {"topics": twice})
        yield Step("no producers", key, version, {"topics": []})
    key = ApiKey.INIT_PRODUCER_ID
    for version in scope.of(key):
        values = {"transactional_id": None, "transaction_timeout_ms": 60_000}
        yield Step("an id at last", key, version, values, is_eventual=True)
        for timeout_ms in (60_000, 0, -1, 2**31 - 1):
            for known in ({}, {"producer_id": 5, "producer_epoch": 0}, {"producer_id": 5}):
                values = {"transactional_id": None, "transaction_timeout_ms": timeout_ms, **known}
                name = f"an id for {timeout_ms} ms, having {known}"
                yield Step(name, key, version, values)
        values = {"transactional_id": "", "transaction_timeout_ms": 60_000}
        yield Step("an id for no name", key, version, values)


def deletions(scope: Scope) -> Iterator[Step]:
    yield from _filled("x")
    yield from created(
        new_topic("x-compacted", config={"cleanup.policy": "compact"}),
        new_topic("x-both", config={"cleanup.policy": "compact,delete"}),
    )
    yield produced("x-compacted", records_batch(b"c", key=b"k"))
    yield produced("x-both", records_batch(b"c", key=b"k"))
    for version in scope.of(ApiKey.DELETE_RECORDS):
        wanted = [
            *(("x", 0, offset) for offset in (0, version + 1, 99, -2, 0)),
            *(
                ("x", 7, 0),
                ("x", -1, 0),
                ("nope", 0, 0),
                ("a b", 0, 0),
                ("__consumer_offsets", 0, 0),
            ),
            *(("x-compacted", 0, 1), ("x-compacted", 0, 99), ("x-both", 0, version), ("x", 1, -1)),
        ]
        for topic, partition, offset in wanted:
            entry = {"partition_index": partition, "offset": offset}
            values = {"topics": [{"name": topic, "partitions": [entry]}], "timeout_ms": TIMEOUT_MS}
            name = f"records of {topic}-{partition} before {offset} deleted"
            yield Step(name, ApiKey.DELETE_RECORDS, version, values)
            values = _listed(topic, (partition, -2), (partition, -1))
            yield Step(f"offsets after {name}", ApiKey.LIST_OFFSETS, 9, values)
        entries = [{"partition_index": 0, "offset": 1}, {"partition_index": 0, "offset": 2}]
        values = {"topics": [{"name": "x", "partitions": entries}], "timeout_ms": TIMEOUT_MS}
        yield Step("a partition twice", ApiKey.DELETE_RECORDS, version, values)
        nothing = {"topics": [], "timeout_ms": TIMEOUT_MS}
        yield Step("nothing deleted", ApiKey.DELETE_RECORDS, version, nothing)


def directories(scope: Scope) -> Iterator[Step]:
    yield from _filled("l")
    for version in scope.of(ApiKey.DESCRIBE_LOG_DIRS):
        asked = {
            "some": [{"topic": "l", "partitions": [1, 2, 7]}, {"topic": "nope", "partitions": [0]}],
            "twice": [{"topic": "l", "partitions": [1, 1]}, {"topic": "l", "partitions": [1]}],
            "none": [],
        }
        for name, topics in asked.items():
            values = {"topics": topics}
            yield Step(f"{name} in directories", ApiKey.DESCRIBE_LOG_DIRS, version, values)
    for version in scope.of(ApiKey.ALTER_REPLICA_LOG_DIRS):
        for number, topic, partition in (
            *((None, "l", 0), (0, "l", 7), (0, "nope", 0), (0, "a b", 0)),
            *((None, "nope", 0), (0, "x" * 249, 0), (None, "x" * 249, 0), (0, "l", -1)),
        ):
            values_of = _moved(number, topic, partition)
            name = f"{topic[:10]}-{partition} moved to {number}"
            yield Step(name, ApiKey.ALTER_REPLICA_LOG_DIRS, version, values_of)
        yield Step("nothing moved", ApiKey.ALTER_REPLICA_LOG_DIRS, version, {"dirs": []})


def _moved(number: int | None, topic: str, partition: int) -> Callable[[Asked], Values]:
    def of(broker: Asked) -> Values:
        path = "/nowhere" if number is None else broker.log_dirs[number]
        return {"dirs": [{"path": path, "topics": [{"name": topic, "partitions": [partition]}]}]}

    return of
