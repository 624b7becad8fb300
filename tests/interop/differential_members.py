"""Members of classic groups: alone, two of them, static ones, and those that are not let in."""

from __future__ import annotations

from collections.abc import Iterator

from odradek.protocol.api_keys import ApiKey
from tests.interop.differential_requests import Scope, Step, created, new_topic
from tests.interop.differential_telling import (
    NOT_YET_THERE,
    OTHER_TOPIC,
    RANGE,
    REQUIRED_ID_SINCE,
    STATIC_JOIN_SINCE,
    STICKY,
    TOPIC,
    Telling,
    line,
    subscription,
    tellings,
)

SHORTEST_SESSION_MS = 6_000
ILLEGAL_GENERATION = 22
OF_MEMBERS = (
    *(ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP),
    *(ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH, ApiKey.DESCRIBE_GROUPS, ApiKey.OFFSET_DELETE),
    *(ApiKey.DELETE_GROUPS, ApiKey.LIST_GROUPS),
)


def prepared() -> Iterator[Step]:
    """Both have coordinators, and the topics that members read."""
    yield from created(new_topic(TOPIC, 2), new_topic(OTHER_TOPIC))
    yield from coordinated()


def coordinated() -> Iterator[Step]:
    """Of groups in every partition, which have been loaded."""
    groups = [f"any-{number}" for number in range(30)]
    asked = {"key_type": 0, "coordinator_keys": groups}
    how = {"is_eventual": True, "not_yet": NOT_YET_THERE}
    yield Step("there are coordinators", ApiKey.FIND_COORDINATOR, 4, asked, **how)
    yield Step("groups are loaded", ApiKey.DESCRIBE_GROUPS, 5, {"groups": groups}, **how)


def alone(scope: Scope) -> Iterator[Step]:
    yield from prepared()
    for telling in tellings(scope, "alone", *OF_MEMBERS):
        yield from telling.joined("a")
        # Later releases describe a group as soon as it is in their log.
        yield telling.describe("one who has joined", is_eventual=True)
        yield telling.beat("alive before it is assigned", "a")
        yield telling.commit("committed before it is assigned", "a")
        yield telling.sync("in another generation", "a", generation=7)
        yield telling.sync("by a stranger", "stranger")
        yield telling.sync("of another type", "a", "a", protocol_type="connect")
        yield telling.sync("of another protocol", "a", "a", protocol_name="sticky")
        yield telling.sync("assigned", "a", "a")
        yield telling.sync("assigned already", "a", "stranger")
        yield from _stable(telling)
        yield from _left(telling)


def _stable(telling: Telling) -> Iterator[Step]:
    yield telling.describe("one who is assigned", include_authorized_operations=True)
    yield telling.beat("alive", "a")
    for generation in (0, 2, -1):
        yield telling.beat(f"alive in {generation}", "a", generation)
        yield telling.commit(f"committed in {generation}", "a", generation=generation)
    yield telling.beat("a stranger is alive", "stranger")
    yield telling.beat("nobody is alive", "")
    yield telling.commit(
        "committed", "a", lines=[line(TOPIC, 1, 9, "told", committed_leader_epoch=3)]
    )
    yield telling.commit("committed by a stranger", "stranger", generation=1)
    yield telling.commit("committed from outside")
    yield telling.fetch("fetched", {TOPIC: [0, 1]})
    yield telling.forget("a topic that is read is forgotten", [(TOPIC, [0, 1]), (OTHER_TOPIC, [0])])
    yield telling.delete("a group with a member is deleted")
    yield telling.join("joins again as it is", "a", by="a")
    yield telling.sync("assigned again", "a", "a")
    changed = {"name": "range", "metadata": subscription(OTHER_TOPIC)}
    yield telling.join("reads another topic", "a", by="a", protocols=[changed])
    yield telling.sync("assigned to it", "a", "a")
    yield telling.forget("what it read before is forgotten", [(TOPIC, [1]), (OTHER_TOPIC, [0])])
    yield telling.groups("groups")


def _left(telling: Telling) -> Iterator[Step]:
    yield telling.leave("a stranger leaves", "stranger")
    yield telling.leave("it leaves", "a")
    yield telling.leave("it leaves again", "a")
    yield telling.describe("a group that was left")
    yield telling.beat("alive after it left", "a")
    yield telling.sync("assigned after it left", "a", "a")
    yield telling.commit("committed after it left", "a")
    yield telling.join("joins after it left", "a", by="a")
    yield telling.commit("committed to an empty group", lines=[line(TOPIC, 0, 4)])
    yield telling.fetch("everything", None if telling.version(ApiKey.OFFSET_FETCH) > 1 else {})
    yield telling.delete("an empty group is deleted")
    yield telling.describe("a group that was deleted")
    yield telling.fetch("what is left of it", {TOPIC: [0]})


