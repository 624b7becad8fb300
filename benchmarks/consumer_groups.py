"""How fast are groups of the consumer protocol?  Heartbeats, rebalances, assignors.

    python benchmarks/consumer_groups.py [--members 200] [--partitions 400] [--kafka]

    heartbeats   that change nothing, a second: one member on one connection
    gathering    members join a group one by one, until all have told and been told what they have
    departure    every tenth member leaves, until the others have what those had
    assignors    milliseconds for a first target, and for the next when a member has joined

Members are without a client library, on CONNECTIONS connections, each with one request at a time.
With ``--kafka``, the same of Apache Kafka 4.1.1 in the same run, and the ratios; the best of ROUNDS
counts.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from odradek.broker.groups.consumer import assign_range, assign_uniform
from odradek.broker.groups.consumer.assignor import Assignor, Subscriber
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.types import Uuid
from tests.support.apache_kafka import kraft_broker
from tests.support.broker_process import BrokerProcess
from tests.support.kafka_jars import KafkaUnavailable
from tests.support.wire_client import WireClient

CONNECTIONS = 20
ROUNDS = 3
HEARTBEATS = 2_000
TIMEOUT_S = 60
HEARTBEAT = ApiKey.CONSUMER_GROUP_HEARTBEAT


class Member:
    """What it was told last."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.epoch = 0
        self.has: list[dict[str, Any]] = []

    def says(self, group: str, topic: str) -> dict[str, Any]:
        said: dict[str, Any] = {"group_id": group, "member_id": self.name}
        if self.epoch == 0:
            said |= {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": [topic]}
        return said | {"member_epoch": self.epoch, "topic_partitions": self.has}

    def hears(self, answer: Any) -> None:
        assert answer.error_code == 0, answer
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.has = [
                {"topic_id": each.topic_id, "partitions": each.partitions}
                for each in answer.assignment.topic_partitions
            ]

    @property
    def size(self) -> int:
        return sum(len(each["partitions"]) for each in self.has)


class Load:
    """All members of all groups, against one broker."""

    def __init__(self, address: str, *, members: int, partitions: int) -> None:
        self._clients = [WireClient(address, timeout_s=TIMEOUT_S) for _ in range(CONNECTIONS)]
        self._members = members
        self._partitions = partitions
        topic = {"name": "t", "num_partitions": partitions, "replication_factor": 1}
        self.call(ApiKey.CREATE_TOPICS, 7, topics=[topic], timeout_ms=TIMEOUT_S * 1000)
        self._wait_for_coordinator()

    def call(self, key: ApiKey, version: int, **values: Any) -> Any:
        return self._clients[0].call(key, version, **values)

    def _wait_for_coordinator(self) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        asked = {"key_type": 0, "coordinator_keys": ["g"]}
        while self.call(ApiKey.FIND_COORDINATOR, 4, **asked).coordinators[0].error_code:
            assert time.monotonic() < deadline
        first = Member("first")
        while True:
            answer = self.call(HEARTBEAT, 1, **first.says("warm", "t"))
            if not ErrorCode.of(answer.error_code).retriable:
                break

    def heartbeats(self, number: int) -> float:
        """A second."""
        member = Member("only")
        said = member.says(f"idle-{number}", "t")
        member.hears(self.call(HEARTBEAT, 1, **said))
        idle = {"group_id": said["group_id"], "member_id": "only", "member_epoch": member.epoch}
        begun = time.perf_counter()
        for _ in range(HEARTBEATS):
            self.call(HEARTBEAT, 1, **idle)
        return HEARTBEATS / (time.perf_counter() - begun)

    def gathering_and_departure(self, number: int) -> tuple[float, float]:
        """In milliseconds."""
        group = f"gathering-{number}"
        members = [Member(f"member-{each}") for each in range(self._members)]
        gathering = self._settled(group, members)
        leaving, staying = members[::10], [each for n, each in enumerate(members) if n % 10]
        begun = time.perf_counter()
        for member in leaving:
            says = {"group_id": group, "member_id": member.name, "member_epoch": -1}
            self.call(HEARTBEAT, 1, **says)
        left = (time.perf_counter() - begun) * 1000
        return gathering, left + self._settled(group, staying)

    def _settled(self, group: str, members: list[Member]) -> float:
        least, more = divmod(self._partitions, len(members))
        shares = sorted([least + 1] * more + [least] * (len(members) - more))
        begun = time.perf_counter()
        while True:
            for some in _in_parts(members, CONNECTIONS):
                self._beat(group, some)
            if sorted(each.size for each in members) == shares:
                return (time.perf_counter() - begun) * 1000

    def _beat(self, group: str, members: list[Member]) -> None:
        pairs = list(zip(self._clients, members, strict=False))
        for client, member in pairs:
            client.send(HEARTBEAT, 1, **member.says(group, "t"))
        for client, member in pairs:
            member.hears(client.answer(HEARTBEAT, 1))


def _in_parts(members: list[Member], size: int) -> Iterator[list[Member]]:
    return (members[start : start + size] for start in range(0, len(members), size))


def measured(load: Load) -> dict[str, float]:
    """The best of some rounds."""
    rates = [load.heartbeats(number) for number in range(ROUNDS)]
    times = [load.gathering_and_departure(number) for number in range(ROUNDS)]
    return {
        "heartbeats/s": max(rates),
        "gathering, ms": min(gathering for gathering, _ in times),
        "departure, ms": min(departure for _, departure in times),
    }


def show(ours: dict[str, float], kafka: dict[str, float] | None) -> None:
    for name, value in ours.items():
        line = f"{name:<16}{value:>12,.0f}"
        if kafka is not None:
            is_rate = name.endswith("/s")
            ratio = value / kafka[name] if is_rate else kafka[name] / value
            line += f"   Kafka {kafka[name]:>10,.0f}   {ratio:.2f} times as good"
        print(line)


def show_assignors() -> None:
    for members, partitions in ((200, 400), (1_000, 10_000)):
        topic = Uuid(bytes(16))
        first = {f"m{number}": Subscriber(frozenset({topic})) for number in range(members)}
        for name, assign in (("uniform", assign_uniform.assign), ("range", assign_range.assign)):
            first_ms, next_ms = _assigned(assign, first, {topic: partitions})
            print(
                f"{name:<10} {members:>6,} members {partitions:>7,} partitions: "
                f"{first_ms:6.2f} ms, with one more {next_ms:6.2f} ms"
            )


def _assigned(
    assign: Assignor, first: dict[str, Subscriber], counts: dict[Uuid, int]
) -> tuple[float, float]:
    target = assign(first, counts)
    again = {name: Subscriber(each.topics, target[name]) for name, each in first.items()}
    again["new"] = Subscriber(frozenset(counts))
    return (_best_ms(lambda: assign(first, counts)), _best_ms(lambda: assign(again, counts)))


def _best_ms(work: Callable[[], object]) -> float:
    def once() -> float:
        begun = time.perf_counter()
        work()
        return (time.perf_counter() - begun) * 1000

    return min(once() for _ in range(ROUNDS))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--members", type=int, default=200)
    parser.add_argument("--partitions", type=int, default=400)
    parser.add_argument("--kafka", action="store_true")
    options = parser.parse_args()
    sizes = {"members": options.members, "partitions": options.partitions}
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        broker = stack.enter_context(BrokerProcess(Path(folder, "logs")).start())
        ours, kafka = measured(Load(broker.address, **sizes)), None
        if options.kafka:
            try:
                peer = stack.enter_context(kraft_broker(Path(folder, "kafka")))
            except KafkaUnavailable as reason:
                sys.exit(str(reason))
            kafka = measured(Load(peer.bootstrap, **sizes))
        show(ours, kafka)
    show_assignors()


if __name__ == "__main__":
    main()
