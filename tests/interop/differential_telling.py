"""A story of a group, told to two brokers once for each version of the APIs that it is about.

In a telling each API is asked in one version: in the first in its first, and so on; an API that has
no more versions stays at its last.  A group is of one telling, so that tellings do not meet.
Members go by names, behind which each broker's own ids and generations are (see differential_side).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.internal.consumer_protocol import ConsumerProtocolSubscription
from odradek.protocol.internal.coordinator_record import encode_version_prefixed
from odradek.protocol.registry import api
from tests.interop.differential_requests import Asked, Scope, Step, Values

TOPIC, OTHER_TOPIC = "grp-t", "grp-u"
SESSION_MS, REBALANCE_MS = 20_000, 20_000
REQUIRED_ID_SINCE, STATIC_JOIN_SINCE = 4, 5
STABLE, REBALANCING = 0, 27
NOT_YET_THERE = (14, 15, 16)
Members = str | tuple[str, str]


def subscription(*topics: str) -> bytes:
    return encode_version_prefixed(ConsumerProtocolSubscription(topics=list(topics)), 1)


RANGE = {"name": "range", "metadata": subscription(TOPIC)}
STICKY = {"name": "sticky", "metadata": subscription(TOPIC)}


@dataclass(frozen=True, slots=True)
class Telling:
    scope: Scope
    story: str
    number: int

    @property
    def group(self) -> str:
        return f"{self.story}-{self.number}"

    def version(self, key: ApiKey) -> int:
        covered = covered_with_transactions(self.scope, key)
        if covered:
            return covered[min(self.number, len(covered) - 1)]
        return min(self.scope.versions[key].high, api(key).request.__schema__.versions.high)

    def step(
        self, name: str, key: ApiKey, values: Values | Callable[[Asked], Values], **how: Any
    ) -> Step:
        return Step(name, key, self.version(key), values, **how)

    # What members say

    def join(self, name: str, alias: str, *, by: str = "", **said: Any) -> Step:
        """As the member ``by``, if that is known already; who joins is then known as ``alias``."""
        how = {key: said.pop(key) for key in HOW & said.keys()}

        def values(broker: Asked) -> Values:
            given = {
                "group_id": self.group,
                "session_timeout_ms": SESSION_MS,
                "rebalance_timeout_ms": REBALANCE_MS,
                "member_id": broker.member_id(by),
                "protocol_type": "consumer",
                "protocols": [RANGE, STICKY],
            }
            return {**given, **said}

        return self.step(name, ApiKey.JOIN_GROUP, values, learns=alias, **how)

    def joined(self, alias: str, *, is_awaited: bool = True, **said: Any) -> Iterator[Step]:
        """A new member, which may have to ask for an id first."""
        version = self.version(ApiKey.JOIN_GROUP)
        is_static = "group_instance_id" in said and version >= STATIC_JOIN_SINCE
        if version >= REQUIRED_ID_SINCE and not is_static:
            yield self.join(f"{alias} asks for an id", alias, **said)
            yield self.join(f"{alias} joins", alias, by=alias, is_awaited=is_awaited, **said)
        else:
            yield self.join(f"{alias} joins", alias, is_awaited=is_awaited, **said)

    def sync(self, name: str, alias: str, *others: str, **said: Any) -> Step:
        """Each of them is assigned its own name."""
        how = {key: said.pop(key) for key in HOW & said.keys()}
        generation = said.pop("generation", None)

        def values(broker: Asked) -> Values:
            given = {
                "assignments": [
                    {"member_id": broker.member_id(each), "assignment": each.encode()}
                    for each in others
                ],
                "protocol_type": "consumer",
                "protocol_name": "range",
            }
            return {**self._named(broker, alias, generation), **given, **said}

        return self.step(name, ApiKey.SYNC_GROUP, values, **how)

    def beat(self, name: str, alias: str, generation: int | None = None, **said: Any) -> Step:
        how = {key: said.pop(key) for key in HOW & said.keys()}

        def values(broker: Asked) -> Values:
            return {**self._named(broker, alias, generation), **said}

        return self.step(name, ApiKey.HEARTBEAT, values, **how)

    def is_told_to_rebalance(self, alias: str) -> Step:
        return self.beat(
            f"{alias} is told to join again", alias, is_eventual=True, not_yet=[STABLE]
        )

    def leave(self, name: str, *members: Members, group: str | None = None) -> Step:
        """By name, or by name and instance; the first of them only, where there can be no more."""

        def values(broker: Asked) -> Values:
            pairs = [(each, None) if isinstance(each, str) else each for each in members]
            leaving = [
                {"member_id": broker.member_id(alias), "group_instance_id": instance}
                for alias, instance in pairs
            ]
            first = leaving[0]["member_id"] if leaving else ""
            named = self.group if group is None else group
            return {"group_id": named, "member_id": first, "members": leaving}

        return self.step(name, ApiKey.LEAVE_GROUP, values)

    def commit(self, name: str, alias: str = "", **said: Any) -> Step:
        """By somebody in no group, unless it says who."""
        generation = said.pop("generation", None if alias else -1)
        lines = said.pop("lines", [line(TOPIC, 0, 5)])

        def values(broker: Asked) -> Values:
            named = self._named(broker, alias, generation)
            named["generation_id_or_member_epoch"] = named.pop("generation_id")
            version = self.version(ApiKey.OFFSET_COMMIT)
            topics = [with_id(broker, version, each) for each in lines]
            return {**named, "topics": topics, **said}

        return self.step(name, ApiKey.OFFSET_COMMIT, values)

    def _named(self, broker: Asked, alias: str, generation: int | None) -> dict[str, Any]:
        known = broker.generation(alias) if generation is None else generation
        return {
            "group_id": self.group,
            "member_id": broker.member_id(alias),
            "generation_id": known,
        }

    # What others ask

    def fetch(
        self, name: str, topics: Mapping[str, Sequence[int]] | None, *groups: str, **said: Any
    ) -> Step:
        """Of several groups where that can be; otherwise of the first."""
        asked = list(groups) or [self.group]

        def values(broker: Asked) -> Values:
            version = self.version(ApiKey.OFFSET_FETCH)
            lines = None if topics is None else _to_fetch(broker, version, topics)
            if version < 8:
                return {"group_id": asked[0], "topics": lines, **said}
            return {"groups": [{"group_id": each, "topics": lines} for each in asked], **said}

        return self.step(name, ApiKey.OFFSET_FETCH, values)

    def describe(self, name: str, *groups: str, **said: Any) -> Step:
        how = {key: said.pop(key) for key in HOW & said.keys()}
        asked = {"groups": list(groups) or [self.group], **said}
        return self.step(name, ApiKey.DESCRIBE_GROUPS, asked, **how)

    def groups(self, name: str, **asked: Any) -> Step:
        """Those of this telling."""
        return self.step(name, ApiKey.LIST_GROUPS, asked, listing=self.group, is_eventual=True)

    def delete(self, name: str, *groups: str) -> Step:
        asked = {"groups_names": list(groups) or [self.group]}
        return self.step(name, ApiKey.DELETE_GROUPS, asked)

    def forget(
        self, name: str, topics: Sequence[tuple[str, Sequence[int]]], group: str | None = None
    ) -> Step:
        lines = [
            {"name": topic, "partitions": [{"partition_index": each} for each in partitions]}
            for topic, partitions in topics
        ]
        named = self.group if group is None else group
        return self.step(name, ApiKey.OFFSET_DELETE, {"group_id": named, "topics": lines})


HOW = {"via", "is_awaited", "is_sent", "is_eventual", "not_yet"}
TOPIC_IDS_SINCE = 10
#: Before, what is produced and read knows no transactions, nor do stories of groups need it.
TRANSACTIONS_SINCE = {ApiKey.PRODUCE: 3, ApiKey.FETCH: 4, ApiKey.LIST_OFFSETS: 2}


def tellings(scope: Scope, story: str, *keys: ApiKey) -> Iterator[Telling]:
    """As many as any of these APIs has versions to be asked in."""
    for number in range(max(len(covered_with_transactions(scope, key)) for key in keys)):
        yield Telling(scope, story, number)


def covered_with_transactions(scope: Scope, key: ApiKey) -> list[int]:
    return scope.of(key, TRANSACTIONS_SINCE.get(key, 0))


def line(topic: str, partition: int, offset: int, metadata: str | None = "", **more: Any) -> Values:
    """An entry of OffsetCommit for one partition."""
    entry = {
        "partition_index": partition,
        "committed_offset": offset,
        "committed_metadata": metadata,
        **more,
    }
    return {"name": topic, "partitions": [entry]}


def with_id(broker: Asked, version: int, entry: Values) -> Values:
    if version < TOPIC_IDS_SINCE:
        return entry
    return {**entry, "topic_id": broker.topic_id(entry["name"])}


def _to_fetch(broker: Asked, version: int, topics: Mapping[str, Sequence[int]]) -> list[Values]:
    entries = [{"name": name, "partition_indexes": list(each)} for name, each in topics.items()]
    return [with_id(broker, version, each) for each in entries]
