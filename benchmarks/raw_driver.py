"""A load of raw requests: written once, sent again and again over sockets, many in flight.

The driver must not be what is measured: it encodes nothing while it runs, and looks at no more of
an answer than its size and one error code.  Every answer frees a place for the next request of its
connection.  Correlation ids are all the same, which no broker minds.
"""

from __future__ import annotations

import select
import socket
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import cycle
from math import ceil
from typing import Any

from odradek.protocol.api.fetch import FetchRequest
from odradek.protocol.api.metadata import MetadataRequest
from odradek.protocol.api.produce import ProduceRequest
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.codec import decode
from odradek.protocol.header import SIZE, request_frame, response_header_version
from odradek.protocol.records.batch import HEADER_BYTES
from odradek.protocol.records.builder import BatchBuilder
from odradek.protocol.registry import api
from odradek.protocol.schema import Message

#: Versions that Kafka 3 and 4 and this broker serve, with topics by name.
PRODUCE_VERSION, FETCH_VERSION, METADATA_VERSION = 9, 12, 9
CLIENT_ID = "raw"
NO_ERROR = b"\0\0"
CORRELATION_ID_BYTES = 4
KEY_BYTES = 12
RECORD_OVERHEAD_BYTES = 12
RECEIVE_BYTES = 1024 * 1024
CONNECT_TIMEOUT_S = 10.0
STALL_TIMEOUT_S = 10.0
SLICE_S = 0.1
REQUEST_TIMEOUT_MS = 10_000


