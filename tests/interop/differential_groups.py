"""What is asked about groups from outside: coordinators, offsets, lists and deletions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from odradek.protocol.api_keys import ApiKey
from tests.interop.differential_members import coordinated, prepared
from tests.interop.differential_requests import Scope, Step, Values
from tests.interop.differential_telling import (
    OTHER_TOPIC,
    TOPIC,
    Telling,
    line,
    tellings,
)

MANY_KEYS_SINCE = 4
ALL_TOPICS_SINCE = 2
#: The default of offset.metadata.max.bytes.
METADATA_MAX = 4096


def coordinators(scope: Scope) -> Iterator[Step]:
    """Transactional ids are left to the transactions: who asks for one makes their topic."""
    key = ApiKey.FIND_COORDINATOR
    yield from coordinated()
    for version in scope.of(key):
        if version < MANY_KEYS_SINCE:
            cases: Mapping[str, Values] = {
                "a group": {"key": "g"},
                "no name": {"key": ""},
                **{f"type {kind}": {"key": "g", "key_type": kind} for kind in (2, 3, -1, 127)},
            }
        else:
            cases = {
                "a group": {"coordinator_keys": ["g"]},
                "several": {"coordinator_keys": ["g", "h", "", "g"]},
                "none": {"coordinator_keys": []},
                "transactions of nobody": {"coordinator_keys": [], "key_type": 1},
                **{
                    f"type {kind}": {"coordinator_keys": ["g", "a:b:c"], "key_type": kind}
                    for kind in (2, 3, -1, 127)
                },
            }
        for name, values in cases.items():
            yield Step(name, key, version, values)


def commits(scope: Scope) -> Iterator[Step]:
    yield from prepared()
    keys = ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH
    for telling in tellings(scope, "commits", *keys):
        yield telling.fetch("nothing yet", {TOPIC: [0]})
        yield from _committed(telling)
        yield telling.fetch("what was committed", {TOPIC: [0, 1, 7], OTHER_TOPIC: [0], "nope": [0]})
        yield telling.fetch("what was committed, if stable", {TOPIC: [1, 1]}, require_stable=True)
        if telling.version(ApiKey.OFFSET_FETCH) >= ALL_TOPICS_SINCE:
            yield telling.fetch("all that was committed", None)
            yield telling.fetch("all of a group of nobody", None, "nobody")
            yield telling.fetch("all of no name", None, "")
        yield telling.fetch("nothing", {})
        yield telling.fetch("a topic without partitions", {TOPIC: []})
        yield telling.fetch("of a group of nobody", {TOPIC: [0], "nope": [3]}, "nobody")
        yield telling.fetch("of no name", {TOPIC: [0]}, "")
        yield telling.fetch("of several", {TOPIC: [0]}, telling.group, "nobody", "", telling.group)
        yield telling.describe("a group that only commits")


def _committed(telling: Telling) -> Iterator[Step]:
    for name, lines in {
        "one": [line(TOPIC, 0, 5)],
        "with words": [line(TOPIC, 1, 6, "words \u00e4", committed_leader_epoch=2)],
        "without words": [line(OTHER_TOPIC, 0, 7, None)],
        "before the first": [line(TOPIC, 0, -1)],
        "far before the first": [line(TOPIC, 0, -77)],
        "a time": [line(TOPIC, 0, 8, commit_timestamp=1000)],
        "as many words as may be": [line(TOPIC, 0, 9, "x" * METADATA_MAX)],
        "too many words": [line(TOPIC, 0, 10, "x" * (METADATA_MAX + 1)), line(TOPIC, 1, 10)],
        "bytes beyond the limit": [line(TOPIC, 1, 11, "\u00e4" * (METADATA_MAX - 1))],
        "unknown topics": [line("nope", 0, 1), line("", 0, 1), line("a b", 0, 1)],
        "unknown partitions": [line(TOPIC, 7, 1), line(TOPIC, -1, 1), line(OTHER_TOPIC, 0, 12)],
        "one of several": [line("nope", 0, 1), line(TOPIC, 0, 13)],
        "twice": [line(TOPIC, 0, 14), line(TOPIC, 0, 15)],
        "nothing": [],
        "no partitions": [{"name": TOPIC, "partitions": []}],
    }.items():
        yield telling.commit(f"committed, {name}", lines=lines)
    for name, said in {
        "a retention": {"retention_time_ms": 100_000},
        "a generation of nobody": {"generation": 3},
        "a member in no generation": {"member_id": "stranger"},
        "an instance": {"group_instance_id": "i"},
        "no name": {"group_id": ""},
    }.items():
        yield telling.commit(f"committed with {name}", **said)
    unknown = [line("nope", 0, 1)]
    yield telling.commit("unknown, by a stranger", "stranger", generation=1, lines=unknown)
    too_many = [line(TOPIC, 0, 1, "x" * (METADATA_MAX + 1))]
    yield telling.commit("too much, by a stranger", "stranger", generation=1, lines=too_many)


def lists(scope: Scope) -> Iterator[Step]:
    yield from prepared()
    keys = ApiKey.LIST_GROUPS, ApiKey.DESCRIBE_GROUPS
    for telling in tellings(scope, "lists", *keys):
        yield telling.commit("a group that commits")
        yield from telling.joined("l", group_id=f"{telling.group}-members")
        for name, asked in {
            "all": {},
            "stable ones": {"states_filter": ["Stable"]},
            "in other letters": {"states_filter": ["eMPTY", "CompletingRebalance"]},
            "of no state": {"states_filter": ["nope", ""]},
            "dead ones": {"states_filter": ["Dead"]},
            "classic ones": {"types_filter": ["Classic"]},
            "of the other protocol": {"types_filter": ["consumer"]},
            "of no type": {"types_filter": ["nope"]},
            "by state and type": {"states_filter": ["Empty"], "types_filter": ["classic"]},
        }.items():
            yield telling.groups(name, **asked)
        members = f"{telling.group}-members"
        yield telling.describe("several", telling.group, members, "nobody", "", telling.group)
        for allowed in (False, True):
            name = f"with what is allowed, {allowed}"
            asked = {"include_authorized_operations": allowed}
            yield telling.describe(name, members, "nobody", **asked)
        yield telling.leave("it leaves", "l", group=members)
        yield telling.describe("those that were left", members)
        yield telling.delete("those are deleted", members, telling.group)


def deletions(scope: Scope) -> Iterator[Step]:
    yield from prepared()
    keys = ApiKey.DELETE_GROUPS, ApiKey.OFFSET_DELETE
    for telling in tellings(scope, "deletions", *keys):
        yield telling.commit("committed", lines=[line(TOPIC, 0, 5), line(OTHER_TOPIC, 0, 5)])
        for name, topics in {
            "nothing": [],
            "no partitions": [(TOPIC, [])],
            "what was never committed": [(TOPIC, [1])],
            "what there is not": [("nope", [0]), (TOPIC, [7, -1])],
            "one and what there is not": [(TOPIC, [0]), ("nope", [0]), ("", [0])],
            "one twice": [(OTHER_TOPIC, [0, 0]), (OTHER_TOPIC, [0])],
        }.items():
            yield telling.forget(f"forgotten, {name}", topics)
            yield telling.fetch(f"what is left of {name}", {TOPIC: [0, 1], OTHER_TOPIC: [0]})
        for group in ("nobody", ""):
            yield telling.forget(f"forgotten of {group!r}", [(TOPIC, [0])], group)
            yield telling.forget(f"nothing forgotten of {group!r}", [], group)
            yield telling.forget(f"what there is not of {group!r}", [("nope", [0])], group)
        yield telling.describe("a group that has nothing any more")
        yield telling.commit("committed again")
        yield telling.delete("several", telling.group, "nobody", "", "nobody")
        yield telling.delete("one twice", telling.group, telling.group)
        yield telling.step("none", ApiKey.DELETE_GROUPS, {"groups_names": []})
        yield from _of_another_type(telling)


def _of_another_type(telling: Telling) -> Iterator[Step]:
    """Members who do not tell brokers what they read."""
    group = f"{telling.group}-connect"
    said = {
        "group_id": group,
        "protocol_type": "connect",
        "protocols": [{"name": "x", "metadata": b"?"}],
    }
    yield from telling.joined("c", **said)
    yield telling.forget("forgotten while others work", [(TOPIC, [0])], group)
    yield telling.delete("deleted while others work", group)
    yield telling.leave("it leaves", "c", group=group)
    yield telling.forget("forgotten after they worked", [(TOPIC, [0])], group)
    yield telling.delete("deleted after they worked", group)
