"""kafka-python as a driver, of today's versions and of those from 2020.

Owner: the test's thread; its producers have one more.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from tests.support.client_driver import (
    FETCH_BYTES_MAX,
    TIMEOUT_S,
    USUAL,
    Options,
    Received,
    Refused,
    Sent,
)

with warnings.catch_warnings():
    # It reads its schemas in a way that Python 3.11 calls old and 3.13 does not.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka
    from kafka.errors import KafkaError

try:
    from kafka.net.inet import KafkaNetSocket
except ImportError:  # those of old have no such module
    KafkaNetSocket = None

ACKS: Mapping[str, Any] = {"0": 0, "1": 1, "all": "all"}


def _close_what_cannot_connect() -> None:
    """Version 3 leaves such sockets to the garbage collector, and tests mind what is left."""
    connect = KafkaNetSocket.sock_connect

    async def sock_connect(self: Any, net: Any, sock: Any, *where: Any, **limits: Any) -> Any:
        with ExitStack() as undo:
            undo.callback(sock.close)
            connected = await connect(self, net, sock, *where, **limits)
            undo.pop_all()
        return connected

    KafkaNetSocket.sock_connect = sock_connect


if KafkaNetSocket is not None:
    _close_what_cannot_connect()


class KafkaPythonDriver:
    name = "kafka-python"

    @contextmanager
    def producer(self, address: str, options: Options = USUAL) -> Iterator[_Producer]:
        made = kafka.KafkaProducer(
            bootstrap_servers=address,
            acks=ACKS[options.acks],
            compression_type=None if options.codec == "none" else options.codec,
            max_request_size=options.request_bytes_max,
            linger_ms=options.linger_ms,
            reconnect_backoff_max_ms=200,
            **idempotence(options),
        )
        try:
            yield _Producer(made)
        finally:
            made.close(TIMEOUT_S)

    @contextmanager
    def consumer(
        self, address: str, *, fetch_bytes_max: int = FETCH_BYTES_MAX
    ) -> Iterator[_Consumer]:
        made = kafka.KafkaConsumer(
            bootstrap_servers=address,
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="none",
            reconnect_backoff_max_ms=200,
            max_partition_fetch_bytes=fetch_bytes_max,
        )
        try:
            yield _Consumer(made)
        finally:
            made.close()


def idempotence(options: Options) -> Mapping[str, Any]:
    """Those of old cannot, and do not know the name of it."""
    if "enable_idempotence" not in kafka.KafkaProducer.DEFAULT_CONFIG:
        assert not options.is_idempotent
        return {}
    return {"enable_idempotence": options.is_idempotent}


class _Producer:
    def __init__(self, made: Any) -> None:
        self._made = made

    def send(self, topic: str, records: Sequence[Sent]) -> Sequence[int]:
        try:
            waiting = [self._send(topic, record) for record in records]
            self._made.flush(TIMEOUT_S)
            return [each.get(TIMEOUT_S).offset for each in waiting]
        except KafkaError as error:
            raise Refused(type(error).__name__) from error

    def _send(self, topic: str, record: Sent) -> Any:
        return self._made.send(
            topic,
            value=record.value,
            key=record.key,
            headers=list(record.headers),
            partition=record.partition,
            timestamp_ms=record.timestamp_ms,
        )


class _Consumer:
    def __init__(self, made: Any) -> None:
        self._made = made

    def read(self, topic: str, starts: Mapping[int, int], *, count: int) -> Sequence[Received]:
        self._made.assign([kafka.TopicPartition(topic, partition) for partition in starts])
        for partition, offset in starts.items():
            self._made.seek(kafka.TopicPartition(topic, partition), offset)
        found: list[Received] = []
        deadline = time.monotonic() + TIMEOUT_S
        while len(found) < count and time.monotonic() < deadline:
            polled = self._made.poll(timeout_ms=1_000, max_records=count - len(found))
            found += [_received(record) for records in polled.values() for record in records]
        return found

    def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int | None:
        asked = kafka.TopicPartition(topic, partition)
        answer = self._made.offsets_for_times({asked: timestamp_ms})[asked]
        return None if answer is None else answer.offset


def _received(record: Any) -> Received:
    return Received(
        partition=record.partition,
        offset=record.offset,
        value=record.value,
        key=record.key,
        headers=tuple((name, value) for name, value in record.headers),
        timestamp_ms=record.timestamp,
    )
