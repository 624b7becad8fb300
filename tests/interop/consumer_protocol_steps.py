"""The same story of groups of the consumer protocol, told to any broker; what it answers.

Ids that a broker makes are numbered in the order in which they are seen, words are left out, and
lists whose order means nothing are sorted, so that two brokers' answers can be compared.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.internal.consumer_protocol import ConsumerProtocolSubscription
from odradek.protocol.internal.coordinator_record import encode_version_prefixed
from tests.support.kafka_json import to_json
from tests.support.wire_client import WireClient

TOPICS = {"a": 2, "b": 3}
MEMBERS_MAX = 5
TIMEOUT_S = 30

Named = tuple[str, Any]


class Story:
    """One broker's part in it."""

    def __init__(self, address: str) -> None:
        self._client = WireClient(address, timeout_s=TIMEOUT_S)
        self.ids: dict[Any, str] = {}
        topics = [
            {"name": name, "num_partitions": count, "replication_factor": 1}
            for name, count in TOPICS.items()
        ]
        self.call(ApiKey.CREATE_TOPICS, 7, topics=topics, timeout_ms=TIMEOUT_S * 1000)
        self._until_ready(
            ApiKey.FIND_COORDINATOR,
            4,
            lambda answer: answer.coordinators[0].error_code,
            key_type=0,
            coordinator_keys=["g"],
        )

    def close(self) -> None:
        self._client.socket.close()

    def call(self, key: ApiKey, version: int, **values: Any) -> Any:
        return self._client.call(key, version, **values)

    def _until_ready(self, key: ApiKey, version: int, code: Any, **values: Any) -> Any:
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            answer = self.call(key, version, **values)
            if not ErrorCode.for_code(code(answer)).retriable:
                return answer
            assert time.monotonic() < deadline, (key, values, answer)

    # What members say

    def beat(self, member_id: str, epoch: int, *, group: str = "g", **said: Any) -> Any:
        version = said.pop("version", 1)
        values = {"group_id": group, "member_id": member_id, "member_epoch": epoch, **said}
        return self._until_ready(
            ApiKey.CONSUMER_GROUP_HEARTBEAT, version, lambda answer: answer.error_code, **values
        )

    def join(self, member_id: str, **said: Any) -> Any:
        first = {
            "rebalance_timeout_ms": 5_000,
            "subscribed_topic_names": ["a"],
            "topic_partitions": [],
        }
        return self.beat(member_id, 0, **first | said)

    def classic_join(self, member_id: str = "", *, group: str = "g", **said: Any) -> Any:
        told = encode_version_prefixed(ConsumerProtocolSubscription(topics=["a"]), 1)
        values = {
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 5_000,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": told}],
        }
        names = {"group_id": group, "member_id": member_id}
        return self.call(ApiKey.JOIN_GROUP, 9, **values | names | said)

    def classic_sync(self, member_id: str, generation: int) -> Any:
        return self.call(
            ApiKey.SYNC_GROUP,
            5,
            group_id="g",
            generation_id=generation,
            member_id=member_id,
            protocol_type="consumer",
            protocol_name="range",
        )

    def classic_beat(self, member_id: str, generation: int) -> Any:
        values = {"group_id": "g", "generation_id": generation, "member_id": member_id}
        return self.call(ApiKey.HEARTBEAT, 4, **values)

    def commit(self, member_id: str, epoch: int, *, group: str = "g", version: int = 9) -> Any:
        partition = {"partition_index": 0, "committed_offset": 3, "committed_metadata": "x"}
        return self.call(
            ApiKey.OFFSET_COMMIT,
            version,
            group_id=group,
            generation_id_or_member_epoch=epoch,
            member_id=member_id,
            topics=[{"name": "a", "partitions": [partition]}],
        )

    def fetch(self, member_id: str | None, epoch: int, *, group: str = "g") -> Any:
        asked = {"group_id": group, "member_id": member_id, "member_epoch": epoch, "topics": None}
        return self.call(ApiKey.OFFSET_FETCH, 9, groups=[asked], require_stable=True)

    def describe(self, *groups: str) -> Any:
        return self._until_ready(
            ApiKey.CONSUMER_GROUP_DESCRIBE,
            1,
            lambda answer: max(each.error_code for each in answer.groups),
            group_ids=list(groups),
        )

    def list(self, **filters: Any) -> Any:
        return self.call(ApiKey.LIST_GROUPS, 5, **filters)

    def leave(self, *members: str) -> Any:
        leaving = [{"member_id": each} for each in members]
        return self.call(ApiKey.LEAVE_GROUP, 5, group_id="g", members=leaving)

    # What can be compared

    def comparable(self, answer: Any) -> Any:
        """Words are left out, ids numbered."""
        return self._plain(to_json(answer, answer.__schema__.versions.high))

    def _plain(self, value: Any) -> Any:
        match value:
            case dict():
                shown = {
                    key: self._plain(each) for key, each in value.items() if key not in _LEFT_OUT
                }
                for key in value.keys() & _MADE_HERE:
                    made = value[key]
                    if isinstance(made, str) and len(made) > _LONGEST_OWN:
                        shown[key] = self.ids.setdefault(made, f"id-{len(self.ids)}")
                return shown
            case list():
                return sorted(map(self._plain, value), key=repr)
            case _:
                return value


_LEFT_OUT = {"errorMessage", "throttleTimeMs"}
_MADE_HERE = {"memberId", "topicId", "leader"}
_LONGEST_OWN = 6  # ids that the story makes are shorter


