"""Consumers of confluent-kafka with ``group.protocol=consumer``, polled by turns in one thread.

    with ConsumerFleet(address, group, topic) as fleet:
        fleet.add("a"), fleet.add("b")
        fleet.wait_until(lambda: fleet.sizes() == [2, 2])

The fleet knows what each member was given by its callbacks, which come when it is polled.  So for a
moment two may be shown to have a partition: librdkafka says that it has given up what it has not
called back about yet (seen with Kafka 4.1.1 too, in 7 of 91 gatherings of 25 members).  What counts
is what the coordinator says, at any moment, and what they have once they are settled.

Owner: the test's thread; librdkafka has its own beneath.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

TIMEOUT_S = 40
LEAVE_TIMEOUT_S = 5
TURN_S = 0.02

#: Sessions and heartbeats that do not make a test wait.
QUICK = (
    "group.consumer.min.session.timeout.ms=1000",
    "group.consumer.session.timeout.ms=3000",
    "group.consumer.min.heartbeat.interval.ms=100",
    "group.consumer.heartbeat.interval.ms=100",
    "offsets.topic.num.partitions=4",
)


def leave(consumer: Consumer, has_partitions: Callable[[], bool]) -> None:
    """Close it when nothing is left to be called back about.

    In the middle of a rebalance librdkafka (2.16) would call back while it closes, and wait for
    ever for an answer that it has stopped to give (seen: ``rd_kafka_assign0`` in its ``close``).
    """
    consumer.unsubscribe()
    deadline = time.monotonic() + LEAVE_TIMEOUT_S
    consumer.poll(TURN_S)
    while has_partitions() and time.monotonic() < deadline:
        consumer.poll(TURN_S)
    consumer.close()


class Silent:
    def log(self, *_: object, **__: object) -> None:
        """librdkafka tells of every connection that a broker's end has cut."""


class FleetMember:
    """One consumer, and what it has."""

    def __init__(self, name: str, consumer: Consumer) -> None:
        self.name = name
        self.consumer = consumer
        self.has: set[tuple[str, int]] = set()
        self.rebalances = 0
        self.values: list[bytes] = []


class ConsumerFleet:
    """All in one group."""

    def __init__(self, address: str, group: str, *topics: str, turn_s: float = TURN_S) -> None:
        self._address = address
        self._turn_s = turn_s
        self._group = group
        self._topics = list(topics)
        self.members: dict[str, FleetMember] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for name in list(self.members):
            self.close(name)

    def add(self, name: str, **options: Any) -> FleetMember:
        """Names of options have ``_`` for a dot."""
        config = {
            "bootstrap.servers": self._address,
            "group.id": self._group,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "reconnect.backoff.max.ms": 200,
            "client.id": name,
            **{key.replace("_", "."): value for key, value in options.items()},
        }
        member = FleetMember(name, Consumer(config, logger=Silent()))
        self.members[name] = member

        def assigned(_: Consumer, partitions: list[TopicPartition]) -> None:
            member.has |= {(each.topic, each.partition) for each in partitions}
            member.rebalances += 1

        def revoked(_: Consumer, partitions: list[TopicPartition]) -> None:
            member.has -= {(each.topic, each.partition) for each in partitions}
            member.rebalances += 1

        member.consumer.subscribe(
            self._topics, on_assign=assigned, on_revoke=revoked, on_lost=revoked
        )
        return member

    def close(self, name: str) -> None:
        """It gives up first what it has: see ``leave``."""
        member = self.members.pop(name)
        leave(member.consumer, lambda: bool(member.has))

    def turn(self) -> None:
        """Everybody polls once."""
        for member in self.members.values():
            message = member.consumer.poll(self._turn_s)
            if message is not None and message.error() is None:
                self._note(member, message)

    def _note(self, member: FleetMember, message: Message) -> None:
        value = message.value()
        if isinstance(value, bytes):
            member.values.append(value)

    def wait_until(self, is_so: Callable[[], bool], *, timeout_s: float = TIMEOUT_S) -> None:
        deadline = time.monotonic() + timeout_s
        while not is_so():
            if time.monotonic() > deadline:
                held = {each.name: sorted(each.has) for each in self.members.values()}
                raise AssertionError(f"still not so: {held}")
            self.turn()

    def sizes(self) -> list[int]:
        """None at all while two are shown to have the same."""
        held = self.held()
        is_clear = len(held) == len({*held})
        return sorted(len(each.has) for each in self.members.values()) if is_clear else []

    def held(self) -> list[tuple[str, int]]:
        return sorted(place for each in self.members.values() for place in each.has)

    def read(self) -> set[bytes]:
        """By anybody who is still there."""
        return {value for each in self.members.values() for value in each.values}

    def commit(self) -> None:
        """What everybody has read."""
        for member in self.members.values():
            if member.values:
                try:
                    member.consumer.commit(asynchronous=False)
                except KafkaException as refused:
                    if refused.args[0].name() != "_NO_OFFSET":
                        raise
