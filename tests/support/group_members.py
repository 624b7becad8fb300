"""Members of groups in processes of their own, and what may never happen to a group.

    with Member("confluent", broker.address, group="g", topics=["t"]) as member:
        member.wait_until(lambda: len(member.assignment) == 3)

A test module that imports ``members`` from here starts them by it, at its ``broker``.

Owner: the thread of the test.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.support.broker_process import BrokerProcess
from tests.support.group_wire import committed
from tests.support.member_consumer import MemberOptions
from tests.support.telling_process import WAIT_S, TellingProcess

#: Of a topic that members share.
PARTITIONS = 6
#: Of a broker whose groups do not wait long for their first members.
SETTINGS = ("group.initial.rebalance.delay.ms=100", "offsets.topic.num.partitions=5")

Place = tuple[str, int]


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
        is_incremental = self.options.assignor == "cooperative"
        owned: set[Place] = set()
        for event in [*self.events]:
            places = {(topic, partition) for topic, partition in event.get("partitions", ())}
            if event["event"] == "assigned":
                owned = owned | places if is_incremental else places
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


@pytest.fixture
def members(broker: BrokerProcess) -> Iterator[Callable[..., Member]]:
    """Starts members, and ends those that are left."""
    with ExitStack() as stack:

        def start(library: str = "confluent", **options: Any) -> Member:
            return stack.enter_context(Member(library, broker.address, **options))

        yield start


def send(
    address: str, topic: str, count: int, *, partitions: int = PARTITIONS, first: int = 0
) -> list[str]:
    """Records with numbers, to the partitions in turn; what they say."""
    producer = Producer({"bootstrap.servers": address, "linger.ms": 5})
    values = [f"{topic} {number}" for number in range(first, first + count)]
    for number, value in enumerate(values):
        producer.produce(topic, value.encode(), partition=number % partitions)
    assert producer.flush(30) == 0
    return values


def is_all_committed(broker: BrokerProcess, group: str, total: int) -> Callable[[], bool]:
    return lambda: sum(committed(broker.address, group).values()) == total


def wait_until(
    condition: Callable[[], Any], *, or_else: Callable[[], object] = lambda: "it did not come about"
) -> None:
    """Where several members are looked at."""
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, or_else()
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


def check_none_skipped(members: Sequence[Member], sent: Iterable[str]) -> None:
    """A broker may know of a commit before we have heard of the records: that is waited for."""

    def missing() -> set[str]:
        return set(sent) - {value for member in members for _, _, value in member.records}

    wait_until(lambda: not missing(), or_else=missing)