def told(story: Story) -> Iterator[Named]:
    """What is asked, and what is answered."""
    for part in (_refusals, _life, _senseless, _static_members, _others, _offsets, _migration):
        for name, answer in part(story):
            yield f"{part.__name__[1:]}: {name}", story.comparable(answer)


def _refusals(story: Story) -> Iterator[Named]:
    yield "no such group", story.beat("m", 5, group="none")
    yield "no such group to leave", story.beat("m", -1, group="none")
    yield "no such group to leave for a while", story.beat("m", -2, group="none", instance_id="i")


def _life(story: Story) -> Iterator[Named]:
    yield "joins", story.join("m1")
    yield "a stranger", story.beat("zz", 5)
    yield "a stranger leaves", story.beat("zz", -1)
    yield "stays", story.beat("m1", 1)
    yield "too late an epoch", story.beat("m1", 7)
    yield "joins again", story.join("m1")
    yield "subscribes to more", story.beat("m1", 1, subscribed_topic_names=["a", "b"])
    yield "the epoch before", story.beat("m1", 1)
    yield "the epoch before, with nothing", story.beat("m1", 1, topic_partitions=[])
    yield "joins at last", story.join("m1")


def _senseless(story: Story) -> Iterator[Named]:
    yield "no group", story.join("q", group="")
    yield "no member", story.join("")
    yield "no instance", story.join("q", instance_id="")
    yield "no rack", story.join("q", rack_id="")
    yield "no timeout", story.join("q", rebalance_timeout_ms=-1)
    yield "no word of partitions", story.join("q", topic_partitions=None)
    yield "no subscription", story.join("q", subscribed_topic_names=None)
    yield "an empty subscription", story.join("q", subscribed_topic_names=[], group="empty")
    yield "epoch -3", story.beat("q", -3)
    yield "leaves for a while without an instance", story.beat("q", -2)
    yield "an unknown assignor", story.join("q", server_assignor="foo")
    expression = {"subscribed_topic_names": None, "subscribed_topic_regex": "(a"}
    yield "a senseless expression", story.join("q", group="expression", **expression)


def _static_members(story: Story) -> Iterator[Named]:
    named = {"group": "static", "instance_id": "i1"}
    yield "joins", story.join("s1", **named)
    yield "another with its name", story.join("s2", **named)
    yield "without its name", story.beat("s1", 1, group="static")
    yield "another's heartbeat", story.beat("s9", 1, **named)
    yield "another name", story.beat("s1", 1, group="static", instance_id="i7")
    yield "leaves for a while", story.beat("s1", -2, **named)
    yield "is heard all the same", story.beat("s1", 1, **named)
    yield "described while it is away", story.describe("static")
    yield "comes back", story.join("s2", **named)
    yield "leaves", story.beat("s2", -1, **named)
    yield "described without members", story.describe("static")


def _others(story: Story) -> Iterator[Named]:
    for number in range(MEMBERS_MAX):
        story.join(f"f{number}", group="full")
    yield "one too many", story.join("f9", group="full")
    yield "described", story.describe("g", "none", "full")
    yield "described as classic ones", story.call(ApiKey.DESCRIBE_GROUPS, 5, groups=["g", "none"])
    yield "listed", story.list()
    yield (
        "listed by state and type",
        story.list(states_filter=["stable"], types_filter=["consumer"]),
    )


def _offsets(story: Story) -> Iterator[Named]:
    yield "committed", story.commit("m1", 2)
    yield "an older epoch", story.commit("m1", 1)
    yield "a later epoch", story.commit("m1", 9)
    yield "a stranger", story.commit("zz", 2)
    yield "from outside", story.commit("", -1)
    yield "from outside, to an empty group", story.commit("", -1, group="static")
    yield "in an older version", story.commit("m1", 2, version=8)
    for member_id, epoch in ((None, -1), ("m1", 2), ("m1", 1), ("zz", 1), ("zz", -1), ("", -1)):
        yield f"fetched by {member_id} in {epoch}", story.fetch(member_id, epoch)
    names = ["g", "static"]
    yield "deleted", story.call(ApiKey.DELETE_GROUPS, 2, groups_names=names)


def _migration(story: Story) -> Iterator[Named]:
    asked = story.classic_join()
    yield "a classic member without an id", asked
    member_id = asked.member_id
    joined = story.classic_join(member_id)
    yield "a classic member", joined
    yield "its part", story.classic_sync(member_id, joined.generation_id)
    yield "is alive", story.classic_beat(member_id, joined.generation_id)
    yield "is of another generation", story.classic_beat(member_id, 77)
    yield "asks in another generation", story.classic_sync(member_id, 77)
    yield "commits in another generation", story.commit(member_id, 77)
    yield "another's heartbeat", story.classic_beat("m1", 3)
    yield "of another type", story.classic_join(protocol_type="connect")
    yield "the other gives up", story.beat("m1", 2, topic_partitions=[])
    yield "is told to join again", story.classic_beat(member_id, joined.generation_id)
    yield "described", story.describe("g")
    yield "the other is made to leave", story.leave("m1", "zz")
    yield "listed as classic", story.list(types_filter=["classic"])
    yield "the other is no member", story.beat("m1", -1)
    yield "rebalances", story.classic_beat(member_id, joined.generation_id)
    yield "joins again", story.classic_join(member_id)
    yield "of a later protocol", story.classic_join(group="full", protocols=[])
