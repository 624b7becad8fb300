"""Groups of the consumer protocol (KIP-848), which only later releases of Kafka have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from odradek.protocol.api_keys import ApiKey
from tests.interop.differential_members import prepared
from tests.interop.differential_requests import STRANGE_ID, Asked, Scope, Step, Values
from tests.interop.differential_telling import (
    OTHER_TOPIC,
    TOPIC,
    Telling,
    line,
    tellings,
)

JOIN, LEAVE, LEAVE_FOR_A_WHILE = 0, -1, -2
#: In earlier versions brokers make the ids of members.
OWN_IDS_SINCE = 1
FIRST: Values = {
    "rebalance_timeout_ms": 10_000,
    "subscribed_topic_names": [TOPIC],
    "topic_partitions": [],
}
OF_CONSUMERS = (ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.CONSUMER_GROUP_DESCRIBE)


def scenario(scope: Scope) -> Iterator[Step]:
    if not any(scope.of(key) for key in OF_CONSUMERS):
        return
    yield from prepared()
    for telling in tellings(scope, "refused", *OF_CONSUMERS):
        yield from _refused(telling)
    for telling in tellings(scope, "consumers", *OF_CONSUMERS):
        yield join(telling, "a joins", "a")
        yield describe(telling, "one consumer")
        yield beat(telling, "a is alive", "a", learns="a")
        yield owns(telling, "a has all", "a", (0, 1))
        yield from _senseless(telling)
        yield from _shared(telling)
        yield from _left(telling)


def _refused(telling: Telling) -> Iterator[Step]:
    """Hardly anybody is let in."""
    yield describe(telling, "no such group")
    yield beat(telling, "nobody's heartbeat", "nobody", 5)
    yield beat(telling, "nobody leaves", "nobody", LEAVE)
    yield beat(telling, "nobody leaves for a while", "nobody", LEAVE_FOR_A_WHILE, instance_id="i")
    for name, said in {
        "no group": {"group_id": ""},
        "no time to rebalance": {"rebalance_timeout_ms": -1},
        "hardly time to rebalance": {"rebalance_timeout_ms": 0},
        "no topics": {"subscribed_topic_names": None},
        "partitions already": {
            "topic_partitions": [{"topic_id": STRANGE_ID, "partitions": [0]}],
        },
        "nothing told of partitions": {"topic_partitions": None},
        "an empty instance": {"instance_id": ""},
        "an empty rack": {"rack_id": ""},
        "an unknown assignor": {"server_assignor": "nope"},
        "an expression that is none": {"subscribed_topic_regex": "(a"},
    }.items():
        yield join(telling, name, "", by="refused", **said)
    if telling.version(ApiKey.CONSUMER_GROUP_HEARTBEAT) >= OWN_IDS_SINCE:
        yield join(telling, "without an id", "", by="")
    yield beat(telling, "an impossible epoch", "refused", -3)
    yield describe(telling, "who was let in")


def _senseless(telling: Telling) -> Iterator[Step]:
    for epoch in (0, 99, -3):
        yield beat(telling, f"a in epoch {epoch}", "a", epoch)
    yield beat(telling, "a stranger", "stranger", 1)
    yield beat(telling, "a leaves for a while without an instance", "a", LEAVE_FOR_A_WHILE)
    yield beat(telling, "a of an instance", "a", instance_id="i")
    yield owns(telling, "a has what it was not given", "a", (0, 7))
    yield owns(telling, "a has it all again", "a", (0, 1))
    for assignor in ("nope", "range", "uniform"):
        yield beat(telling, f"a wants {assignor}", "a", server_assignor=assignor, learns="a")
    yield beat(telling, "a reads what there is not", "a", subscribed_topic_names=["nope"])
    yield beat(telling, "a hears of it", "a", learns="a", is_eventual=True)
    yield owns(telling, "a has nothing", "a", (), learns="a")
    yield describe(telling, "a consumer of what there is not")
    both = [TOPIC, OTHER_TOPIC]
    yield beat(telling, "a reads two", "a", subscribed_topic_names=both, learns="a")
    yield beat(telling, "a is given two", "a", learns="a")
    yield beat(telling, "a reads one", "a", subscribed_topic_names=[TOPIC], learns="a")
    yield owns(telling, "a has that one", "a", (0, 1), learns="a")
    yield describe(telling, "a consumer of one again")


def _shared(telling: Telling) -> Iterator[Step]:
    yield join(telling, "b joins", "b")
    yield describe(telling, "two consumers")
    yield beat(telling, "a is to give up one", "a")
    yield beat(telling, "a has not yet", "a")
    yield beat(telling, "b waits", "b")
    yield from _given_up(telling)
    yield beat(telling, "b is given one", "b", learns="b")
    yield describe(telling, "two consumers who share", include_authorized_operations=True)
    yield join(telling, "c joins", "c", subscribed_topic_names=[OTHER_TOPIC], rack_id="r")
    yield join(telling, "d is one too many", "")
    yield describe(telling, "three consumers")


def _given_up(telling: Telling) -> Iterator[Step]:
    """Which of the two it is to keep is in its answer; both brokers are told the same."""
    for partitions in ((0, 1), (0,), (1,)):
        yield owns(telling, f"a keeps {partitions}", "a", partitions, learns="a")


def _left(telling: Telling) -> Iterator[Step]:
    yield telling.delete("a group with consumers is deleted")
    yield telling.forget("what consumers read is forgotten", [(TOPIC, [0])])
    yield telling.describe("described as a classic one")
    for name, asked in {
        "consumer groups": {"types_filter": ["Consumer"]},
        "consumer groups by state": {"states_filter": ["Reconciling", "stable", "assigning"]},
    }.items():
        yield telling.groups(name, **asked)
    for alias in ("b", "c", "a"):
        yield beat(telling, f"{alias} leaves", alias, LEAVE)
    yield beat(telling, "a leaves again", "a", LEAVE)
    yield describe(telling, "a group without consumers")
    yield describe(telling, "several", telling.group, "nobody", "", telling.group)
    yield telling.delete("a group without consumers is deleted")
    yield describe(telling, "a deleted group")


def static(scope: Scope) -> Iterator[Step]:
    if not any(scope.of(key) for key in OF_CONSUMERS):
        return
    yield from prepared()
    for telling in tellings(scope, "static-consumers", *OF_CONSUMERS):
        named = {"instance_id": "i1"}
        yield join(telling, "s joins", "s", **named)
        yield join(telling, "another in its name", "t", **named)
        yield beat(telling, "s without its name", "s")
        yield beat(telling, "s in another name", "s", instance_id="i9")
        yield beat(telling, "a stranger in its name", "stranger", 1, **named)
        yield beat(telling, "s leaves for a while", "s", LEAVE_FOR_A_WHILE, **named)
        yield describe(telling, "a consumer that is away")
        yield join(telling, "s comes back", "t", **named)
        yield beat(telling, "the one before", "s", **named)
        yield describe(telling, "a consumer that came back")
        yield telling.leave("made to leave", ("t", "i1"))
        yield beat(telling, "t leaves", "t", LEAVE, **named)
        yield describe(telling, "without static consumers")


def offsets(scope: Scope) -> Iterator[Step]:
    if not any(scope.of(key) for key in OF_CONSUMERS):
        return
    yield from prepared()
    for telling in tellings(scope, "offsets-of-consumers", *OF_CONSUMERS):
        yield join(telling, "o joins", "o")
        yield telling.commit("committed", "o", lines=[line(TOPIC, 0, 5, "told")])
        for epoch in (0, 99, -1):
            yield telling.commit(f"committed in epoch {epoch}", "o", generation=epoch)
        yield telling.commit("committed by a stranger", "stranger", generation=1)
        yield telling.commit("committed from outside")
        yield telling.fetch("fetched", {TOPIC: [0, 1]})
        for name, alias, epoch in (
            ("fetched by o", "o", None),
            ("fetched in another epoch", "o", 99),
            ("fetched by a stranger", "stranger", 1),
        ):
            yield _fetched_by(telling, name, alias, epoch)
        yield telling.forget("forgotten", [(TOPIC, [0]), (OTHER_TOPIC, [0])])
        yield telling.join("a classic member without an id", "k")
        yield telling.beat("a classic heartbeat", "o")
        yield beat(telling, "o leaves", "o", LEAVE)
        yield telling.commit("committed from outside when nobody is left")
        yield telling.fetch("fetched when nobody is left", None)
        yield telling.delete("deleted with its offsets")


def _fetched_by(telling: Telling, name: str, alias: str, epoch: int | None) -> Step:
    def values(broker: Asked) -> Values:
        group = {
            "group_id": telling.group,
            "member_id": broker.member_id(alias),
            "member_epoch": broker.generation(alias) if epoch is None else epoch,
            "topics": None,
        }
        return {"groups": [group], "require_stable": True}

    return telling.step(name, ApiKey.OFFSET_FETCH, values)


# What consumers say


def join(telling: Telling, name: str, alias: str, *, by: str | None = None, **said: Any) -> Step:
    """Before brokers left ids to their clients, with none; then by the name of the member."""
    own = alias if by is None else by
    if telling.version(ApiKey.CONSUMER_GROUP_HEARTBEAT) < OWN_IDS_SINCE:
        own = ""
    told = {**FIRST, **said}
    return _heard(telling, name, lambda broker: (own, JOIN), told, learns=alias)


def beat(telling: Telling, name: str, alias: str, epoch: int | None = None, **said: Any) -> Step:
    how = {key: said.pop(key) for key in ("learns", "is_eventual") if key in said}

    def who(broker: Asked) -> tuple[str, int]:
        known = broker.generation(alias) if epoch is None else epoch
        return broker.member_id(alias), known

    return _heard(telling, name, who, said, **how)


def owns(
    telling: Telling, name: str, alias: str, partitions: tuple[int, ...], learns: str = ""
) -> Step:
    """It says which partitions it has."""

    def told(broker: Asked) -> Values:
        entry = {"topic_id": broker.topic_id(TOPIC), "partitions": list(partitions)}
        return {
            "group_id": telling.group,
            "member_id": broker.member_id(alias),
            "member_epoch": broker.generation(alias),
            "topic_partitions": [entry] if partitions else [],
        }

    return telling.step(name, ApiKey.CONSUMER_GROUP_HEARTBEAT, told, learns=learns)


def _heard(
    telling: Telling,
    name: str,
    who: Callable[[Asked], tuple[str, int]],
    said: Values,
    **how: Any,
) -> Step:
    def values(broker: Asked) -> Values:
        member_id, epoch = who(broker)
        named = {"group_id": telling.group, "member_id": member_id, "member_epoch": epoch}
        return {**named, **said}

    return telling.step(name, ApiKey.CONSUMER_GROUP_HEARTBEAT, values, **how)


def describe(telling: Telling, name: str, *groups: str, **said: Any) -> Step:
    asked = {"group_ids": list(groups) or [telling.group], **said}
    return telling.step(name, ApiKey.CONSUMER_GROUP_DESCRIBE, asked)