def two(scope: Scope) -> Iterator[Step]:
    yield from prepared()
    for telling in tellings(scope, "two", *OF_MEMBERS):
        yield from telling.joined("a", protocols=[RANGE])
        yield telling.sync("a is assigned", "a", "a")
        other = {"via": "b", "protocols": [STICKY, RANGE]}
        yield from telling.joined("b", is_awaited=False, **other)
        yield telling.is_told_to_rebalance("a")
        yield telling.describe("a group that waits for a")
        yield telling.commit("committed while it waits", "a")
        yield telling.sync("a is assigned while b waits", "a", "a")
        yield telling.join("a joins again", "a", by="a", protocols=[RANGE])
        yield telling.join("b has joined", "b", via="b", is_sent=False)
        yield from _shared(telling)
        yield telling.leave("both leave", "b", "a", "stranger")
        yield telling.leave("a leaves", "a")
        yield telling.describe("a group that both left")


def _shared(telling: Telling) -> Iterator[Step]:
    yield telling.describe("two who have joined")
    yield telling.sync("b waits for its part", "b", via="b", is_awaited=False)
    yield telling.sync("a shares", "a", "a", "b")
    yield telling.sync("b has its part", "b", via="b", is_sent=False)
    yield telling.sync("b asks for its part again", "b", via="b")
    yield telling.describe("two who are assigned")
    yield telling.join("one too many", "c")
    yield telling.join("one too many, with an id", "c", by="c")
    yield telling.beat("b is alive", "b")
    yield telling.commit("committed by b", "b")
    yield telling.join("b joins as it is", "b", by="b", protocols=[STICKY, RANGE])
    yield telling.beat("a is alive as before", "a")
    yield telling.leave("b leaves", "b")
    yield telling.is_told_to_rebalance("a")
    yield telling.join("a goes on alone", "a", by="a", protocols=[RANGE])
    yield telling.sync("a has all", "a", "a")
    yield from telling.joined("b", via="b", is_awaited=False, protocols=[RANGE])
    yield telling.is_told_to_rebalance("a")
    yield telling.leave("a leaves instead", "a")
    yield telling.join("b is alone", "b", via="b", is_sent=False)
    yield telling.leave("b leaves before it is assigned", "b")


def strangers(scope: Scope) -> Iterator[Step]:
    """Who is not let in, and why."""
    yield from prepared()
    for telling in tellings(scope, "strangers", ApiKey.JOIN_GROUP):
        for name, said in {
            "no group": {"group_id": ""},
            "too short a session": {"session_timeout_ms": 5_999},
            "too long a session": {"session_timeout_ms": 1_800_001},
            "no session": {"session_timeout_ms": 0},
            "a session of before": {"session_timeout_ms": -1},
            "no protocols": {"protocols": []},
            "no type of protocol": {"protocol_type": ""},
            "an unknown member": {"member_id": "stranger"},
            "an unknown instance": {"member_id": "stranger", "group_instance_id": "i"},
            "too short a session of an unknown member": {
                "session_timeout_ms": 1,
                "member_id": "stranger",
            },
        }.items():
            yield telling.join(name, "", **said)
        yield telling.describe("nobody was let in")
        yield from telling.joined("a", protocols=[RANGE])
        for state in ("before", "after"):
            for name, said in _unlike().items():
                yield telling.join(f"{name}, {state} it is assigned", "", **said)
            yield telling.sync("a is assigned", "a", "a")
        yield telling.join("a takes up another", "a", by="a", protocols=[STICKY])
        yield telling.join("a takes up another type", "a", by="a", protocol_type="connect")
        yield telling.join("a with no protocols", "a", by="a", protocols=[])
        yield telling.leave("a leaves", "a")
    yield from _nowhere(scope)


def _unlike() -> dict[str, dict[str, object]]:
    return {
        "another protocol": {"protocols": [{"name": "other", "metadata": b""}]},
        "another type": {"protocol_type": "connect"},
        "another protocol of a stranger": {
            "protocols": [{"name": "other", "metadata": b""}],
            "member_id": "stranger",
        },
        "a stranger": {"member_id": "stranger"},
    }


