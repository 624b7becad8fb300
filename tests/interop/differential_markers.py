"""What transactions leave in logs, written and read in every version, and markers from outside."""

from __future__ import annotations

from collections.abc import Iterator

from odradek.protocol.api_keys import ApiKey
from tests.interop.differential_requests import Scope, Step, fetch, fetched
from tests.interop.differential_telling import TRANSACTIONS_SINCE, Telling, tellings
from tests.interop.differential_transacting import (
    NOBODY,
    PARTITIONS,
    By,
    P,
    add,
    coordinated,
    describe,
    ended,
    following,
    has_its_topic,
    init,
    mark,
    producers,
    send,
    settled,
    what_is_seen,
)

LATER_COORDINATOR = 5


def records(scope: Scope) -> Iterator[Step]:
    """Of two producers at once, one of which aborts, in one partition."""
    yield from coordinated()
    last = None
    for telling in tellings(scope, "records", *TRANSACTIONS_SINCE):
        last = telling
        other = f"{telling.group}-q"
        yield from has_its_topic(telling)
        yield init(telling, "p is made", "p")
        yield init(telling, "q is made", "q", transactional_id=other)
        yield add(telling, "p adds", P, 0, 1)
        yield add(telling, "q adds", By("q"), 0, transactional_id=other)
        yield send(telling, "by p")
        yield send(telling, "by q", By("q"), transactional_id=other)
        yield send(telling, "by p again", sequence=1)
        yield send(telling, "by p elsewhere", partition=1)
        yield from what_is_seen(telling, "both open")
        yield from ended(telling, committed=False)
        yield from what_is_seen(telling, "one aborted")
        yield add(telling, "p adds again", P, 0)
        yield send(telling, "by p in another", sequence=following(telling, 2))
        yield from ended(telling, committed=True)
        yield from what_is_seen(telling, "the other is open")
        yield from _ended_by_another(telling, other)
        yield from what_is_seen(telling, "all ended")
    if last is not None:
        yield from _read_in_old_versions(scope, last)


def _ended_by_another(telling: Telling, transactional_id: str) -> Iterator[Step]:
    """Who has its transactional id now."""
    yield init(telling, "q is fenced", transactional_id=transactional_id)
    yield settled(telling, "CompleteAbort", transactional_id=transactional_id)


def _read_in_old_versions(scope: Scope, telling: Telling) -> Iterator[Step]:
    """Which know neither transactions nor markers."""
    for version in scope.of(ApiKey.FETCH, 0, TRANSACTIONS_SINCE[ApiKey.FETCH] - 1):
        for start in range(8):
            entries = [fetched(each, start) for each in range(PARTITIONS)]
            values = fetch(version, telling.group, *entries)
            yield Step(f"read from {start}", ApiKey.FETCH, version, values)


def markers(scope: Scope) -> Iterator[Step]:
    """As those of a coordinator, or of who ends a transaction that hangs."""
    yield from coordinated()
    for telling in tellings(scope, "markers", ApiKey.WRITE_TXN_MARKERS, ApiKey.END_TXN):
        yield from has_its_topic(telling)
        for time in ("first", "second"):
            yield init(telling, f"p is made for the {time} time", "p")
        yield add(telling, "p adds", P, 0, 1)
        yield send(telling, "first")
        yield send(telling, "elsewhere", partition=1)
        yield mark(telling, "in an old epoch", By(later=-1).named)
        yield mark(telling, "where there is nothing", P.named, topics=_places(telling, 2))
        unknown = [{"name": "nope", "partition_indexes": [0]}, *_places(telling, 7)]
        yield mark(telling, "where there is no log", P.named, topics=unknown)
        yield mark(telling, "nowhere", P.named, topics=[])
        yield mark(telling, "of nobody", NOBODY.named)
        yield telling.step("no markers", ApiKey.WRITE_TXN_MARKERS, {"markers": []})
        yield producers(telling, "while it is open")
        yield from what_is_seen(telling, "while it is open")
        yield mark(telling, "aborted", P.named, coordinator_epoch=LATER_COORDINATOR)
        yield mark(telling, "by a coordinator of before", P.named)
        yield mark(telling, "aborted again", P.named, coordinator_epoch=LATER_COORDINATOR)
        yield producers(telling, "when it was ended from outside")
        yield from what_is_seen(telling, "when it was ended from outside")
        yield describe(telling, "as the coordinator has it")
        yield send(telling, "after it was ended from outside", sequence=1)
        yield mark(telling, "committed in two", P.named, **_committed_in_two(telling))
        yield from what_is_seen(telling, "when all was ended from outside")


def _places(telling: Telling, *partitions: int) -> list[dict[str, object]]:
    return [{"name": telling.group, "partition_indexes": list(partitions)}]


def _committed_in_two(telling: Telling) -> dict[str, object]:
    return {
        "transaction_result": True,
        "topics": _places(telling, 0, 1),
        "coordinator_epoch": LATER_COORDINATOR,
    }
