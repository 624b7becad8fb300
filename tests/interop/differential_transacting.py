"""What transactional producers and those who look at them ask, in a telling.

The transactional id is that of the telling, as its group is, and so is the topic that is written
to, unless a step says otherwise.  Producers go by names, behind which each broker's ids and epochs
are (see differential_side).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from odradek.protocol.api_keys import ApiKey
from tests.interop.differential_requests import (
    Asked,
    Step,
    Values,
    created,
    fetch,
    fetched,
    new_topic,
    produce,
)
from tests.interop.differential_telling import NOT_YET_THERE, TOPIC, Telling, line
from tests.support.logs import records_batch

TIMEOUT_MS = 60_000
PARTITIONS = 3
BATCHED_SINCE = 4
#: Each end of a transaction gives the producer another epoch (KIP-890), with sequences of its own.
EPOCH_AT_END_SINCE = 5
#: Of an OffsetFetch that may ask for what is stable, of several groups and topics by name.
STABLE_OFFSETS = 8
COMMITTED_ONLY = 1
OF_TRANSACTIONS = (
    *(ApiKey.INIT_PRODUCER_ID, ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN),
    *(ApiKey.END_TXN, ApiKey.TXN_OFFSET_COMMIT, ApiKey.WRITE_TXN_MARKERS),
    *(ApiKey.DESCRIBE_TRANSACTIONS, ApiKey.LIST_TRANSACTIONS, ApiKey.DESCRIBE_PRODUCERS),
)


@dataclass(frozen=True, slots=True)
class By:
    """A producer: as it was told, or so many epochs later, or one that nobody made."""

    alias: str = "p"
    later: int = 0

    def named(self, broker: Asked) -> dict[str, int]:
        return {
            "producer_id": broker.producer_id(self.alias),
            "producer_epoch": broker.producer_epoch(self.alias) + self.later,
        }


P, NOBODY = By(), By("nobody")
#: In no epoch of its own.
MISTAKEN = {"nobody": NOBODY, "an old epoch": By(later=-1), "a later epoch": By(later=1)}


def coordinated() -> Iterator[Step]:
    """Both coordinate transactions in every partition, and have loaded them."""
    ids = [f"any-{number}" for number in range(30)]
    how = {"is_eventual": True, "not_yet": NOT_YET_THERE}
    asked = {"key_type": 1, "coordinator_keys": ids}
    yield Step("transactions are coordinated", ApiKey.FIND_COORDINATOR, 4, asked, **how)
    asked = {"transactional_ids": ids}
    yield Step("transactions are loaded", ApiKey.DESCRIBE_TRANSACTIONS, 0, asked, **how)
    asked = {"transactional_id": None, "transaction_timeout_ms": TIMEOUT_MS}
    yield Step("there are producer ids", ApiKey.INIT_PRODUCER_ID, 4, asked, **how)


def has_its_topic(telling: Telling) -> Iterator[Step]:
    yield from created(new_topic(telling.group, PARTITIONS))


def following(telling: Telling, sequence: int) -> int:
    """The sequence after so many, in the transaction after."""
    return 0 if telling.version(ApiKey.END_TXN) >= EPOCH_AT_END_SINCE else sequence


# What producers ask


def init(
    telling: Telling, name: str, alias: str = "", *, by: By | None = None, **said: Any
) -> Step:
    """Who is answered is then known as ``alias``."""

    def values(broker: Asked) -> Values:
        given = {"transactional_id": telling.group, "transaction_timeout_ms": TIMEOUT_MS}
        return {**given, **(by.named(broker) if by else {}), **said}

    return telling.step(name, ApiKey.INIT_PRODUCER_ID, values, learns=alias)


def add(
    telling: Telling, name: str, by: By = P, *partitions: int | tuple[str, int], **said: Any
) -> Step:
    """Partitions of the telling's topic, or of others."""
    by_topic: dict[str, list[int]] = {}
    for each in partitions:
        topic, partition = (telling.group, each) if isinstance(each, int) else each
        by_topic.setdefault(topic, []).append(partition)
    topics = [{"name": topic, "partitions": each} for topic, each in by_topic.items()]

    def values(broker: Asked) -> Values:
        named = {"transactional_id": telling.group, **by.named(broker), "topics": topics, **said}
        if telling.version(ApiKey.ADD_PARTITIONS_TO_TXN) >= BATCHED_SINCE:
            return {"transactions": [named]}
        return {f"v3_and_below_{key}": each for key, each in named.items()}

    return telling.step(name, ApiKey.ADD_PARTITIONS_TO_TXN, values)


def add_offsets(telling: Telling, name: str, by: By = P, **said: Any) -> Step:
    def values(broker: Asked) -> Values:
        named = {"transactional_id": telling.group, "group_id": telling.group}
        return {**named, **by.named(broker), **said}

    return telling.step(name, ApiKey.ADD_OFFSETS_TO_TXN, values)