def _nowhere(scope: Scope) -> Iterator[Step]:
    """Members of groups that there are not."""
    for telling in tellings(scope, "nowhere", *OF_MEMBERS):
        yield telling.sync("assigned nowhere", "stranger", generation=1)
        yield telling.beat("alive nowhere", "stranger", 1)
        yield telling.commit("committed nowhere", "stranger", generation=1)
        yield telling.commit("committed nowhere in no generation", "stranger", generation=-1)
        yield telling.leave("nobody", "stranger")
        yield telling.leave("no members leave")
        yield telling.sync("assigned to no group", "stranger", group_id="", generation=1)
        yield telling.beat("alive in no group", "stranger", 1, group_id="")
        yield telling.leave("leaves no group", "stranger", group="")


def static(scope: Scope) -> Iterator[Step]:
    yield from prepared()
    for telling in tellings(scope, "static", *OF_MEMBERS):
        if telling.version(ApiKey.JOIN_GROUP) < STATIC_JOIN_SINCE:
            continue
        named = {"group_instance_id": "i1"}
        yield telling.join("a joins", "a", **named)
        yield telling.join("a joins with its id", "a", by="a", **named)
        yield telling.sync("a is assigned", "a", "a", **named)
        yield telling.describe("a static member")
        yield telling.join("a was restarted", "a2", **named)
        yield from _fenced(telling, "a", "i1")
        yield telling.sync("a is assigned after its restart", "a2", "a2", **named)
        yield telling.beat("a is alive after its restart", "a2", **named)
        yield telling.beat("a without its instance", "a2")
        yield telling.beat("a of another instance", "a2", group_instance_id="i9")
        changed = {"name": "range", "metadata": subscription(OTHER_TOPIC)}
        yield telling.join("a was restarted and reads another", "a3", protocols=[changed], **named)
        yield telling.sync("a is assigned to the other", "a3", "a3", **named)
        yield telling.describe("a static member that changed")
        yield from _two_static(telling)


def _fenced(telling: Telling, alias: str, instance: str) -> Iterator[Step]:
    """The member of before."""
    named = {"group_instance_id": instance}
    yield telling.beat("the one before is alive", alias, **named)
    yield telling.sync("the one before is assigned", alias, **named)
    yield telling.commit("the one before commits", alias, **named)
    yield telling.join("the one before joins", "", by=alias, **named)
    yield telling.leave("the one before leaves", (alias, instance))
    yield telling.beat("the one before without its instance", alias)


def _two_static(telling: Telling) -> Iterator[Step]:
    named = {"group_instance_id": "i1"}
    other = {"via": "b", "group_instance_id": "i2"}
    yield telling.join("b joins", "b", is_awaited=False, **other)
    yield telling.beat("a is told to join again", "a3", is_eventual=True, not_yet=[0], **named)
    yield telling.join("a joins again", "a3", by="a3", **named)
    yield telling.join("b has joined", "b", via="b", is_sent=False)
    yield telling.sync("a shares", "a3", "a3", "b", **named)
    yield telling.sync("b is assigned", "b", group_instance_id="i2")
    yield telling.join("b was restarted", "b2", group_instance_id="i2")
    yield telling.beat("a is not disturbed", "a3", **named)
    yield telling.sync("b is assigned as before", "b2", group_instance_id="i2")
    yield telling.describe("two static members")
    leaving = (("stranger", "i2"), ("", "i9"), ("", "i2"), ("", "i2"), ("a3", "i1"))
    yield telling.leave("those of these instances leave", *leaving)
    yield telling.leave("a leaves by its id", "a3")
    yield telling.describe("a group without static members")


def silent(scope: Scope) -> Iterator[Step]:
    """Members that are not heard of any more, or never come back with the id that they got."""
    yield from prepared()
    for telling in tellings(scope, "silent", ApiKey.JOIN_GROUP, ApiKey.DESCRIBE_GROUPS):
        if telling.version(ApiKey.JOIN_GROUP) < REQUIRED_ID_SINCE:
            continue
        yield telling.join("asks for an id", "p")
        yield telling.describe("a group of one who is awaited")
        yield telling.beat("alive before it has joined", "p")
        yield telling.sync("assigned before it has joined", "p")
        yield telling.commit("committed before it has joined", "p")
        yield telling.leave("leaves before it has joined", "p")
        yield telling.join("joins after it has left", "p", by="p")
        yield telling.join("asks for another id", "p")
        yield telling.delete("the group of one who is awaited is deleted")
        yield telling.join("joins what was deleted", "p", by="p")
    last = telling
    yield from last.joined("s", session_timeout_ms=SHORTEST_SESSION_MS)
    yield last.sync("assigned", "s", "s")
    yield last.delete("the group of one who is heard of is deleted")
    gone = {"is_eventual": True, "not_yet": [ILLEGAL_GENERATION]}  # with which it is not heard
    yield last.beat("not heard of any more", "s", 77, **gone)
    yield last.delete("the group of one who was heard of is deleted")
