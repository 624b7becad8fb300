"""Members of groups by raw requests: one connection each, and exactly what is asked for.

Owner: the thread of the test.
"""

from __future__ import annotations

import time
from typing import Any

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.error_codes import ErrorCode
from tests.support.wire_client import WireClient, call

SESSION_MS = 6_000
WAIT_S = 30.0
#: The last version in which a commit says for how long it counts.
WITH_RETENTION = 4
NO_METADATA = b"\0\0\0\0\0\0\xff\xff\xff\xff"


def find_coordinator(address: str, group: str = "g") -> None:
    """Until there is one, and it has loaded its groups."""
    deadline = time.monotonic() + WAIT_S
    while True:
        asked = {"key_type": 0, "coordinator_keys": [group]}
        found = call(address, ApiKey.FIND_COORDINATOR, 4, **asked).coordinators[0]
        shown = described(address, group)
        if not found.error_code and not shown.error_code:
            return
        assert time.monotonic() < deadline, (found, shown)


def name_of(error_code: int) -> str:
    return ErrorCode.for_code(error_code).name


class WireMember:
    """Knows its id and generation as it was last told."""

    def __init__(self, address: str, group: str, *, instance: str | None = None) -> None:
        self.address = address
        self.client = WireClient(address)
        self.group = group
        self.instance = instance
        self.id = ""
        self.generation = -1
        self.leader = ""
        self.members: list[str] = []

    def __enter__(self) -> WireMember:
        return self

    def __exit__(self, *failure: object) -> None:
        self.client.close()

    def ask_to_join(self, *, session_ms: int = SESSION_MS) -> None:
        """Without waiting for the answer; the last version that asks for no id of its own."""
        self.client.send(
            ApiKey.JOIN_GROUP,
            3 if self.instance is None else 5,
            group_id=self.group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=10 * session_ms,
            member_id=self.id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocols=[{"name": "range", "metadata": NO_METADATA}],
        )

    def joined(self) -> str:
        """Once it is answered; the name of the error, or of none."""
        answer = self.client.answer(ApiKey.JOIN_GROUP, 3 if self.instance is None else 5)
        if not answer.error_code:
            self.id, self.generation = answer.member_id, answer.generation_id
            self.leader = answer.leader
            self.members = [each.member_id for each in answer.members]
        return name_of(answer.error_code)

    def join(self, **options: Any) -> str:
        self.ask_to_join(**options)
        return self.joined()

    def sync(self) -> tuple[str, bytes]:
        """The leader gives each its own id."""
        parts = [{"member_id": each, "assignment": each.encode()} for each in self.members]
        answer = self.client.call(
            ApiKey.SYNC_GROUP, 3, assignments=parts, **self._named(generation_id=self.generation)
        )
        return name_of(answer.error_code), answer.assignment

    def heartbeat(self) -> str:
        named = self._named(generation_id=self.generation)
        return name_of(self.client.call(ApiKey.HEARTBEAT, 3, **named).error_code)

    def commit(self, topic: str, offset: int, *, metadata: str = "", epoch: int = -1) -> str:
        partition = {
            "partition_index": 0,
            "committed_offset": offset,
            "committed_metadata": metadata,
            "committed_leader_epoch": epoch,
        }
        answer = self.client.call(
            ApiKey.OFFSET_COMMIT,
            7,
            topics=[{"name": topic, "partitions": [partition]}],
            **self._named(generation_id_or_member_epoch=self.generation),
        )
        return name_of(answer.topics[0].partitions[0].error_code)

    def leave(self) -> str:
        members = [{"member_id": self.id, "group_instance_id": self.instance}]
        answer = self.client.call(ApiKey.LEAVE_GROUP, 3, group_id=self.group, members=members)
        return name_of(answer.error_code or answer.members[0].error_code)

    def _named(self, **more: Any) -> dict[str, Any]:
        return {
            "group_id": self.group,
            "member_id": self.id,
            "group_instance_id": self.instance,
            **more,
        }


def group_of_two(
    address: str, group: str, *, session_ms: int = SESSION_MS
) -> tuple[WireMember, WireMember, int]:
    """The first of whom has been in an earlier generation too, which comes last."""
    first, second = WireMember(address, group), WireMember(address, group)
    first.join(session_ms=session_ms)
    first.sync()
    generation = first.generation
    second.ask_to_join(session_ms=session_ms)
    wait_for_state(address, group, "PreparingRebalance")
    assert (first.join(session_ms=session_ms), second.joined()) == ("NONE", "NONE")
    first.sync()
    second.sync()
    assert first.generation > generation
    return first, second, generation


def commit_briefly(address: str, group: str, topic: str, offset: int) -> None:
    """So that it expires as soon as anybody looks."""
    line = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
    answer = call(
        address,
        ApiKey.OFFSET_COMMIT,
        WITH_RETENTION,
        group_id=group,
        generation_id_or_member_epoch=-1,
        retention_time_ms=1,
        topics=[{"name": topic, "partitions": [line]}],
    )
    assert name_of(answer.topics[0].partitions[0].error_code) == "NONE"


def wait_for_state(address: str, group: str, state: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while described(address, group).group_state != state:
        assert time.monotonic() < deadline, state


def committed_line(address: str, group: str, topic: str) -> tuple[int, str, int]:
    """Offset, metadata and leader epoch."""
    topics = [{"name": topic, "partition_indexes": [0]}]
    answer = call(address, ApiKey.OFFSET_FETCH, 5, group_id=group, topics=topics)
    assert not answer.error_code, answer
    line = answer.topics[0].partitions[0]
    return line.committed_offset, line.metadata, line.committed_leader_epoch


def committed(address: str, group: str) -> dict[tuple[str, int], int]:
    """All that the broker says is committed, once it has loaded the group."""
    asked = {"group_id": group, "member_id": None, "member_epoch": -1, "topics": None}
    deadline = time.monotonic() + WAIT_S
    while True:
        answer = call(address, ApiKey.OFFSET_FETCH, 9, groups=[asked]).groups[0]
        if answer.error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS.code:
            break
        assert time.monotonic() < deadline, answer
    assert answer.error_code == 0, answer
    return {
        (topic.name, line.partition_index): line.committed_offset
        for topic in answer.topics
        for line in topic.partitions
    }


def described(address: str, group: str) -> Any:
    return call(address, ApiKey.DESCRIBE_GROUPS, 5, groups=[group]).groups[0]
