"""Requests that two brokers are sent alike: what a step of a scenario is.

A scenario is a function from a Scope to steps.  The scope says which versions of an API the two
brokers are to be asked in, so that one text of a scenario serves for every pair of brokers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.field import Versions
from odradek.protocol.types import Uuid

TIMEOUT_MS = 15_000
CLIENT_ID = "differential"
BROKER_ID = 1
#: For longer than members let a group wait for one of them; and for an answer that need not come.
PATIENCE_S, SHORT_PATIENCE_S = 25.0, 2.0
#: Unknown, without a leader, or led by another as far as the broker knows.
NOT_LED = (3, 5, 6)
#: Nobody has it.
STRANGE_ID = Uuid(b"n" * 16)

Values = Mapping[str, Any]


class Asked(Protocol):
    """What a request may need to know of the broker that it goes to."""

    port: int
    log_dirs: Sequence[str]
    session_id: int

    def topic_id(self, name: str) -> Uuid: ...

    def member_id(self, alias: str) -> str: ...

    def generation(self, alias: str) -> int: ...

    def producer_id(self, alias: str) -> int: ...

    def producer_epoch(self, alias: str) -> int: ...


@dataclass(frozen=True, slots=True)
class Step:
    """One request, and how its answer is to be taken."""

    name: str
    key: ApiKey
    version: int
    values: Values | Callable[[Asked], Values] = field(default_factory=dict)
    #: In the place of values: the bytes of a frame, size and all.
    raw: bytes | None = None
    client_id: str = CLIENT_ID
    #: Which of the connections to the broker it goes by.
    via: str = ""
    #: Whether there will be an answer if all goes well.
    is_answered: bool = True
    #: One step may send what another takes the answer of, by the same connection.
    is_sent: bool = True
    is_awaited: bool = True
    #: Under which name the member or producer that is answered is remembered.
    learns: str = ""
    #: Of groups or transactions that are listed, only those whose names begin so: others may be
    #: about to go.
    listing: str = ""
    #: Brokers get to know of a change after it was answered: this step may be repeated.
    is_eventual: bool = False
    #: Error codes for which it is repeated too, though both may agree.
    not_yet: Collection[int] = ()
    #: For which it waits, if it is eventual: a word in both answers.
    shows: str = ""
    #: Brokers may leave it without an answer; then nobody waits long for one.
    may_be_silent: bool = False

    @property
    def patience_s(self) -> float:
        return SHORT_PATIENCE_S if self.may_be_silent else PATIENCE_S

    def values_for(self, broker: Asked) -> Values:
        return self.values(broker) if callable(self.values) else self.values


@dataclass(frozen=True, slots=True)
class Scope:
    """What is to be asked of a pair of brokers."""

    versions: Mapping[ApiKey, Versions]
    covered: frozenset[tuple[ApiKey, int]]

    def of(self, key: ApiKey, low: int = 0, high: int = 99) -> list[int]:
        """The versions to ask in."""
        return [v for v in range(low, high + 1) if (key, v) in self.covered]

    @property
    def is_of_zookeeper(self) -> bool:
        """Whether Kafka's broker is of a release that had it."""
        return ApiKey.LEADER_AND_ISR in self.versions

    def has(self, key: ApiKey, version: int) -> bool:
        """Whether both know it, though it need not be asked for."""
        return key in self.versions and version in self.versions[key]


Scenario = Callable[[Scope], Iterator[Step]]


def new_topic(
    name: str,
    partitions: int = 1,
    factor: int = 1,
    replicas: Mapping[int, Sequence[int]] | None = None,
    config: Mapping[str, str | None] | None = None,
) -> Values:
    """An entry of CreateTopics."""
    return {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": factor,
        "assignments": [
            {"partition_index": number, "broker_ids": list(there)}
            for number, there in (replicas or {}).items()
        ],
        "configs": [{"name": key, "value": text} for key, text in (config or {}).items()],
    }


def assigned_topic(
    name: str,
    replicas: Mapping[int, Sequence[int]],
    config: Mapping[str, str | None] | None = None,
) -> Values:
    return new_topic(name, -1, -1, replicas, config)


def creation(*topics: Values, **values: Any) -> Values:
    return {"topics": topics, "timeout_ms": TIMEOUT_MS, **values}


def created(*topics: Values) -> Iterator[Step]:
    """What a scenario begins with; then both brokers lead."""
    yield Step("creation", ApiKey.CREATE_TOPICS, 7, creation(*topics))
    latest = [
        {
            "name": topic["name"],
            "partitions": [
                {"partition_index": number, "timestamp": -1}
                for number in range(topic["num_partitions"])
            ],
        }
        for topic in topics
    ]
    values = {"replica_id": -1, "topics": latest}
    yield Step("topics are led", ApiKey.LIST_OFFSETS, 9, values, is_eventual=True, not_yet=NOT_LED)


def produce(
    version: int,
    topic: str,
    records: bytes | None,
    *,
    partition: int = 0,
    acks: int = -1,
    **values: Any,
) -> Callable[[Asked], Values]:
    def of(broker: Asked) -> Values:
        entry = {"index": partition, "records": records}
        named = {"name": topic, "partition_data": [entry]}
        if version >= 13:
            named["topic_id"] = broker.topic_id(topic)
        return {"acks": acks, "timeout_ms": TIMEOUT_MS, "topic_data": [named], **values}

    return of


def produced(topic: str, records: bytes | bytearray, partition: int = 0) -> Step:
    """Records that a scenario begins with."""
    return Step(
        "records", ApiKey.PRODUCE, 9, produce(9, topic, bytes(records), partition=partition)
    )


def fetch(
    version: int, topic: str, *partitions: Values, **values: Any
) -> Callable[[Asked], Values]:
    def of(broker: Asked) -> Values:
        named: dict[str, Any] = {"topic": topic, "partitions": list(partitions)}
        if version >= 13:
            named["topic_id"] = broker.topic_id(topic)
        sized = {"max_bytes": 50 << 20} if version >= 3 else {}
        return {"max_wait_ms": 0, "min_bytes": 1, "topics": [named], **sized, **values}

    return of


def fetched(partition: int, offset: int, max_bytes: int = 1 << 20, **values: Any) -> Values:
    """An entry of Fetch."""
    given = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": max_bytes}
    return {**given, **values}