def commit_offsets(
    telling: Telling,
    name: str,
    by: By = P,
    lines: Sequence[Values] = (line(TOPIC, 0, 5, "told"),),
    member: str = "",
    **said: Any,
) -> Step:
    """In no generation, unless as the member of this name."""

    def values(broker: Asked) -> Values:
        named = {"transactional_id": telling.group, "group_id": telling.group}
        membership = {
            "member_id": broker.member_id(member),
            "generation_id": broker.generation(member),
        }
        return {**named, **by.named(broker), **membership, "topics": lines, **said}

    return telling.step(name, ApiKey.TXN_OFFSET_COMMIT, values)


def end(telling: Telling, name: str, by: By = P, *, committed: bool = True, **said: Any) -> Step:
    """Whose epoch may be another afterwards."""
    how = {"learns": said.pop("learns")} if "learns" in said else {}

    def values(broker: Asked) -> Values:
        named = {"transactional_id": telling.group, **by.named(broker)}
        return {**named, "committed": committed, **said}

    return telling.step(name, ApiKey.END_TXN, values, **how)


def ended(telling: Telling, *, committed: bool, alias: str = "p") -> Iterator[Step]:
    """And so in all partitions."""
    how = "commit" if committed else "abort"
    yield end(telling, f"{alias} ends: {how}", By(alias), committed=committed, learns=alias)
    yield settled(telling, "CompleteCommit" if committed else "CompleteAbort")


def send(
    telling: Telling, name: str, by: By = P, *, partition: int = 0, sequence: int = 0, **said: Any
) -> Step:
    """One record; it may say another transactional id, or that it is in no transaction."""
    version = telling.version(ApiKey.PRODUCE)
    transactional_id = said.get("transactional_id", telling.group)

    def values(broker: Asked) -> Values:
        fields: Mapping[str, Any] = {
            **by.named(broker),
            "base_sequence": sequence,
            "is_transactional": said.get("is_transactional", True),
        }
        records = bytes(records_batch(name.encode(), **fields))
        named = {"partition": partition, "transactional_id": transactional_id}
        return produce(version, telling.group, records, **named)(broker)

    return telling.step(name, ApiKey.PRODUCE, values)


# What others ask


def settled(telling: Telling, state: str, *, transactional_id: str = "") -> Step:
    asked = {"transactional_ids": [transactional_id or telling.group]}
    how = {"is_eventual": True, "shows": state}
    return telling.step(f"settled: {state}", ApiKey.DESCRIBE_TRANSACTIONS, asked, **how)


def describe(telling: Telling, name: str, *transactional_ids: str) -> Step:
    asked = {"transactional_ids": list(transactional_ids) or [telling.group]}
    return telling.step(name, ApiKey.DESCRIBE_TRANSACTIONS, asked)


def transactions(telling: Telling, name: str, of: Sequence[By] = (), **said: Any) -> Step:
    """Those of this telling, perhaps of these producers only."""

    def values(broker: Asked) -> Values:
        ids = [each.named(broker)["producer_id"] for each in of]
        return {"producer_id_filters": ids, **said}

    return telling.step(name, ApiKey.LIST_TRANSACTIONS, values, listing=telling.group)


def producers(telling: Telling, name: str) -> Step:
    topics = [{"name": telling.group, "partition_indexes": list(range(PARTITIONS))}]
    return telling.step(name, ApiKey.DESCRIBE_PRODUCERS, {"topics": topics})


def what_is_seen(telling: Telling, when: str) -> Iterator[Step]:
    """Of the topic, by those who read all and those who read what is committed."""
    version = telling.version(ApiKey.FETCH)
    for level in (0, COMMITTED_ONLY):
        for start in (0, 2):
            entries = [fetched(each, start) for each in range(PARTITIONS)]
            values = fetch(version, telling.group, *entries, isolation_level=level)
            yield telling.step(f"{when}, read from {start} at {level}", ApiKey.FETCH, values)
        for moment in (-1, -2, -3, 0):
            asked = _offsets(telling.group, moment, level)
            yield telling.step(f"{when}, offsets at {moment}, {level}", ApiKey.LIST_OFFSETS, asked)


def _offsets(topic: str, moment: int, level: int) -> Values:
    entries = [{"partition_index": each, "timestamp": moment} for each in range(PARTITIONS)]
    named = {"name": topic, "partitions": entries}
    return {"replica_id": -1, "topics": [named], "isolation_level": level}


def committed_offsets(telling: Telling, name: str) -> Iterator[Step]:
    """Of the group of the telling; asked twice."""
    for is_stable in (False, True):
        lines = [{"name": TOPIC, "partition_indexes": [0, 1]}]
        asked = {
            "groups": [{"group_id": telling.group, "topics": lines}],
            "require_stable": is_stable,
        }
        title = f"{name}, {'stable ones' if is_stable else 'any'}"
        yield Step(title, ApiKey.OFFSET_FETCH, STABLE_OFFSETS, asked)


def mark(
    telling: Telling, name: str, by: Callable[[Asked], Mapping[str, int]], **said: Any
) -> Step:
    """Markers as a coordinator would have them written, in partition 0 unless it says where."""

    def values(broker: Asked) -> Values:
        given = {
            "transaction_result": False,
            "topics": [{"name": telling.group, "partition_indexes": [0]}],
            "coordinator_epoch": 0,
        }
        return {"markers": [{**by(broker), **given, **said}]}

    return telling.step(name, ApiKey.WRITE_TXN_MARKERS, values)
