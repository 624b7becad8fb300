"""Requests to a broker on this machine, written out byte by byte.

The harness must not lean on the code that it is there to test, and a client library would not send
record bytes as they are.  So this knows the few old message layouts it needs, and no others.
"""

import socket
import struct
import time
from typing import BinaryIO

LOOPBACK = "127.0.0.1"
ANSWER_TIMEOUT_S = 10
LEADER_TIMEOUT_S = 10

PRODUCE_KEY = 0
METADATA_KEY = 3
CORRELATION_ID = 1

UNKNOWN_TOPIC_OR_PARTITION = 3
LEADER_NOT_AVAILABLE = 5
NOT_LEADER = 6
TOPIC_IS_NEW = (UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE, NOT_LEADER)

ANY_PRODUCE_VERSION = range(9)  # later ones have another layout


class RequestRefused(Exception):
    """The broker answered with an error code."""

    def __init__(self, error_code: int) -> None:
        super().__init__(f"error code {error_code}")
        self.error_code = error_code


def brokers_in_metadata(port: int) -> set[int]:
    """The ids of all brokers that the one at this port tells its clients about."""
    answer = _exchange(port, METADATA_KEY, 0, struct.pack(">i", 0))
    (count,) = struct.unpack_from(">i", answer)
    found, position = set(), 4
    for _ in range(count):
        node_id, host_length = struct.unpack_from(">ih", answer, position)
        found.add(node_id)
        position += struct.calcsize(">ih") + host_length + struct.calcsize(">i")
    return found


def produce(port: int, topic: str, records: bytes, *, version: int = 7) -> int:
    """Send these bytes to partition 0, waiting for a leader if need be; the offset they got."""
    deadline = time.monotonic() + LEADER_TIMEOUT_S
    while True:
        try:
            return _produce_once(port, topic, records, version)
        except RequestRefused as refusal:
            if refusal.error_code not in TOPIC_IS_NEW or time.monotonic() > deadline:
                raise
        time.sleep(0.05)


def _produce_once(port: int, topic: str, records: bytes, version: int) -> int:
    assert version in ANY_PRODUCE_VERSION
    name = struct.pack(">h", len(topic)) + topic.encode()
    transactional_id = struct.pack(">h", -1) if version >= 3 else b""
    acks_and_timeout = struct.pack(">hi", 1, ANSWER_TIMEOUT_S * 1000)
    partition = struct.pack(">iii", 1, 0, len(records)) + records
    body = transactional_id + acks_and_timeout + struct.pack(">i", 1) + name + partition
    answer = _exchange(port, PRODUCE_KEY, version, body)
    position = struct.calcsize(">i") + len(name) + struct.calcsize(">ii")
    error_code, base_offset = struct.unpack_from(">hq", answer, position)
    if error_code != 0:
        raise RequestRefused(error_code)
    return int(base_offset)


def _exchange(port: int, key: int, version: int, body: bytes) -> bytes:
    """The answer's body; raises OSError where there is nobody to answer."""
    without_client_id = -1
    header = struct.pack(">hhih", key, version, CORRELATION_ID, without_client_id)
    with socket.create_connection((LOOPBACK, port), ANSWER_TIMEOUT_S) as connection:
        connection.sendall(struct.pack(">i", len(header) + len(body)) + header + body)
        with connection.makefile("rb") as answer:
            (size,) = struct.unpack(">i", _exactly(answer, 4))
            (correlation_id,) = struct.unpack(">i", _exactly(answer, 4))
            assert correlation_id == CORRELATION_ID
            return _exactly(answer, size - 4)


def _exactly(stream: BinaryIO, size: int) -> bytes:
    got = stream.read(size)
    if len(got) != size:
        raise ConnectionError("the broker closed the connection")
    return got
