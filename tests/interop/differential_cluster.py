"""What clients ask about the cluster: topics, brokers, and which versions are served."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from odradek.protocol.api_keys import ApiKey
from tests.interop.differential_requests import (
    NOT_LED,
    STRANGE_ID,
    Asked,
    Scope,
    Step,
    Values,
    created,
    new_topic,
)

AUTO_CREATION_SINCE = 4
OPERATIONS_SINCE = 8
IDS_SINCE = 10
Made = Values | Callable[[Asked], Values]


def metadata(scope: Scope) -> Iterator[Step]:
    yield from created(new_topic("md-0", 2), new_topic("md-1"), new_topic("md.x"))
    for version in scope.of(ApiKey.METADATA):
        for name, values in _topics(version).items():
            yield Step(name, ApiKey.METADATA, version, values, is_eventual="all" in name)
        made = _named(f"md-auto-{version}", "md-0", allow_auto_topic_creation=True)
        yield Step("a topic that is made now", ApiKey.METADATA, version, made)
        is_made = "a topic that was made now"
        yield Step(is_made, ApiKey.METADATA, version, made, is_eventual=True, not_yet=NOT_LED)


def _named(*names: str, **values: Any) -> Values:
    return {"topics": [{"name": name} for name in names], **values}


def _topics(version: int) -> Mapping[str, Made]:
    cases: dict[str, Made] = {
        "by name": _named("md-0", "md-1", "md-0"),
        "no topic, or all": _named(),
        "impossible": _named("a b", "", "x" * 300, "."),
    }
    if version:
        cases["all"] = {"topics": None}
    if version >= AUTO_CREATION_SINCE:
        unmade = {"allow_auto_topic_creation": False}
        cases["not to be made"] = _named("nope", "a b", "__transaction_state", "md_x", **unmade)
        cases["colliding"] = _named("md_x")
    if version >= OPERATIONS_SINCE:
        asked = {"include_topic_authorized_operations": True, "allow_auto_topic_creation": False}
        if version < 11:
            asked["include_cluster_authorized_operations"] = True
        cases["with what is allowed"] = _named("nope", "md-0", **asked)
        cases["all, with what is allowed"] = {"topics": None, **asked}
    if version >= IDS_SINCE:
        nobody = {"name": None, "topic_id": STRANGE_ID}
        cases |= {
            "by id": _ided(("md-0", None)),
            "by id and name": _ided(("md-0", "md-0")),
            "by id and wrong name": _ided(("md-0", "md-1")),
            "by id, others by name": _ided(("md-0", None), (None, "md-1"), (None, "nope")),
            "by an id of nobody": {"topics": [nobody]},
            "by an id of nobody, not made": {
                "topics": [nobody],
                "allow_auto_topic_creation": False,
            },
            "by nothing": {"topics": [{"name": None}]},
            "by nothing, not made": {
                "topics": [{"name": None}],
                "allow_auto_topic_creation": False,
            },
        }
    return cases


def _ided(*topics: tuple[str | None, str | None]) -> Callable[[Asked], Values]:
    def of(broker: Asked) -> Values:
        return {
            "topics": [
                {"name": name} | ({"topic_id": broker.topic_id(ided)} if ided else {})
                for ided, name in topics
            ],
            "allow_auto_topic_creation": False,
        }

    return of


def cluster(scope: Scope) -> Iterator[Step]:
    key = ApiKey.DESCRIBE_CLUSTER
    for version in scope.of(key):
        for allowed in (False, True):
            asked = {"include_cluster_authorized_operations": allowed}
            yield Step(f"the cluster, operations {allowed}", key, version, asked)
            for kind in (0, 1, 2, 3, -1) if version else ():
                name = f"endpoints {kind}, operations {allowed}"
                yield Step(name, key, version, {**asked, "endpoint_type": kind})
            if version >= 2:
                yield Step(
                    "fenced ones too", key, version, {**asked, "include_fenced_brokers": True}
                )


def partitions(scope: Scope) -> Iterator[Step]:
    """Pages of the partitions of topics."""
    key = ApiKey.DESCRIBE_TOPIC_PARTITIONS
    if not scope.of(key):
        return
    yield from created(new_topic("dp-t", 3), new_topic("dp-s", 2), new_topic("dp-u"))
    for names in (("dp-t", "dp-s"), ("dp-t", "nope", "a b"), ("dp-t", ""), ("dp-t", "dp-t")):
        for limit in (2000, 1, 2, 3, 5, 6, 0, -1):
            yield Step(f"{limit} of {names}", key, 0, _page(names, limit))
    cursors = [("dp-s", each) for each in (0, 1, 2, 9)] + [("dp-ss", 1), ("dp-t", 2), ("z", 0)]
    for cursor in (*cursors, ("", 0), ("dp-t", -1)):
        for names in (("dp-t", "dp-s"), ("dp-s", "dp-t", "dp-u", "nope")):
            for limit in (2000, 1, 2):
                name = f"{limit} of {names} from {cursor}"
                yield Step(name, key, 0, _page(names, limit, cursor))


def _page(names: tuple[str, ...], limit: int, cursor: tuple[str, int] | None = None) -> Values:
    begin = cursor and {"topic_name": cursor[0], "partition_index": cursor[1]}
    return {**_named(*names), "response_partition_limit": limit, "cursor": begin}


def versions(scope: Scope) -> Iterator[Step]:
    names = (("a", "1"), ("", "1"), ("a", "-1"), ("a b", "1"), ("a", ""), ("a.b-c", "1.0.0-rc1"))
    for version in scope.of(ApiKey.API_VERSIONS):
        for name, number in names:
            values = {"client_software_name": name, "client_software_version": number}
            yield Step(f"versions for {name!r} {number!r}", ApiKey.API_VERSIONS, version, values)
