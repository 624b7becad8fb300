"""A member of a group by confluent-kafka: see group_member_program.py."""

from __future__ import annotations

from typing import Any, Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tests.support.member_consumer import MemberOptions, Offsets, Record, Tell, Told

ASSIGNORS = {"cooperative": "cooperative-sticky"}


class GroupOptions(Protocol):
    """What all consumers of a group have."""

    group: str
    session_ms: int
    assignor: str
    instance: str | None


def confluent_settings(address: str, options: GroupOptions) -> dict[str, Any]:
    settings = {
        "bootstrap.servers": address,
        "group.id": options.group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "session.timeout.ms": options.session_ms,
        "heartbeat.interval.ms": options.session_ms // 5,
        "partition.assignment.strategy": ASSIGNORS.get(options.assignor, options.assignor),
        "fetch.wait.max.ms": 100,
        "topic.metadata.refresh.interval.ms": 1000,
    }
    if options.instance:
        settings["group.instance.id"] = options.instance
    return settings


class ConfluentMember:
    def __init__(self, address: str, options: MemberOptions, tell: Tell) -> None:
        self._tell = tell
        self._polled_max = options.polled_max
        #: Who is told of a commit, by what was committed.
        self._waiting: dict[frozenset[tuple[str, int, int]], Told] = {}
        settings = confluent_settings(address, options)
        self._consumer = Consumer(settings | {"on_commit": self._committed})
        self.subscribe(options.topics)

    def subscribe(self, topics: list[str]) -> None:
        self._consumer.subscribe(
            topics,
            on_assign=self._noting("assigned"),
            on_revoke=self._noting("revoked"),
            on_lost=self._noting("revoked"),
        )

    def _noting(self, event: str) -> Any:
        return lambda _, partitions: self._tell(
            event, partitions=[[each.topic, each.partition] for each in partitions]
        )

    def poll(self) -> list[Record]:
        return [
            (each.topic(), each.partition(), each.offset(), each.value().decode())
            for each in self._consumer.consume(self._polled_max, timeout=0.1)
            if not each.error()
        ]

    def commit(self, offsets: Offsets, told: Told) -> None:
        try:
            self._consumer.commit(offsets=_places(offsets), asynchronous=False)
        except KafkaException as refusal:
            told(refusal.args[0].name())
        else:
            told(None)

    def commit_later(self, offsets: Offsets, told: Told) -> None:
        self._waiting[_key(_places(offsets))] = told
        self._consumer.commit(offsets=_places(offsets), asynchronous=True)

    def _committed(self, refusal: KafkaError | None, places: list[TopicPartition]) -> None:
        """Of those that were waited for it is told as well."""
        told = self._waiting.pop(_key(places), None)
        if told is not None:
            errors = [error for error in (refusal, *(each.error for each in places)) if error]
            told(errors[0].name() if errors else None)

    def close(self) -> None:
        self._consumer.close()


def _places(offsets: Offsets) -> list[TopicPartition]:
    return [TopicPartition(*place, offset) for place, offset in offsets.items()]


def _key(places: list[TopicPartition]) -> frozenset[tuple[str, int, int]]:
    return frozenset((each.topic, each.partition, each.offset) for each in places)
