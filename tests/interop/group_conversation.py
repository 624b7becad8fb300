"""What a broker answers, step by step, to whoever asks about classic groups, to be compared.

Members' ids are chosen by brokers: in what is told they are replaced by names, in the order in
which they appeared; so is the broker's own address.  Lists are in an order of their own.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.schema import Struct
from tests.support.group_scene import subscription
from tests.support.wire_client import WireClient, error_codes

TOPIC = "t"
SESSION_MS = 10_000
PROTOCOLS = [{"name": "range", "metadata": subscription(TOPIC)}]
_ID = re.compile(r"[\w-]*-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")

_NAMED_MEMBER = re.compile("<id [0-9]+>")

Told = list[tuple[str, str]]


def plain(value: Any) -> Any:
    """Messages as dictionaries, and what they list in an order that does not matter."""
    if isinstance(value, Struct):
        return {field.name: plain(getattr(value, field.name)) for field in value.__schema__.fields}
    if isinstance(value, list):
        return sorted((plain(each) for each in value), key=lambda each: _ID.sub("", repr(each)))
    return value


class Conversation:
    """With one broker, on connections that stay; ``told`` is what it has answered."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._clients: dict[str, WireClient] = {}
        self._names: dict[str, str] = {}
        self.told: Told = []

    def client(self, who: str) -> WireClient:
        if who not in self._clients:
            self._clients[who] = WireClient(self._address)
        return self._clients[who]

    def close(self) -> None:
        for client in self._clients.values():
            client.close()

    def ask(self, step: str, key: ApiKey, version: int, /, who: str = "one", **values: Any) -> Any:
        answer = self.client(who).call(key, version, **values)
        self.note(f"{step}: {key.name} v{version}", answer)
        return answer

    def note(self, step: str, answer: Any) -> None:
        codes = ", ".join(ErrorCode.of(code).name for code in sorted(error_codes(answer)))
        text = _ID.sub(self._named, repr(plain(answer)))
        text = re.sub(r"'(node_id|port)': \d+", r"'\1': ...", text)
        # Ids are random, and so would their order be.
        self.told.append((step, f"{codes}: {_NAMED_MEMBER.sub('<id>', text)}"))

    def _named(self, found: re.Match[str]) -> str:
        return self._names.setdefault(found[0], f"<id {len(self._names)}>")

    # Members

    def join(self, step: str, version: int, who: str = "one", **fields: Any) -> Any:
        self.ask_to_join(version, who, **fields)
        return self.joined(step, version, who)

    def ask_to_join(self, version: int, who: str, **fields: Any) -> None:
        values = {
            "group_id": "g",
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": SESSION_MS,
            "protocol_type": "consumer",
            "protocols": PROTOCOLS,
        }
        self.client(who).send(ApiKey.JOIN_GROUP, version, **{**values, **fields})

    def joined(self, step: str, version: int, who: str) -> Any:
        answer = self.client(who).answer(ApiKey.JOIN_GROUP, version)
        self.note(f"{step}: JOIN_GROUP v{version}", answer)
        return answer

    def wait_for(self, group: str, state: str) -> None:
        client = self.client("watcher")
        while True:
            shown = client.call(ApiKey.DESCRIBE_GROUPS, 5, groups=[group]).groups[0]
            if shown.group_state == state:
                return


def offsets_of(*partitions: int, topic: str = TOPIC, metadata: str | None = "m") -> Any:
    lines = [
        {"partition_index": each, "committed_offset": 5 + each, "committed_metadata": metadata}
        for each in partitions
    ]
    return [{"name": topic, "partitions": lines}]


def fetch_of(version: int, group: str, topics: Any) -> dict[str, Any]:
    asked = {"group_id": group, "topics": topics}
    return {"groups": [asked]} if version >= 8 else asked


def finding(talk: Conversation) -> None:
    for version in range(7):
        values = {"key": "g", "coordinator_keys": ["g", ""], "key_type": 0}
        talk.ask("a group", ApiKey.FIND_COORDINATOR, version, **values)
    talk.ask("nothing", ApiKey.FIND_COORDINATOR, 4, coordinator_keys=[])


