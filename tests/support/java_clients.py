"""Kafka's own producers and consumers, kept open (see tests/interop/java/LiveClients.java).

    with JavaClients(jars, broker.address) as clients:
        with clients.producer({"acks": "1"}) as producer:
            producer.send("topic", [Sent(b"value")])
        with clients.consumer() as consumer:
            consumer.read("topic", {0: 0}, count=1)

Settings are by Kafka's names; those not given are what the client has by itself.
"""

from __future__ import annotations

import itertools
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

from tests.support.client_driver import Received, Sent
from tests.support.java_conversation import JavaConversation


class Landed(NamedTuple):
    """Where a record went; with acks=0 nobody says at which offset."""

    partition: int
    offset: int
    timestamp_ms: int


class Bounds(NamedTuple):
    """The first offset, and the next one."""

    first: int
    next: int


class Found(NamedTuple):
    """The first record that is not older than was asked."""

    offset: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class Intercepted:
    """How often an interceptor was called."""

    sent: int
    acknowledged: int
    failed: int


class JavaClients:
    def __init__(self, jars: Path, address: str) -> None:
        self._program = JavaConversation(jars, "LiveClients.java", address)
        self._numbers = itertools.count()

    @contextmanager
    def producer(self, configs: Mapping[str, object] = {}) -> Iterator[JavaProducer]:
        name = self._opened("producer", configs)
        yield JavaProducer(self._program, name)
        self._program.ask("close", name=name)

    @contextmanager
    def consumer(self, configs: Mapping[str, object] = {}) -> Iterator[JavaConsumer]:
        """Without a group."""
        name = self._opened("consumer", configs)
        yield JavaConsumer(self._program, name)
        self._program.ask("close", name=name)

    def _opened(self, kind: str, configs: Mapping[str, object]) -> str:
        name = f"{kind}-{next(self._numbers)}"
        self._program.ask(kind, name=name, configs={key: str(configs[key]) for key in configs})
        return name

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self._program.__exit__(*failure)


class JavaProducer:
    def __init__(self, program: JavaConversation, name: str) -> None:
        self._program = program
        self._name = name

    def send(self, topic: str, records: Sequence[Sent]) -> list[Landed | str]:
        """In the order of the records; for one that failed, the class of the error."""
        return self._send(
            topic, [_written(each) | {"partition": each.partition} for each in records]
        )

    def send_anywhere(self, topic: str, records: Sequence[Sent]) -> list[Landed | str]:
        """The same, but the producer chooses the partitions."""
        return self._send(topic, [_written(each) for each in records])

    def intercepted(self) -> Intercepted:
        return Intercepted(**self._program.ask("intercepted", name=self._name))

    def _send(self, topic: str, records: Sequence[Mapping[str, Any]]) -> list[Landed | str]:
        answer = self._program.ask("send", name=self._name, topic=topic, records=records)
        return [each if isinstance(each, str) else Landed(*each) for each in answer["sent"]]


class JavaConsumer:
    def __init__(self, program: JavaConversation, name: str) -> None:
        self._program = program
        self._name = name

    def read(self, topic: str, starts: Mapping[int, int], *, count: int) -> list[Received]:
        """That many records from these offsets on, by partition; or fewer, if no more come."""
        answer = self._asked("read", topic, starts=starts, count=count)
        return [_received(fields) for fields in answer["records"]]

    def seek(self, topic: str, partitions: Sequence[int], *, to: str) -> dict[int, int]:
        """The position in each partition after seeking ``to`` its "beginning" or "end"."""
        return _by_partition(
            self._asked("positions", topic, partitions=partitions, seek=to)["positions"]
        )

    def bounds(self, topic: str, partitions: Sequence[int]) -> dict[int, Bounds]:
        found = self._asked("bounds", topic, partitions=partitions)["bounds"]
        return {partition: Bounds(*each) for partition, each in _by_partition(found).items()}

    def offsets_at(self, topic: str, times: Mapping[int, int]) -> dict[int, Found | None]:
        """By partition."""
        found = _by_partition(self._asked("times", topic, times=times)["found"])
        return {partition: each and Found(*each) for partition, each in found.items()}

    def _asked(self, command: str, topic: str, **fields: Any) -> Any:
        return self._program.ask(command, name=self._name, topic=topic, **fields)


def _written(record: Sent) -> dict[str, Any]:
    written: dict[str, Any] = {
        "value": _text(record.value),
        "key": _text(record.key),
        "headers": [[name, _text(value)] for name, value in record.headers],
    }
    if record.timestamp_ms is not None:
        written["timestamp"] = record.timestamp_ms
    return written


def _received(fields: Mapping[str, Any]) -> Received:
    return Received(
        partition=fields["partition"],
        offset=fields["offset"],
        value=_bytes(fields["value"]),
        key=_bytes(fields["key"]),
        headers=tuple((name, b64decode(value)) for name, value in fields["headers"]),
        timestamp_ms=fields["timestamp"],
    )


def _by_partition(fields: Mapping[str, Any]) -> dict[int, Any]:
    return {int(partition): value for partition, value in fields.items()}


def _text(value: bytes | None) -> str | None:
    return None if value is None else b64encode(value).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)
