"""Fetch in all versions, with sessions and without, from logs with a bit of everything."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.records.compression import Codec
from tests.interop.differential_requests import (
    Asked,
    Scope,
    Step,
    Values,
    created,
    fetch,
    fetched,
    new_topic,
    produced,
)
from tests.support.legacy_messages import message
from tests.support.logs import records_batch

TOPIC = "f"
MANY = 1 << 20
SESSIONS = 12
REQUESTS_OF_A_SESSION = 25
SESSIONS_SINCE = 7


def scenario(scope: Scope) -> Iterator[Step]:
    yield from _filled(scope)
    for version in scope.of(ApiKey.FETCH):
        for name, partitions in _partitions(version).items():
            yield _step(name, version, fetch(version, TOPIC, *partitions))
        yield from _other_topics(version)
        yield from _limits(version)
        yield from _short_sessions(version)


def _step(name: str, version: int, values: Callable[[Asked], Values]) -> Step:
    return Step(name, ApiKey.FETCH, version, values)


def _filled(scope: Scope) -> Iterator[Step]:
    whole = {"message.downconversion.enable": "false"} if scope.is_of_zookeeper else {}
    yield from created(
        new_topic(TOPIC, 3),
        new_topic("f-zstd", config={"compression.type": "zstd"}),
        new_topic("f-whole", config=whole),
        new_topic("f-compacted", config={"cleanup.policy": "compact"}),
        new_topic("f-rolled", config={"segment.bytes": "150"} if scope.is_of_zookeeper else {}),
    )
    yield produced(TOPIC, records_batch(b"x" * 300, b"y" * 300, timestamp=1000))
    yield produced(TOPIC, records_batch(b"z" * 300, timestamp=3000))
    yield produced(TOPIC, records_batch(b"w", timestamp=2000, codec=Codec.GZIP))
    yield produced(TOPIC, records_batch(b"q" * 100, timestamp=5000), 1)
    producer = {"producer_id": 100, "producer_epoch": 0, "base_sequence": 0}
    yield produced(TOPIC, records_batch(b"p", timestamp=7000, **producer), 2)
    yield produced(TOPIC, records_batch(b"z", codec=Codec.ZSTD, timestamp=8000), 2)
    yield produced("f-zstd", records_batch(b"s"))
    yield produced("f-whole", records_batch(b"n"))
    yield produced("f-compacted", records_batch(b"c", key=b"k"))
    for number in range(5):
        yield produced("f-rolled", records_batch(b"%d" % number * 50))


def _partitions(version: int) -> Mapping[str, Sequence[Values]]:
    cases = {
        "all": [fetched(0, 0), fetched(1, 0), fetched(2, 0)],
        "the other way round": [fetched(2, 0), fetched(0, 0)],
        "from the middle of a batch": [fetched(0, 1)],
        "from the third": [fetched(0, 2)],
        "from the end": [fetched(0, 4)],
        "from beyond the end": [fetched(0, 5)],
        "from before the start": [fetched(0, -1)],
        "partitions that are not there": [fetched(7, 0), fetched(1, 0), fetched(-1, 0)],
        "one twice": [fetched(0, 0), fetched(0, 4)],
        "few bytes": [fetched(0, 0, 10), fetched(1, 0, 10)],
        "no bytes": [fetched(0, 0, 0), fetched(1, 0, 0)],
        "fewer bytes than none": [fetched(0, 0, -1)],
        "fewer bytes than none, from the end": [fetched(0, 4, -1)],
        "gzip": [fetched(0, 3)],
        "zstd": [fetched(2, 1)],
        "a producer's, and zstd": [fetched(2, 0)],
        "none": [],
    }
    if version >= 9:
        for epoch in (-2, 0, 9):
            cases[f"leader epoch {epoch}"] = [fetched(0, 0, current_leader_epoch=epoch)]
    if version >= 12:
        for epoch, offset in ((0, 2), (0, 9), (3, 2)):
            name = f"last fetched epoch {epoch} at {offset}"
            cases[name] = [fetched(0, offset, last_fetched_epoch=epoch)]
    return cases


def _other_topics(version: int) -> Iterator[Step]:
    for topic in ("nope", "f-zstd", "f-whole", "f-compacted", "f-rolled"):
        for offset in (0, 2, 9):
            values = fetch(version, topic, fetched(0, offset), fetched(1, 0))
            yield _step(f"{topic} from {offset}", version, values)
    nothing = {"max_wait_ms": 0, "min_bytes": 1, "topics": []}
    yield Step("nothing", ApiKey.FETCH, version, nothing)


def _limits(version: int) -> Iterator[Step]:
    both = (fetched(0, 0), fetched(1, 0))
    if version >= 4:
        for number in (0, 1, 2):
            values = fetch(version, TOPIC, fetched(number, 0), isolation_level=1)
            yield _step(f"what is committed in {number}", version, values)
        wrong = (fetched(0, 4), fetched(1, 9), fetched(7, 0))
        yield _step(
            "committed, or not there", version, fetch(version, TOPIC, *wrong, isolation_level=1)
        )
        yield _step("isolation level 7", version, fetch(version, TOPIC, *both, isolation_level=7))
    if version >= 3:
        for size in (800, 1, 0, -1):
            values = fetch(version, TOPIC, *both, max_bytes=size)
            yield _step(f"{size} bytes in all", version, values)
    for replica in (5, 1, -2, -3):
        values = fetch(version, TOPIC, *both, **_as_replica(version, replica))
        yield _step(f"as replica {replica}", version, values)
    at_end = fetch(version, TOPIC, fetched(0, 4), max_wait_ms=30)
    yield _step("waiting at the end", version, at_end)
    yield _step("waiting for less than none", version, fetch(version, TOPIC, *both, min_bytes=-1))
    yield _step("less than no wait", version, fetch(version, TOPIC, fetched(0, 4), max_wait_ms=-1))
    if version >= 11:
        yield _step("from a rack", version, fetch(version, TOPIC, *both, rack_id="r"))


def _as_replica(version: int, replica: int) -> Values:
    if version < 15:
        return {"replica_id": replica}
    return {"replica_state": {"replica_id": replica, "replica_epoch": -1}}


def _short_sessions(version: int) -> Iterator[Step]:
    if version < SESSIONS_SINCE:
        return
    asked = (fetched(0, 0), fetched(7, 0))
    for session_id, epoch in ((0, 0), (77, 3), (77, -1), (0, 3), (77, 0), (0, -1)):
        values = fetch(version, TOPIC, *asked, session_id=session_id, session_epoch=epoch)
        yield _step(f"session {session_id} in epoch {epoch}", version, values)


def sessions(scope: Scope) -> Iterator[Step]:
    """Long sessions, in which partitions come and go, and records arrive; the same each time."""
    names = {3: "s-0", 7: "s-1"}
    yield from created(*(new_topic(name, 3) for name in names.values()))
    versions = scope.of(ApiKey.FETCH, SESSIONS_SINCE)
    for seed in range(SESSIONS if len(versions) > 1 else 3):
        yield from _session(random.Random(seed), versions)


def _session(chance: random.Random, versions: Sequence[int]) -> Iterator[Step]:
    version = chance.choice(versions)
    for epoch in range(REQUESTS_OF_A_SESSION):
        if chance.random() < 0.3:
            records = records_batch(b"r" * chance.randrange(200), timestamp=9000)
            yield produced("s-0", records, chance.randrange(3))
        topics = {name: _chosen(chance, is_first=not epoch) for name in ("s-0", "s-1")}
        forgotten = [chance.choice([0, 1, 2, 7])] if epoch and chance.random() < 0.2 else []
        limits = {
            "max_bytes": chance.choice([1, 300, MANY]),
            "isolation_level": chance.choice([0, 1]),
            "session_epoch": epoch if chance.random() > 0.02 else epoch + 1,
        }
        values = _in_session(version, topics, forgotten, limits)
        yield _step(f"a session's request {epoch}", version, values)


def _chosen(chance: random.Random, *, is_first: bool) -> list[Values]:
    numbers = {
        chance.choice([0, 1, 2, 2, 7]) for _ in range(4 if is_first else chance.randrange(4))
    }
    return [
        fetched(number, chance.choice([0, 1, 2, 3, 4, 6, 10, 99]), chance.choice([100, MANY]))
        for number in sorted(numbers)
    ]


def _in_session(
    version: int,
    topics: Mapping[str, list[Values]],
    forgotten: list[int],
    limits: Mapping[str, Any],
) -> Callable[[Asked], Values]:
    def of(broker: Asked) -> Values:
        ids = {
            name: {"topic_id": broker.topic_id(name)} if version >= 13 else {} for name in topics
        }
        return {
            "max_wait_ms": 0,
            "min_bytes": 1,
            "session_id": broker.session_id if limits["session_epoch"] else 0,
            "topics": [
                {"topic": name, "partitions": asked, **ids[name]}
                for name, asked in topics.items()
                if asked
            ],
            "forgotten_topics_data": [
                {"topic": "s-0", "partitions": forgotten, **ids["s-0"]} for _ in forgotten
            ],
            **limits,
        }

    return of


def conversions(scope: Scope) -> Iterator[Step]:
    """Records of magic 2 for those who read magic 0 and 1, and the other way round."""
    yield from created(new_topic("c-old"), new_topic("c-new"), new_topic("c-zstd"))
    if scope.has(ApiKey.PRODUCE, 2):
        old = {"acks": -1, "timeout_ms": 1000}
        for number, magic in enumerate((0, 1)):
            entry = {"index": 0, "records": message(magic, b"old", timestamp=5)}
            topics = [{"name": "c-old", "partition_data": [entry]}]
            yield Step("old records", ApiKey.PRODUCE, 1 + number, {**old, "topic_data": topics})
    yield from _of_all_codecs()
    for version in scope.of(ApiKey.FETCH, 0, 11):
        for topic in ("c-old", "c-new", "c-zstd"):
            for offset in (0, 1, 2, 5, 8):
                for max_bytes in (MANY, 100):
                    values = fetch(version, topic, fetched(0, offset, max_bytes))
                    yield _step(f"{topic} from {offset}, {max_bytes} bytes", version, values)


def _of_all_codecs() -> Iterator[Step]:
    for codec in Codec:
        for topic in ("c-new", "c-zstd") if codec is not Codec.ZSTD else ("c-zstd",):
            records = records_batch(b"a", b"b", key=b"k", codec=codec, timestamp=1000)
            yield produced(topic, records)
