"""What every client library can do, said in one way.

A driver produces and consumes by one library.  Its producers and consumers are context managers;
they stay connected, so that a broker may be restarted under them.

    with driver.producer(address, Options(codec="zstd")) as producer:
        offsets = producer.send("topic", [Sent(b"value")])
    with driver.consumer(address) as consumer:
        records = consumer.read("topic", {0: BEGINNING}, count=1)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

BEGINNING = 0
FETCH_BYTES_MAX = 50 << 20
TIMEOUT_S = 30
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

Headers = tuple[tuple[str, bytes], ...]


class Refused(Exception):
    """The library's own error is its cause."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A record on its way."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    timestamp_ms: int | None = None
    partition: int = 0


@dataclass(frozen=True, slots=True)
class Received:
    """A record as it was read."""

    partition: int
    offset: int
    value: bytes | None
    key: bytes | None
    headers: Headers
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class Options:
    """Of a producer.  ``acks`` as in Kafka's settings."""

    acks: str = "all"
    codec: str = "none"
    is_idempotent: bool = False
    request_bytes_max: int = 1 << 20
    linger_ms: int = 5


USUAL = Options()


class Producer(Protocol):
    """One that may be used again and again."""

    def send(self, topic: str, records: Sequence[Sent]) -> Sequence[int]:
        """Their offsets, when all are acknowledged; with acks=0 any.  Raises Refused."""


class Consumer(Protocol):
    """One without a group."""

    def read(self, topic: str, starts: Mapping[int, int], *, count: int) -> Sequence[Received]:
        """That many records from these offsets on, by partition; or fewer, if no more come."""

    def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int | None:
        """The first whose timestamp is not earlier."""


class Driver(Protocol):
    """One library."""

    name: str

    def producer(
        self, address: str, options: Options = ..., /
    ) -> AbstractContextManager[Producer]: ...

    def consumer(
        self, address: str, /, *, fetch_bytes_max: int = ...
    ) -> AbstractContextManager[Consumer]:
        """``fetch_bytes_max`` is of a partition."""