class RequestFailed(Exception):
    """The broker answered with an error, or not at all."""


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch of equal records."""

    records: bytes
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RawLoad:
    """``frames`` are sent in turn, from ``in_flight`` places of each of so many connections."""

    address: str
    frames: tuple[bytes, ...]
    #: Where in an answer the error code stands.
    error_code_position: int
    connections: int = 1
    in_flight: int = 1
    seconds: float = 3.0
    #: Ends earlier, with so many answers.
    requests: int | None = None


@dataclass(frozen=True, slots=True)
class RawResult:
    requests: int
    received_bytes: int
    seconds: float
    latencies_ms: list[float]
    #: By the wall clock, which all processes share.
    started_at_s: float
    #: Answers in each slice of time since then.
    responses_by_slice: Mapping[int, int]

    def rate_between(self, start_s: float, end_s: float) -> float:
        """Answers a second, by the wall clock, in whole slices."""
        first = ceil((start_s - self.started_at_s) / SLICE_S)
        after = int((end_s - self.started_at_s) / SLICE_S)
        response_count = sum(self.responses_by_slice.get(each, 0) for each in range(first, after))
        return response_count / ((after - first) * SLICE_S)


def build_batch(record_bytes: int, *, batch_bytes: int, first_key: int | None = None) -> Batch:
    """As many records as surely fit, and at least one; keys, if any, count up from the first."""
    key_bytes = 0 if first_key is None else KEY_BYTES
    count = (batch_bytes - HEADER_BYTES) // (record_bytes + key_bytes + RECORD_OVERHEAD_BYTES)
    count = max(1, count)
    builder, timestamp, value = BatchBuilder(), int(time.time() * 1000), bytes(record_bytes)
    for number in range(count):
        key = None if first_key is None else b"%0*d" % (KEY_BYTES, first_key + number)
        builder.append(timestamp=timestamp, key=key, value=value)
    return Batch(bytes(builder.build()), count)


def produce_frame(topic: str, partition: int, batch: Batch, *, acks: int = 1) -> bytes:
    entry = ProduceRequest.Topic.Partition(index=partition, records=batch.records)
    request = ProduceRequest(
        acks=acks,
        timeout_ms=REQUEST_TIMEOUT_MS,
        topic_data=[ProduceRequest.Topic(name=topic, partition_data=[entry])],
    )
    return b"".join(request_frame(ApiKey.PRODUCE, PRODUCE_VERSION, 1, CLIENT_ID, request))


def produce_error_code_position(topic: str) -> int:
    """Behind size, correlation id, tags, one topic, its name, one partition and its number."""
    return 4 + 4 + 1 + 1 + 1 + len(topic) + 1 + 4


def fetch_frame(
    topic: str, partition: int, offset: int, *, max_bytes: int, max_wait_ms: int = 500
) -> bytes:
    fetch_partition = FetchRequest.Topic.Partition(
        partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes
    )
    request = FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=max_bytes,
        session_epoch=-1,
        topics=[FetchRequest.Topic(topic=topic, partitions=[fetch_partition])],
    )
    return b"".join(request_frame(ApiKey.FETCH, FETCH_VERSION, 1, CLIENT_ID, request))


def fetch_error_code_position(topic: str) -> int:
    """Behind size, correlation id, tags, throttling, error, session, then as in Produce."""
    return 4 + 4 + 1 + 4 + 2 + 4 + 1 + 1 + len(topic) + 1 + 4


def metadata_frame() -> bytes:
    request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
    return b"".join(request_frame(ApiKey.METADATA, METADATA_VERSION, 1, CLIENT_ID, request))


def connect(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    connection = socket.create_connection((host, int(port)), CONNECT_TIMEOUT_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def send_and_receive(address: str, key: ApiKey, version: int, request: Message) -> Any:
    """One answer."""
    with connect(address) as connection:
        connection.sendall(b"".join(request_frame(key, version, 1, CLIENT_ID, request)))
        return receive_response(connection, key, version)


def receive_response(connection: socket.socket, key: ApiKey, version: int) -> Any:
    """There may be no other on its way behind it."""
    with connection.makefile("rb") as stream:
        (size,) = SIZE.unpack(stream.read(SIZE.size))
        # Of tags, a flexible header has none: one byte says so.
        header_bytes = CORRELATION_ID_BYTES + response_header_version(key, version)
        return decode(api(key).response, version, stream.read(size), header_bytes)


def run_raw_load(load: RawLoad) -> RawResult:
    """Run the load in this process; raises Refused."""
    frames = cycle(load.frames)
    with ExitStack() as exit_stack, select.epoll() as events:
        connections = {}
        for _ in range(load.connections):
            connection = RawConnection(connect(load.address), frames, load.error_code_position)
            exit_stack.callback(connection.socket.close)
            connections[connection.socket.fileno()] = connection
            events.register(connection.socket.fileno(), select.EPOLLIN)
        started_at_s, started = time.time(), time.perf_counter()
        for connection in connections.values():
            connection.send(load.in_flight)
        slices = _exchange(load, events, connections, started)
        seconds = time.perf_counter() - started
    return RawResult(
        slices.total(),
        sum(connection.received_bytes for connection in connections.values()),
        seconds,
        [each * 1000 for connection in connections.values() for each in connection.latencies_s],
        started_at_s,
        slices,
    )


def _exchange(
    load: RawLoad, epoll: select.epoll, connections: dict[int, RawConnection], started: float
) -> Counter[int]:
    """How many were answered in each slice of time."""
    request_limit = float("inf") if load.requests is None else load.requests
    slices: Counter[int] = Counter()
    response_count, now, deadline = 0, started, started + load.seconds
    while response_count < request_limit and now < deadline:
        ready = epoll.poll(STALL_TIMEOUT_S)
        if not ready:
            raise RequestFailed(f"no response for {STALL_TIMEOUT_S} s")
        now = time.perf_counter()
        before = response_count
        for descriptor, _ in ready:
            connection = connections[descriptor]
            completed = connection.receive(now)
            if completed:
                response_count += completed
                connection.send(completed)
        slices[int((now - started) / SLICE_S)] += response_count - before
    return slices


class RawConnection:
    """One connection: what it has sent, and what has come of each answer."""

    __slots__ = (
        "_error_code_position",
        "_frames",
        "_missing_bytes",
        "_partial_response",
        "_sent_at",
        "latencies_s",
        "received_bytes",
        "socket",
    )

    def __init__(
        self, connection: socket.socket, frames: Iterator[bytes], error_code_position: int
    ) -> None:
        self.socket = connection
        self.received_bytes = 0
        self.latencies_s: list[float] = []
        self._frames = frames
        self._error_code_position = error_code_position
        self._sent_at: deque[float] = deque()
        self._partial_response = b""
        #: Of an answer whose error code was looked at.
        self._missing_bytes = 0

    def send(self, count: int) -> None:
        frames = self._frames
        self._sent_at.extend([time.perf_counter()] * count)
        self.socket.sendall(
            next(frames) if count == 1 else b"".join([next(frames) for _ in range(count)])
        )

    def receive(self, now: float) -> int:
        """How many answers are complete now."""
        chunk = self.socket.recv(RECEIVE_BYTES)
        if not chunk:
            raise RequestFailed("the connection was closed")
        self.received_bytes += len(chunk)
        if len(chunk) < self._missing_bytes:
            self._missing_bytes -= len(chunk)
            return 0
        response_count = 1 if self._missing_bytes else 0
        response_count += self._parse_responses(
            self._partial_response + chunk[self._missing_bytes :]
        )
        for _ in range(response_count):
            self.latencies_s.append(now - self._sent_at.popleft())
        return response_count

    def _parse_responses(self, received: bytes) -> int:
        position, response_count, error_position = 0, 0, self._error_code_position
        self._missing_bytes = 0
        while len(received) - position >= error_position + len(NO_ERROR):
            size = SIZE.unpack_from(received, position)[0] + SIZE.size
            code = received[position + error_position : position + error_position + len(NO_ERROR)]
            if size < error_position + len(NO_ERROR) or code != NO_ERROR:
                raise RequestFailed(
                    f"error code {int.from_bytes(code, signed=True)}, or a short response"
                )
            if position + size > len(received):
                self._missing_bytes = position + size - len(received)
                position = len(received)
                break
            position += size
            response_count += 1
        self._partial_response = received[position:]
        return response_count
