"""Members of groups in processes of their own, and what may never happen to a group.

    with Member("confluent", broker.address, group="g", topics=["t"]) as member:
        member.wait_until(lambda: len(member.assignment) == 3)

A test module that imports ``members`` from here starts them by it, at its ``broker``.

Owner: the thread of the test.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any, Self

import pytest
from confluent_kafka import Producer

from odradek.controller.tied_process import tied
from tests.support.broker_process import BrokerProcess
from tests.support.group_wire import committed
from tests.support.member_consumer import MemberOptions

#: Of a topic that members share.
PARTITIONS = 6
#: Of a broker whose groups do not wait long for their first members.
SETTINGS = ("group.initial.rebalance.delay.ms=100", "offsets.topic.num.partitions=5")
WAIT_S = 60.0

Place = tuple[str, int]


class Member:
    """A consumer that commits whatever it has read."""

    def __init__(self, library: str, address: str, **options: Any) -> None:
        self.library = library
        self.options = MemberOptions(**options)
        self._address = address
        self._changed = threading.Condition()
        self.events: list[dict[str, Any]] = []
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> Self:
        arguments = [self.library, self._address, json.dumps(asdict(self.options))]
        program = [sys.executable, "-m", "tests.support.group_member_program"]
        self._process = subprocess.Popen(
            tied([*program, *arguments]), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        threading.Thread(target=self._read, daemon=True).start()
        return self

    def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._changed:
                self.events.append(json.loads(line))
                self._changed.notify_all()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *failure: object) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
        if self._process is not None:
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                assert pipe is not None
                pipe.close()

    # What it is told

    def order(self, *words: object) -> None:
        """One of those in group_member_program.py; one that is paused does it when it goes on."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join(map(str, words)) + "\n")
        self._process.stdin.flush()

    def close(self) -> None:
        """Leave, and wait until it has."""
        self.order("close")
        self.wait_until(lambda: self.happened("closed"))
        assert self._process is not None
        self._process.wait(WAIT_S)

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def pause(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    # What it has told

    def happened(self, event: str) -> list[dict[str, Any]]:
        return [each for each in self.events if each["event"] == event]

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

    def wait_until(self, condition: Callable[[], Any], *, timeout_s: float = WAIT_S) -> None:
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while not condition():
                left_s = deadline - time.monotonic()
                assert left_s > 0, f"{self.library}: {self.events[-20:]}"
                self._changed.wait(min(left_s, 0.5))


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
