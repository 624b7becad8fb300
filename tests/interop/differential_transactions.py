"""Transactions and their coordinator: lifetimes from first to last, and all that is refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from odradek.protocol.api_keys import ApiKey
from tests.interop.differential_members import prepared
from tests.interop.differential_requests import Asked, Scope, Step, Values
from tests.interop.differential_telling import OTHER_TOPIC, TOPIC, Telling, line, tellings
from tests.interop.differential_transacting import (
    BATCHED_SINCE,
    MISTAKEN,
    NOBODY,
    OF_TRANSACTIONS,
    By,
    P,
    add,
    add_offsets,
    commit_offsets,
    committed_offsets,
    coordinated,
    describe,
    end,
    ended,
    following,
    has_its_topic,
    init,
    producers,
    send,
    settled,
    transactions,
    what_is_seen,
)

#: The default of transaction.max.timeout.ms.
LONGEST_MS = 900_000
SHORT_MS = 100
MANY_KEYS_SINCE = 4
KNOWN_SINCE = 3
METADATA_MAX = 4096


def coordinators(scope: Scope) -> Iterator[Step]:
    key = ApiKey.FIND_COORDINATOR
    yield from coordinated()
    for version in scope.of(key, 1):
        if version < MANY_KEYS_SINCE:
            cases: Mapping[str, Values] = {
                "a transactional id": {"key": "t", "key_type": 1},
                "no name": {"key": "", "key_type": 1},
            }
        else:
            cases = {
                "a transactional id": {"coordinator_keys": ["t"], "key_type": 1},
                "several": {"coordinator_keys": ["t", "u", "", "t"], "key_type": 1},
                "none": {"coordinator_keys": [], "key_type": 1},
            }
        for name, values in cases.items():
            yield Step(name, key, version, values)


def lifetimes(scope: Scope) -> Iterator[Step]:
    """Of transactions that are ended in order."""
    yield from _prepared()
    for telling in tellings(scope, "lifetimes", *OF_TRANSACTIONS):
        yield from has_its_topic(telling)
        yield describe(telling, "not there yet")
        yield init(telling, "p is made", "p")
        yield describe(telling, "made")
        yield add(telling, "p adds", P, 0, 1)
        yield add(telling, "p adds one again and another", P, 1, 2)
        yield settled(telling, "Ongoing")
        yield send(telling, "first")
        yield send(telling, "second", sequence=1)
        yield send(telling, "elsewhere", partition=1)
        yield producers(telling, "producers of what is open")
        yield from what_is_seen(telling, "open")
        yield from ended(telling, committed=True)
        yield producers(telling, "producers of what was committed")
        yield from what_is_seen(telling, "committed")
        yield add(telling, "p adds for what it aborts", P, 0)
        yield send(telling, "aborted", sequence=following(telling, 2))
        yield from ended(telling, committed=False)
        yield producers(telling, "producers of what was aborted")
        yield from what_is_seen(telling, "aborted")
        yield from _ended_again(telling)


def _ended_again(telling: Telling) -> Iterator[Step]:
    """What has an epoch for each transaction takes an abort for one without records."""
    yield end(telling, "aborted again", committed=False)
    yield settled(telling, "CompleteAbort")
    yield end(telling, "committed after it was aborted", committed=True)
    for name, by in MISTAKEN.items():
        yield end(telling, f"aborted again by {name}", by, committed=False)
        yield settled(telling, "CompleteAbort")


def refusals(scope: Scope) -> Iterator[Step]:
    """Of what makes no sense, before a transaction and in it."""
    yield from _prepared()
    for telling in tellings(scope, "refusals", *OF_TRANSACTIONS, ApiKey.PRODUCE):
        yield from has_its_topic(telling)
        yield from _not_made(telling)
        for time in ("first", "second"):
            yield init(telling, f"p is made for the {time} time", "p")
        yield init(telling, "q is made", "q", transactional_id=f"{telling.group}-q")
        yield end(telling, "committed before it began", learns="p")
        yield end(telling, "aborted before it began", committed=False, learns="p")
        yield settled(telling, "CompleteAbort" if following(telling, 1) == 0 else "Empty")
        yield from _mistaken(telling, "before")
        yield send(telling, "sent before it was added")
        yield from _added_wrongly(telling)
        yield describe(telling, "nothing was added")
        yield add(telling, "p adds", P, 0)
        yield from _added_wrongly(telling)
        yield settled(telling, "Ongoing")
        yield from _mistaken(telling, "meanwhile")
        yield from _sent_wrongly(telling)
        yield from ended(telling, committed=True)
        yield from what_is_seen(telling, "what was not refused")


def _not_made(telling: Telling) -> Iterator[Step]:
    for timeout_ms in (0, -1, LONGEST_MS + 1):
        yield init(telling, f"a timeout of {timeout_ms}", transaction_timeout_ms=timeout_ms)
    yield init(telling, "no name", transactional_id="")
    yield init(telling, "of an id", by=NOBODY)
    yield init(telling, "of an id without an epoch", producer_id=7)
    yield init(telling, "of an epoch without an id", producer_epoch=7)
    yield add(telling, "added by nobody", NOBODY, 0)
    yield add_offsets(telling, "offsets added by nobody", NOBODY)
    yield end(telling, "ended by nobody", NOBODY)
    yield send(telling, "sent by nobody", NOBODY)
    yield commit_offsets(telling, "offsets by nobody", NOBODY)


def _mistaken(telling: Telling, when: str) -> Iterator[Step]:
    for name, by in {**MISTAKEN, "another's id": By("q")}.items():
        yield add(telling, f"added {when} by {name}", by, 1)
        yield add_offsets(telling, f"offsets added {when} by {name}", by)
        yield commit_offsets(telling, f"offsets {when} by {name}", by)
        yield end(telling, f"ended {when} by {name}", by)
        yield send(telling, f"sent {when} by {name}", by, partition=2)
    for name in ("", "another"):
        yield add(telling, f"added {when} under {name!r}", P, 1, transactional_id=name)
        yield add_offsets(telling, f"offsets added {when} under {name!r}", transactional_id=name)
        yield end(telling, f"ended {when} under {name!r}", transactional_id=name)


def _added_wrongly(telling: Telling) -> Iterator[Step]:
    yield add(telling, "nothing is added")
    yield add(telling, "no partitions are added", topics=[{"name": TOPIC, "partitions": []}])
    yield add(telling, "an unknown topic among others", P, 1, ("nope", 0), (TOPIC, 0))
    yield add(telling, "an unknown partition among others", P, 1, 7, -1)
    twice = [{"name": telling.group, "partitions": [0, each]} for each in (0, 1)]
    yield add(
        telling,
        "unknown ones and a topic twice",
        topics=[*twice, {"name": "nope", "partitions": [0]}],
    )
    yield add(telling, "unknown ones only", P, ("nope", 0), ("", 0), ("a b", 0))
    yield add(telling, "internal ones", P, ("__consumer_offsets", 0), ("__transaction_state", 0))
    yield add_offsets(telling, "offsets of no group", group_id="")


def _sent_wrongly(telling: Telling) -> Iterator[Step]:
    yield send(telling, "to a partition that was not added", partition=2)
    yield send(telling, "under no transactional id", transactional_id=None)
    yield send(telling, "under another's", transactional_id=f"{telling.group}-q")
    yield send(telling, "under nobody's", transactional_id="nobody")
    yield send(telling, "in no transaction", is_transactional=False)
    yield send(telling, "in no transaction, elsewhere", is_transactional=False, partition=1)
    yield send(telling, "sent")
    yield send(telling, "sent again")
    yield send(telling, "with a gap", sequence=5)
    # With sequence 1 we differ, and mean to: see docs/transactions.md.
    yield send(telling, "in no transaction, with a gap", is_transactional=False, sequence=3)
    yield send(telling, "in an old epoch", By(later=-1), sequence=1)
    yield send(telling, "in a later epoch", By(later=1))


def offsets(scope: Scope) -> Iterator[Step]:
    """Of groups, in transactions."""
    yield from _prepared()
    for telling in tellings(scope, "offsets-in-transactions", *OF_TRANSACTIONS):
        yield from has_its_topic(telling)
        yield init(telling, "p is made", "p")
        yield commit_offsets(telling, "committed without being added")
        yield add_offsets(telling, "offsets are added")
        yield add_offsets(telling, "offsets are added again")
        yield settled(telling, "Ongoing")
        yield from _committed(telling)
        yield from committed_offsets(telling, "while it is open")
        yield telling.delete("the group is deleted while it is open")
        yield from ended(telling, committed=True)
        yield from committed_offsets(telling, "when it was committed")
        yield add_offsets(telling, "offsets are added for what is aborted")
        yield commit_offsets(telling, "what is aborted", lines=[line(TOPIC, 0, 77)])
        yield from committed_offsets(telling, "before it is aborted")
        yield from ended(telling, committed=False)
        yield from committed_offsets(telling, "when it was aborted")
        yield from _by_members(telling)


def _committed(telling: Telling) -> Iterator[Step]:
    for name, lines in {
        "one": [line(TOPIC, 0, 5, "told", committed_leader_epoch=3)],
        "without words": [line(TOPIC, 1, 7, None)],
        "twice": [line(TOPIC, 0, 5), line(TOPIC, 0, 6)],
        "too many words": [line(TOPIC, 1, 10, "x" * (METADATA_MAX + 1)), line(OTHER_TOPIC, 0, 8)],
        "what there is not": [line("nope", 0, 1), line(TOPIC, 7, 1), line(OTHER_TOPIC, 0, 2)],
        "nothing": [],
    }.items():
        yield commit_offsets(telling, f"committed, {name}", lines=lines)
    yield commit_offsets(telling, "committed to another group", group_id="another")
    yield commit_offsets(telling, "committed to no group", group_id="")
    yield commit_offsets(telling, "committed under another id", transactional_id="another")


def _by_members(telling: Telling) -> Iterator[Step]:
    """From version 3 on, of a generation (KIP-447)."""
    yield from telling.joined("m")
    yield telling.sync("m is assigned", "m", "m")
    yield add_offsets(telling, "offsets are added for members")
    yield commit_offsets(telling, "by m", member="m")
    yield commit_offsets(telling, "by m in another generation", member="m", generation_id=9)
    yield commit_offsets(telling, "by a stranger", member_id="stranger", generation_id=1)
    yield commit_offsets(telling, "by a stranger in none", member_id="stranger")
    yield commit_offsets(telling, "by m of an instance", member="m", group_instance_id="i")
    yield commit_offsets(telling, "by nobody in no generation")
    yield from ended(telling, committed=True)
    yield from committed_offsets(telling, "of members")
    yield telling.leave("m leaves", "m")
    yield telling.delete("deleted with what was committed")


def fences(scope: Scope) -> Iterator[Step]:
    """Producers that are made anew, and what becomes of those before."""
    yield from _prepared()
    for telling in tellings(scope, "fences", *OF_TRANSACTIONS):
        yield from has_its_topic(telling)
        yield init(telling, "p is made", "p")
        yield init(telling, "p is made anew", "p")
        yield add(telling, "p adds", P, 0)
        yield send(telling, "before the fence")
        yield settled(telling, "Ongoing")
        yield init(telling, "made anew in mid-transaction")
        yield settled(telling, "CompleteAbort")
        yield from _old_one(telling, "p was fenced")
        yield init(telling, "p is made after the fence", "p")
        yield describe(telling, "made after the fence")
        yield add(telling, "p adds after the fence", P, 0)
        yield send(telling, "after the fence")
        yield from ended(telling, committed=True)
        yield from what_is_seen(telling, "after the fence")
        if telling.version(ApiKey.INIT_PRODUCER_ID) >= KNOWN_SINCE:
            yield from _recovered(telling)
        yield from _timed_out(telling)


def _old_one(telling: Telling, when: str) -> Iterator[Step]:
    yield add(telling, f"added when {when}", P, 1)
    yield add_offsets(telling, f"offsets added when {when}")
    yield commit_offsets(telling, f"offsets when {when}")
    yield send(telling, f"sent when {when}", sequence=1)
    yield send(telling, f"sent elsewhere when {when}", partition=1)
    for committed in (True, False):
        yield end(telling, f"ended when {when}, {committed}", committed=committed)


def _recovered(telling: Telling) -> Iterator[Step]:
    """By who it was (KIP-360)."""
    yield init(telling, "p goes on", "q", by=P)
    yield init(telling, "p goes on, asking again", "q", by=P)
    yield init(telling, "p of an old epoch", by=By(later=-1))
    yield init(telling, "p of a later epoch", by=By("q", later=5))
    yield init(telling, "nobody goes on", by=NOBODY)
    yield describe(telling, "who goes on")
    yield add(telling, "q adds, and p is not gone", By("q"), 0)
    yield settled(telling, "Ongoing")
    yield init(telling, "p goes on in mid-transaction of q", by=P)
    yield settled(telling, "CompleteAbort")
    yield end(telling, "q ends what p has aborted", By("q"))
    yield init(telling, "q is made anew", "q")
    yield add(telling, "q adds", By("q"), 0)
    yield settled(telling, "Ongoing")
    yield init(telling, "q goes on in mid-transaction", by=By("q"))
    yield settled(telling, "CompleteAbort")
    yield init(telling, "q goes on after it was aborted", "q", by=By("q"))
    yield describe(telling, "who goes on after it was aborted")


def _timed_out(telling: Telling) -> Iterator[Step]:
    yield init(telling, "p has little time", "p", transaction_timeout_ms=SHORT_MS)
    yield add(telling, "p adds and is late", P, 0)
    yield settled(telling, "CompleteAbort")
    yield from _old_one(telling, "p was late")
    yield init(telling, "p is made after it was late", "p")
    yield describe(telling, "made after it was late")


def lists(scope: Scope) -> Iterator[Step]:
    yield from _prepared()
    for telling in tellings(scope, "lists-of-transactions", *OF_TRANSACTIONS):
        yield from has_its_topic(telling)
        names = {alias: f"{telling.group}-{alias}" for alias in ("e", "o", "c")}
        for alias, transactional_id in names.items():
            yield init(telling, f"{alias} is made", alias, transactional_id=transactional_id)
        for alias in ("o", "c"):
            yield add(telling, f"{alias} adds", By(alias), 0, transactional_id=names[alias])
        yield end(telling, "c ends", By("c"), transactional_id=names["c"])
        for alias, state in {"o": "Ongoing", "c": "CompleteCommit"}.items():
            yield settled(telling, state, transactional_id=names[alias])
        for name, said in {
            "all": {},
            "open ones": {"state_filters": ["Ongoing"]},
            "some": {"state_filters": ["Empty", "CompleteCommit", "nope", ""]},
            "in other letters": {"state_filters": ["ongoing"]},
            "dead ones": {"state_filters": ["Dead", "PrepareEpochFence"]},
            "of long": {"duration_filter": 10**9},
            "of any time": {"duration_filter": -1},
            "by name": {"transactional_id_pattern": f"{telling.group}-[eo]"},
            "by part of a name": {"transactional_id_pattern": "-[eo]"},
            "by no name": {"transactional_id_pattern": ""},
            "by what is no pattern": {"transactional_id_pattern": "(a"},
        }.items():
            yield transactions(telling, name, **said)
        yield transactions(telling, "of producers", [By("e"), By("o"), NOBODY])
        yield transactions(telling, "open ones of producers", [By("e")], state_filters=["Ongoing"])
        yield describe(telling, "several", *names.values(), "nobody", "", names["o"])
        yield telling.step("none", ApiKey.DESCRIBE_TRANSACTIONS, {"transactional_ids": []})
        yield end(telling, "o ends", By("o"), transactional_id=names["o"])


def verifications(scope: Scope) -> Iterator[Step]:
    """What brokers ask of coordinators: many transactions, to be added to or only looked at."""
    yield from _prepared()
    for telling in tellings(scope, "verified", *OF_TRANSACTIONS):
        if telling.version(ApiKey.ADD_PARTITIONS_TO_TXN) < BATCHED_SINCE:
            continue
        yield from has_its_topic(telling)
        for alias in ("p", "q"):
            name = f"{telling.group}-{alias}"
            yield init(telling, f"{alias} is made", alias, transactional_id=name)
        yield _several(telling, "before", {"p": True, "q": True})
        yield _several(telling, "one is looked at", {"p": False, "q": True})
        yield _several(telling, "both are looked at", {"p": True, "q": True})
        yield _several(telling, "both are added to", {"p": False, "q": False})
        yield _several(telling, "other partitions", {"p": True, "q": False}, partitions=[0, 1])
        yield _several(telling, "in a later epoch", {"p": True, "q": False}, later=1)
        yield _several(telling, "of nobody", {"nobody": True, "p": True})
        yield _several(telling, "unknown", {"p": True, "q": False}, partitions=[0, 7])
        yield _several(telling, "no partitions", {"p": True}, partitions=[])
        nothing = {"transactions": []}
        key = ApiKey.ADD_PARTITIONS_TO_TXN
        yield telling.step("of none", key, nothing, may_be_silent=True)
        for alias in ("p", "q"):
            name = f"{telling.group}-{alias}"
            yield end(telling, f"{alias} ends", By(alias), transactional_id=name)
            yield settled(telling, "CompleteCommit", transactional_id=name)
        yield _several(telling, "after", {"p": True, "q": True})


def _several(
    telling: Telling,
    name: str,
    is_looked_at: Mapping[str, bool],
    *,
    later: int = 0,
    partitions: list[int] | None = None,
) -> Step:
    topics = [{"name": telling.group, "partitions": [0] if partitions is None else partitions}]

    def values(broker: Asked) -> Values:
        return {
            "transactions": [
                {
                    "transactional_id": f"{telling.group}-{alias}",
                    **By(alias, later).named(broker),
                    "verify_only": is_only,
                    "topics": topics,
                }
                for alias, is_only in is_looked_at.items()
            ]
        }

    return telling.step(name, ApiKey.ADD_PARTITIONS_TO_TXN, values)


def _prepared() -> Iterator[Step]:
    yield from prepared()
    yield from coordinated()