def offsets(talk: Conversation) -> None:
    known = [{"name": TOPIC, "partition_indexes": [0, 1]}]
    absent = [{"name": "absent", "partition_indexes": [0]}]
    for version in range(10):
        # In the store no group is without a name: Kafka's own code fails there, ours refuses.
        for group in ("nobody", "") if version else ("nobody",):
            talk.ask(
                "before", ApiKey.OFFSET_FETCH, version, **fetch_of(version, group, known + absent)
            )
    for version in range(10):
        group = f"outside-{version}"
        for step, topics in {
            "plain": offsets_of(0, 1),
            "no metadata": offsets_of(0, metadata=None),
            "long metadata": offsets_of(1, metadata="x" * 5000),
            "no such partition": offsets_of(0, 7, -1),
            "no such topic": offsets_of(0, topic="absent"),
            "nothing": [],
        }.items():
            talk.ask(step, ApiKey.OFFSET_COMMIT, version, group_id=group, topics=topics)
    for version in range(1, 10):
        asked = {"generation_id_or_member_epoch": 3, "member_id": "m", "topics": offsets_of(0)}
        talk.ask("no member", ApiKey.OFFSET_COMMIT, version, group_id="gone", **asked)
        talk.ask(
            "id alone", ApiKey.OFFSET_COMMIT, version, group_id="solo", member_id="m",
            topics=offsets_of(0),
        )  # fmt: skip
    for version in range(10):
        values = fetch_of(version, f"outside-{version}", known + absent)
        talk.ask("after", ApiKey.OFFSET_FETCH, version, **values)
        if version >= 2:
            values = fetch_of(version, f"outside-{version}", None)
            talk.ask("all", ApiKey.OFFSET_FETCH, version, **values)
    talk.ask("no name", ApiKey.OFFSET_COMMIT, 8, group_id="", topics=offsets_of(0))


def refusals(talk: Conversation) -> None:
    """Of a group that is there: Kafka makes one of any name, even for whoever it refuses."""
    for version in range(10):
        for step, fields in {
            "no name": {"group_id": ""},
            "short session": {"session_timeout_ms": 10},
            "long session": {"session_timeout_ms": 2_000_000},
            "stranger": {"member_id": "stranger"},
            "no protocols": {"protocols": []},
            "no protocol type": {"protocol_type": ""},
        }.items():
            talk.join(step, version, **{"group_id": "outside-1", **fields})
    for version in range(6):
        named = {"protocol_type": "consumer", "protocol_name": "range"} if version >= 5 else {}
        member = {"member_id": "m", "generation_id": 1}
        for group in ("", "nobody"):
            talk.ask("no group", ApiKey.SYNC_GROUP, version, group_id=group, **member, **named)
            if version < 5:
                talk.ask("no group", ApiKey.HEARTBEAT, version, group_id=group, **member)
            members = [{"member_id": "m", "group_instance_id": None}]
            left = {"members": members} if version >= 3 else {"member_id": "m"}
            talk.ask("no group", ApiKey.LEAVE_GROUP, version, group_id=group, **left)


def life(talk: Conversation) -> None:
    first = talk.join("first", 9)
    member = talk.join("with its id", 9, member_id=first.member_id)
    who = {"group_id": "g", "member_id": member.member_id, "generation_id": 1}
    talk.ask("shown", ApiKey.DESCRIBE_GROUPS, 5, groups=["g"])
    commit = {
        "group_id": "g",
        "member_id": member.member_id,
        "generation_id_or_member_epoch": 1,
        "topics": offsets_of(0),
    }
    talk.ask("too early", ApiKey.OFFSET_COMMIT, 8, **commit)
    talk.ask("early", ApiKey.HEARTBEAT, 4, **who)
    parts = [{"member_id": member.member_id, "assignment": b"all"}]
    for step, fields in {
        "other type": {"protocol_type": "connect", "protocol_name": "range"},
        "other protocol": {"protocol_type": "consumer", "protocol_name": "sticky"},
        "no protocol": {"protocol_type": None, "protocol_name": None},
        "old": {"protocol_type": "consumer", "protocol_name": "range", "generation_id": 0},
        "right": {"protocol_type": "consumer", "protocol_name": "range"},
    }.items():
        talk.ask(step, ApiKey.SYNC_GROUP, 5, **{**who, "assignments": parts, **fields})
    for version in range(6):
        talk.ask("shown", ApiKey.DESCRIBE_GROUPS, version, groups=["g", "outside-3", "absent", ""])
    talk.ask("allowed", ApiKey.DESCRIBE_GROUPS, 5, groups=["g"], include_authorized_operations=True)
    members(talk, who, commit)


