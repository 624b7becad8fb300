"""A client library of another language as a Driver, and its administrative client as an Admin.

Each method is one question to a program (foreign_program.py); tests/interop/go/questions.go lists
the questions and their fields.

Owner: the test's thread.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, Self

from tests.support.admin_driver import Cluster, Described
from tests.support.client_driver import FETCH_BYTES_MAX, USUAL, Options, Received, Sent
from tests.support.foreign_program import ForeignProgram


class ForeignDriver:
    def __init__(self, name: str, program: ForeignProgram) -> None:
        self.name = name
        self.program = program

    @contextmanager
    def producer(self, address: str, options: Options = USUAL) -> Iterator[_Producer]:
        with _opened(self.program, "producer", address=address, options=asdict(options)) as handle:
            yield _Producer(self.program, handle)

    @contextmanager
    def consumer(
        self, address: str, *, fetch_bytes_max: int = FETCH_BYTES_MAX
    ) -> Iterator[_Consumer]:
        asked = {"address": address, "fetch_bytes_max": fetch_bytes_max}
        with _opened(self.program, "consumer", **asked) as handle:
            yield _Consumer(self.program, handle)


class _Producer:
    def __init__(self, program: ForeignProgram, handle: int) -> None:
        self._program = program
        self._handle = handle

    def send(self, topic: str, records: Sequence[Sent]) -> Sequence[int]:
        written = [_sent_json(each) for each in records]
        offsets: list[int] = self._program.ask(
            "send", handle=self._handle, topic=topic, records=written
        )
        return offsets


class _Consumer:
    def __init__(self, program: ForeignProgram, handle: int) -> None:
        self._program = program
        self._handle = handle

    def read(self, topic: str, starts: Mapping[int, int], *, count: int) -> Sequence[Received]:
        found = self._program.ask(
            "read", handle=self._handle, topic=topic, starts=dict(starts), count=count
        )
        return [_received(each) for each in found]

    def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int | None:
        where = {"topic": topic, "partition": partition}
        offset: int | None = self._program.ask(
            "offset_at", handle=self._handle, timestamp_ms=timestamp_ms, **where
        )
        return offset


class ForeignAdmin:
    """``lacks`` names the methods that its library has nothing for."""

    def __init__(
        self, name: str, program: ForeignProgram, address: str, *, lacks: Collection[str] = ()
    ) -> None:
        self.name = name
        self.lacks = lacks
        self._program = program
        self._handle: int = program.ask("open_admin", address=address)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self._ask("close")

    def create(self, topic: str, *, partitions: int, configs: Mapping[str, str] = {}) -> None:
        self._ask("create", topic=topic, partitions=partitions, configs=dict(configs))

    def topics(self) -> Collection[str]:
        names: list[str] = self._ask("topics")
        return names

    def describe(self, topic: str) -> Mapping[int, Described]:
        return {
            int(partition): Described(
                told["leader"], tuple(told["replicas"]), tuple(told["in_sync"])
            )
            for partition, told in self._ask("describe", topic=topic).items()
        }

    def delete(self, topic: str) -> None:
        self._ask("delete", topic=topic)

    def grow(self, topic: str, *, partitions: int) -> None:
        self._ask("grow", topic=topic, partitions=partitions)

    def configs(self, topic: str) -> Mapping[str, str]:
        values: dict[str, str] = self._ask("configs", topic=topic)
        return values

    def broker_configs(self, broker_id: int) -> Mapping[str, str]:
        values: dict[str, str] = self._ask("broker_configs", broker_id=broker_id)
        return values

    def alter(self, topic: str, configs: Mapping[str, str]) -> None:
        self._ask("alter", topic=topic, configs=dict(configs))

    def alter_some(self, topic: str, configs: Mapping[str, str]) -> None:
        self._ask("alter_some", topic=topic, configs=dict(configs))

    def delete_records(self, topic: str, *, before: int) -> int:
        first: int = self._ask("delete_records", topic=topic, before=before)
        return first

    def first_and_next_offset(self, topic: str) -> tuple[int, int]:
        first, following = self._ask("first_and_next_offset", topic=topic)
        return first, following

    def log_dirs(self, topic: str) -> Mapping[str, Mapping[int, int]]:
        return {
            path: {int(partition): size for partition, size in sizes.items()}
            for path, sizes in self._ask("log_dirs", topic=topic).items()
        }

    def elect(self, topic: str) -> str:
        return str(self._ask("elect", topic=topic))

    def cluster(self) -> Cluster:
        told = self._ask("cluster")
        brokers = {int(number): address for number, address in told["brokers"].items()}
        return Cluster(told["cluster_id"], told["controller"], brokers)

    def _ask(self, command: str, **fields: Any) -> Any:
        return self._program.ask(command, handle=self._handle, **fields)


@contextmanager
def _opened(program: ForeignProgram, kind: str, **fields: Any) -> Iterator[int]:
    handle: int = program.ask(f"open_{kind}", **fields)
    try:
        yield handle
    finally:
        program.ask("close", handle=handle)


def _sent_json(record: Sent) -> dict[str, Any]:
    return {
        "partition": record.partition,
        "key": _text(record.key),
        "value": _text(record.value),
        "headers": [{"name": name, "value": _text(value)} for name, value in record.headers],
        "timestamp_ms": record.timestamp_ms,
    }


def _received(fields: Mapping[str, Any]) -> Received:
    headers = [(each["name"], _bytes(each["value"])) for each in fields["headers"]]
    return Received(
        partition=fields["partition"],
        offset=fields["offset"],
        value=_bytes(fields["value"]),
        key=_bytes(fields["key"]),
        headers=tuple((name, value or b"") for name, value in headers),
        timestamp_ms=fields["timestamp_ms"],
    )


def _text(value: bytes | None) -> str | None:
    return None if value is None else b64encode(value).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)
