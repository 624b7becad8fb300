"""What stands twice in one request."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from odradek.protocol.api_keys import ApiKey
from tests.interop.differential_requests import (
    TIMEOUT_MS,
    Asked,
    Scope,
    Step,
    Values,
    created,
    fetched,
    new_topic,
    produced,
)
from tests.support.logs import records_batch

TOPIC = "w"
IDS_IN_FETCH, IDS_IN_PRODUCE = 13, 13
#: Partitions, topic by topic: one topic in two entries, with other partitions and with the same.
TWICE = {
    "a topic twice": ((0,), (1,)),
    "a topic twice with a partition": ((0, 1), (0,)),
    "a partition thrice": ((0, 0, 0),),
    "an unknown partition twice": ((7,), (7, 0)),
}


def repeats(scope: Scope) -> Iterator[Step]:
    yield from created(new_topic(TOPIC, 2))
    yield produced(TOPIC, records_batch(b"a", b"b", b"c", timestamp=1000))
    yield produced(TOPIC, records_batch(b"d", timestamp=1000), 1)
    for name, topics in TWICE.items():
        for version in scope.of(ApiKey.LIST_OFFSETS):
            entries = _topics("name", topics, "partition_index", timestamp=-1)
            values: Values = {"replica_id": -1, "topics": entries}
            yield Step(f"offsets, {name}", ApiKey.LIST_OFFSETS, version, values)
        for version in scope.of(ApiKey.OFFSET_FOR_LEADER_EPOCH):
            entries = _topics("topic", topics, "partition", leader_epoch=0)
            values = {"replica_id": -2, "topics": entries}
            yield Step(f"epochs, {name}", ApiKey.OFFSET_FOR_LEADER_EPOCH, version, values)
        for version in scope.of(ApiKey.FETCH):
            yield Step(f"fetched, {name}", ApiKey.FETCH, version, _fetched(version, topics))
        for version in scope.of(ApiKey.DELETE_RECORDS):
            entries = _topics("name", topics, "partition_index", offset=1)
            values = {"topics": entries, "timeout_ms": TIMEOUT_MS}
            yield Step(f"deleted, {name}", ApiKey.DELETE_RECORDS, version, values)
    # The last, since what there is may differ then.
    for name, topics in TWICE.items():
        for version in scope.of(ApiKey.PRODUCE, 3):
            yield Step(f"produced, {name}", ApiKey.PRODUCE, version, _produced(version, topics))


def _topics(
    named: str, topics: Sequence[Sequence[int]], number: str, **more: Any
) -> list[dict[str, Any]]:
    return [
        {named: TOPIC, "partitions": [{number: each, **more} for each in partitions]}
        for partitions in topics
    ]


def _fetched(version: int, topics: Sequence[Sequence[int]]) -> Callable[[Asked], Values]:
    def of(broker: Asked) -> Values:
        ided = {"topic_id": broker.topic_id(TOPIC)} if version >= IDS_IN_FETCH else {}
        sized = {"max_bytes": 50 << 20} if version >= 3 else {}
        return {
            "max_wait_ms": 0,
            "min_bytes": 1,
            "topics": [
                {"topic": TOPIC, "partitions": [fetched(each, 0) for each in partitions], **ided}
                for partitions in topics
            ],
            **sized,
        }

    return of


def _produced(version: int, topics: Sequence[Sequence[int]]) -> Callable[[Asked], Values]:
    records = bytes(records_batch(b"x", timestamp=1000))

    def of(broker: Asked) -> Values:
        ided = {"topic_id": broker.topic_id(TOPIC)} if version >= IDS_IN_PRODUCE else {}
        entries = [
            {
                "name": TOPIC,
                "partition_data": [{"index": each, "records": records} for each in partitions],
                **ided,
            }
            for partitions in topics
        ]
        return {"acks": -1, "timeout_ms": TIMEOUT_MS, "topic_data": entries}

    return of
