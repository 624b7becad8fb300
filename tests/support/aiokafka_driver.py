"""aiokafka as a driver: each producer and consumer on a loop of its own, which runs when asked.

Owner: the test's thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import aiokafka
from aiokafka.errors import KafkaError

from tests.support.client_driver import (
    FETCH_BYTES_MAX,
    TIMEOUT_S,
    USUAL,
    Options,
    Received,
    Refused,
    Sent,
)

ACKS: Mapping[str, Any] = {"0": 0, "1": 1, "all": "all"}


class AiokafkaDriver:
    name = "aiokafka"

    @contextmanager
    def producer(self, address: str, options: Options = USUAL) -> Iterator[_Producer]:
        async def begin() -> aiokafka.AIOKafkaProducer:
            made = aiokafka.AIOKafkaProducer(
                bootstrap_servers=address,
                acks=ACKS[options.acks],
                compression_type=None if options.codec == "none" else options.codec,
                enable_idempotence=options.is_idempotent,
                max_request_size=options.request_bytes_max,
                linger_ms=options.linger_ms,
            )
            await made.start()
            return made

        with asyncio.Runner() as runner:
            made = runner.run(begin())
            try:
                yield _Producer(made, runner)
            finally:
                runner.run(made.stop())

    @contextmanager
    def consumer(
        self, address: str, *, fetch_bytes_max: int = FETCH_BYTES_MAX
    ) -> Iterator[_Consumer]:
        async def begin() -> aiokafka.AIOKafkaConsumer:
            made = aiokafka.AIOKafkaConsumer(
                bootstrap_servers=address,
                group_id=None,
                enable_auto_commit=False,
                auto_offset_reset="none",
                max_partition_fetch_bytes=fetch_bytes_max,
            )
            await made.start()
            return made

        with asyncio.Runner() as runner:
            made = runner.run(begin())
            try:
                yield _Consumer(made, runner)
            finally:
                runner.run(made.stop())


class _Producer:
    def __init__(self, made: aiokafka.AIOKafkaProducer, runner: asyncio.Runner) -> None:
        self._made = made
        self._runner = runner

    def send(self, topic: str, records: Sequence[Sent]) -> Sequence[int]:
        try:
            return self._runner.run(self._send(topic, records))
        except KafkaError as error:
            raise Refused(type(error).__name__) from error

    async def _send(self, topic: str, records: Sequence[Sent]) -> Sequence[int]:
        async with asyncio.timeout(TIMEOUT_S):
            waiting = [
                await self._made.send(
                    topic,
                    value=record.value,
                    key=record.key,
                    headers=list(record.headers),
                    partition=record.partition,
                    timestamp_ms=record.timestamp_ms,
                )
                for record in records
            ]
            told = await asyncio.gather(*waiting)
        # With acks=0 it tells none.
        return [-1 if each is None else each.offset for each in told]


class _Consumer:
    def __init__(self, made: aiokafka.AIOKafkaConsumer, runner: asyncio.Runner) -> None:
        self._made = made
        self._runner = runner

    def read(self, topic: str, starts: Mapping[int, int], *, count: int) -> Sequence[Received]:
        return self._runner.run(self._read(topic, starts, count))

    async def _read(self, topic: str, starts: Mapping[int, int], count: int) -> list[Received]:
        self._made.assign([aiokafka.TopicPartition(topic, partition) for partition in starts])
        for partition, offset in starts.items():
            self._made.seek(aiokafka.TopicPartition(topic, partition), offset)
        found: list[Received] = []
        deadline = asyncio.get_running_loop().time() + TIMEOUT_S
        while len(found) < count and asyncio.get_running_loop().time() < deadline:
            polled = await self._made.getmany(timeout_ms=1_000, max_records=count - len(found))
            found += [_received(record) for records in polled.values() for record in records]
        return found

    def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int | None:
        asked = aiokafka.TopicPartition(topic, partition)
        answers = self._runner.run(self._made.offsets_for_times({asked: timestamp_ms}))
        return None if answers[asked] is None else answers[asked].offset


def _received(record: Any) -> Received:
    return Received(
        partition=record.partition,
        offset=record.offset,
        value=record.value,
        key=record.key,
        headers=tuple((name, bytes(value)) for name, value in record.headers),
        timestamp_ms=record.timestamp,
    )
