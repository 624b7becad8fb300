"""Members of groups in processes of their own, and what may never happen to a group.

    with Member("confluent", broker.address, group="g", topics=["t"]) as member:
        member.wait_until(lambda: len(member.assignment) == 3)

Owner: the thread of the test.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.error_codes import ErrorCode
from tests.support.telling_process import WAIT_S, TellingProcess
from tests.support.wire_client import call

LIBRARIES = ("confluent", "kafka-python", "aiokafka")

Place = tuple[str, int]


@dataclass(frozen=True, slots=True)
class MemberOptions:
    group: str
    topics: Sequence[str]
    assignor: str = "range"
    instance: str | None = None
    session_ms: int = 6_000
    #: Where records are copied to before they are committed; by confluent only.
    copy_to: str | None = None


class Member(TellingProcess):
    """A consumer that commits whatever it has read."""

    def __init__(self, library: str, address: str, **options: Any) -> None:
        self.library = library
        self.options = MemberOptions(**options)
        told = json.dumps(asdict(self.options))
        super().__init__("tests.support.group_member_program", library, address, told)

    @property
    def assignment(self) -> frozenset[Place]:
        """What it has been given and not had taken away."""
        eager = self.options.assignor not in ("sticky", "cooperative")
        owned: set[Place] = set()
        for event in [*self.events]:
            places = {(topic, partition) for topic, partition in event.get("partitions", ())}
            if event["event"] == "assigned":
                owned = places if eager or self.library != "confluent" else owned | places
            elif event["event"] == "revoked":
                owned -= places
        return frozenset(owned)

    @property
    def rebalances(self) -> int:
        return len(self.happened("assigned"))

    @property
    def records(self) -> list[tuple[Place, int, str]]:
        return [
            ((topic, partition), offset, value)
            for event in self.happened("records")
            for topic, partition, offset, value in event["records"]
        ]


def wait_until(condition: Callable[[], Any], *, timeout_s: float = WAIT_S) -> None:
    """Where several members are looked at."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.02)


def share(members: Iterable[Member], places: Iterable[Place]) -> bool:
    """Whether each place has exactly one owner among the members."""
    owned = [place for member in members for place in member.assignment]
    return sorted(owned) == sorted(places)


def places_of(topic: str, count: int) -> list[Place]:
    return [(topic, partition) for partition in range(count)]


def check_commits(members: Iterable[Member]) -> None:
    """Nobody commits behind what another had been told to have committed: it was no owner then."""
    commits = sorted(
        (event["begun_at"], event["at"], topic, partition, offset)
        for member in members
        for event in member.happened("committed")
        for topic, partition, offset in event["offsets"]
    )
    for begun_at, _, topic, partition, offset in commits:
        acknowledged = [
            other
            for _, at, other_topic, other_partition, other in commits
            if (other_topic, other_partition) == (topic, partition) and at < begun_at
        ]
        assert offset >= max(acknowledged, default=0), (topic, partition, offset)


def check_none_skipped(members: Iterable[Member], sent: Iterable[str]) -> None:
    seen = {value for member in members for _, _, value in member.records}
    assert set(sent) <= seen, sorted(set(sent) - seen)[:10]


def committed(address: str, group: str) -> dict[Place, int]:
    """What the broker says is committed."""
    asked = [{"group_id": group, "member_id": None, "member_epoch": -1, "topics": None}]
    answer = call(address, ApiKey.OFFSET_FETCH, 9, groups=asked)
    while answer.groups[0].error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS.code:
        answer = call(address, ApiKey.OFFSET_FETCH, 9, groups=asked)
    assert answer.groups[0].error_code == 0, answer
    return {
        (topic.name, line.partition_index): line.committed_offset
        for topic in answer.groups[0].topics
        for line in topic.partitions
    }


def described(address: str, group: str) -> Any:
    answer = call(address, ApiKey.DESCRIBE_GROUPS, 5, groups=[group])
    return answer.groups[0]