def members(talk: Conversation, who: dict[str, Any], commit: dict[str, Any]) -> None:
    for step, fields in {
        "right": {},
        "old generation": {"generation_id": 0},
        "stranger": {"member_id": "stranger"},
        "instance": {"group_instance_id": "one"},
    }.items():
        talk.ask(step, ApiKey.HEARTBEAT, 4, **{**who, **fields})
    for step, fields in {
        "right": {},
        "old generation": {"generation_id_or_member_epoch": 0},
        "outside": {"generation_id_or_member_epoch": -1, "member_id": ""},
        "stranger": {"member_id": "stranger"},
        "instance": {"group_instance_id": "one"},
    }.items():
        talk.ask(step, ApiKey.OFFSET_COMMIT, 8, **{**commit, **fields})
    talk.join("another type", 5, "two", protocol_type="connect")
    talk.join("another protocol", 5, "two", protocols=[{"name": "odd", "metadata": b""}])
    topics = [{"name": each, "partitions": [{"partition_index": 0}]} for each in (TOPIC, "other")]
    talk.ask("subscribed", ApiKey.OFFSET_DELETE, 0, group_id="g", topics=topics)
    talk.ask("absent", ApiKey.OFFSET_DELETE, 0, group_id="absent", topics=topics)
    talk.ask("no name", ApiKey.OFFSET_DELETE, 0, group_id="", topics=topics)
    talk.ask("in use", ApiKey.DELETE_GROUPS, 2, groups_names=["g", "absent", "", "outside-2"])
    rebalance(talk, who)


def rebalance(talk: Conversation, who: dict[str, Any]) -> None:
    """A static member comes, and comes back; then everybody goes."""
    talk.ask_to_join(5, "two", group_instance_id="one")
    talk.wait_for("g", "PreparingRebalance")
    talk.ask("rebalance", ApiKey.HEARTBEAT, 4, **who)
    talk.ask("rebalance", ApiKey.SYNC_GROUP, 4, **who)
    talk.ask("rebalance", ApiKey.DESCRIBE_GROUPS, 5, groups=["g"])
    leader = talk.join("again", 9, member_id=who["member_id"])
    static = talk.joined("static", 5, "two")
    ids = [leader.member_id, static.member_id]
    parts = [{"member_id": each, "assignment": b"part"} for each in ids]
    who = {**who, "generation_id": 2}
    talk.ask("assign", ApiKey.SYNC_GROUP, 4, **who, assignments=parts)
    back = talk.join("back", 5, "two", group_instance_id="one")
    old = {"group_id": "g", "member_id": static.member_id, "generation_id": 2}
    talk.ask("fenced", ApiKey.HEARTBEAT, 4, "two", **old, group_instance_id="one")
    talk.ask("fenced", ApiKey.SYNC_GROUP, 4, "two", **old, group_instance_id="one")
    talk.join("fenced", 5, "two", member_id=static.member_id, group_instance_id="one")
    new = {**old, "member_id": back.member_id}
    talk.ask("back", ApiKey.SYNC_GROUP, 4, "two", **new, group_instance_id="one")
    talk.ask("both", ApiKey.DESCRIBE_GROUPS, 5, groups=["g"])
    fenced = {"member_id": static.member_id, "group_instance_id": "one"}
    leaving = [fenced, {"member_id": "", "group_instance_id": "one"}, {"member_id": "stranger"}]
    talk.ask("some", ApiKey.LEAVE_GROUP, 5, group_id="g", members=leaving)
    talk.ask("last", ApiKey.LEAVE_GROUP, 1, group_id="g", member_id=who["member_id"])
    talk.wait_for("g", "Empty")
    talk.ask("empty", ApiKey.DESCRIBE_GROUPS, 5, groups=["g"])
    ending(talk)


def ending(talk: Conversation) -> None:
    topics = [{"name": TOPIC, "partitions": [{"partition_index": each} for each in (0, 9)]}]
    talk.ask("empty", ApiKey.OFFSET_DELETE, 0, group_id="g", topics=topics)
    for version in range(6):
        talk.ask("all", ApiKey.LIST_GROUPS, version)
    for filters in ({"states_filter": ["empty"]}, {"types_filter": ["consumer"]}):
        talk.ask(f"{filters}", ApiKey.LIST_GROUPS, 5, **filters)
    talk.ask("gone", ApiKey.DELETE_GROUPS, 2, groups_names=["g", "g"])
    talk.ask("gone", ApiKey.DESCRIBE_GROUPS, 5, groups=["g"])


PARTS: tuple[Callable[[Conversation], None], ...] = (finding, offsets, refusals, life)


def conversation(address: str) -> Told:
    talk = Conversation(address)
    try:
        for part in PARTS:
            part(talk)
    finally:
        talk.close()
    return talk.told
