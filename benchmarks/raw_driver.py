"""A load of raw requests: encoded once, then sent repeatedly over sockets, many in flight.

The driver must not become the bottleneck: it encodes nothing while it runs, and reads no more of a
response than its size and one error code.  Every response allows the connection to send one more
request.  All requests have the same correlation id, which every broker accepts.
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

#: Versions that Kafka 3, Kafka 4 and Odradek all support, and that name topics by name.
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
    """The broker returned an error, or no response."""


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch of equal records."""

    records: bytes
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RawLoad:
    """``frames`` are sent in rotation, with ``in_flight`` requests on each connection."""

    address: str
    frames: tuple[bytes, ...]
    #: The position of the error code in a response.
    error_code_position: int
    connections: int = 1
    in_flight: int = 1
    seconds: float = 3.0
    #: The load ends early after this many responses.
    requests: int | None = None


@dataclass(frozen=True, slots=True)
class RawResult:
    requests: int
    received_bytes: int
    seconds: float
    latencies_ms: list[float]
    #: Wall-clock time, which all processes share.
    started_at_s: float
    #: The number of responses in each interval of SLICE_S since then.
    responses_by_slice: Mapping[int, int]

    def rate_between(self, start_s: float, end_s: float) -> float:
        """Return the responses per second between two wall-clock times, in whole intervals."""
        first = ceil((start_s - self.started_at_s) / SLICE_S)
        after = int((end_s - self.started_at_s) / SLICE_S)
        response_count = sum(self.responses_by_slice.get(each, 0) for each in range(first, after))
        return response_count / ((after - first) * SLICE_S)


def build_batch(record_bytes: int, *, batch_bytes: int, first_key: int | None = None) -> Batch:
    """Build a batch with as many records as fit, at least one.

    Keys, if any, are numbers that count up from ``first_key``.
    """
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
    """The position after size, correlation id, tags, one topic, its name, one partition, its id."""
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
    """The position after size, correlation id, tags, throttle time, error, session and topic."""
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
    """Send one request on a new connection and return its response."""
    with connect(address) as connection:
        connection.sendall(b"".join(request_frame(key, version, 1, CLIENT_ID, request)))
        return receive_response(connection, key, version)


def receive_response(connection: socket.socket, key: ApiKey, version: int) -> Any:
    """Receive one response; the connection must have no other response pending."""
    with connection.makefile("rb") as stream:
        (size,) = SIZE.unpack(stream.read(SIZE.size))
        # A flexible header has one more byte: the count of its tagged fields, which is 0.
        header_bytes = CORRELATION_ID_BYTES + response_header_version(key, version)
        return decode(api(key).response, version, stream.read(size), header_bytes)


def run_raw_load(load: RawLoad) -> RawResult:
    """Run the load in this process.  Raises RequestFailed."""
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
    """Run the load, and return the number of responses in each interval."""
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
    """One connection with its requests in flight and the latencies of its responses."""

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
        #: Bytes not yet received of a response whose error code has been checked.
        self._missing_bytes = 0

    def send(self, count: int) -> None:
        frames = self._frames
        self._sent_at.extend([time.perf_counter()] * count)
        self.socket.sendall(
            next(frames) if count == 1 else b"".join([next(frames) for _ in range(count)])
        )

    def receive(self, now: float) -> int:
        """Read from the socket and return the number of responses that are now complete."""
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
