"""Transactional producers of client libraries, said in one way.

    with client.producer(address, "copier") as producer:      it has its id and epoch then
        producer.begin()
        producer.send("events", [b"value"])
        producer.send_offset("group", "events", 7)
        producer.commit()

What the library refuses is raised as Refused.

Owner: the test's thread; librdkafka and kafka-python have their own beneath.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, Protocol

import aiokafka
import confluent_kafka
from aiokafka.errors import KafkaError as AiokafkaError

from tests.support.client_driver import TIMEOUT_S, Refused
from tests.support.persistent_load import Silent, transactional_producer

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it reads its schemas in an old way
    import kafka
    from kafka.errors import KafkaError as KafkaPythonError
    from kafka.structs import OffsetAndMetadata

TRANSACTION_TIMEOUT_MS = 60_000


class TransactionalProducer(Protocol):
    def begin(self) -> None: ...

    def send(self, topic: str, values: Sequence[bytes], *, partition: int = ...) -> None:
        """Returns when they are acknowledged."""

    def send_offset(self, group: str, topic: str, offset: int) -> None:
        """Of partition 0; the group has no members."""

    def commit(self) -> None: ...

    def abort(self) -> None: ...


class TransactionalClient(Protocol):
    """One library."""

    name: str

    def producer(
        self, address: str, transactional_id: str, /, *, timeout_ms: int = ...
    ) -> AbstractContextManager[TransactionalProducer]: ...


class ConfluentTransactions:
    name = "confluent-kafka"

    @contextmanager
    def producer(
        self, address: str, transactional_id: str, *, timeout_ms: int = TRANSACTION_TIMEOUT_MS
    ) -> Iterator[_Confluent]:
        made = transactional_producer(address, transactional_id, timeout_ms=timeout_ms)
        with _refusals(confluent_kafka.KafkaException):
            made.init_transactions(TIMEOUT_S)
        yield _Confluent(made, address)


class _Confluent:
    def __init__(self, made: confluent_kafka.Producer, address: str) -> None:
        self._made = made
        self._address = address

    def begin(self) -> None:
        with _refusals(confluent_kafka.KafkaException):
            self._made.begin_transaction()

    def send(self, topic: str, values: Sequence[bytes], *, partition: int = 0) -> None:
        failures: list[Any] = []

        def note(error: Any, message: Any) -> None:
            if error is not None:
                failures.append(error)

        for value in values:
            self._made.produce(topic, value, partition=partition, on_delivery=note)
        self._made.flush(TIMEOUT_S)
        if failures:
            raise Refused(failures[0].name())

    def send_offset(self, group: str, topic: str, offset: int) -> None:
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": self._address, "group.id": group}, logger=Silent()
        )
        offsets = [confluent_kafka.TopicPartition(topic, 0, offset)]
        with _refusals(confluent_kafka.KafkaException):
            metadata = consumer.consumer_group_metadata()
            self._made.send_offsets_to_transaction(offsets, metadata, TIMEOUT_S)
        consumer.close()

    def commit(self, *, timeout_s: float = TIMEOUT_S) -> None:
        with _refusals(confluent_kafka.KafkaException):
            self._made.commit_transaction(timeout_s)

    def abort(self) -> None:
        with _refusals(confluent_kafka.KafkaException):
            self._made.abort_transaction(TIMEOUT_S)


class AiokafkaTransactions:
    name = "aiokafka"

    @contextmanager
    def producer(
        self, address: str, transactional_id: str, *, timeout_ms: int = TRANSACTION_TIMEOUT_MS
    ) -> Iterator[_Aiokafka]:
        async def begin() -> aiokafka.AIOKafkaProducer:
            made = aiokafka.AIOKafkaProducer(
                bootstrap_servers=address,
                transactional_id=transactional_id,
                transaction_timeout_ms=timeout_ms,
                retry_backoff_ms=20,
            )
            try:
                await made.start()
            except AiokafkaError:
                await made.stop()
                raise
            return made

        with asyncio.Runner() as runner:
            with _refusals(AiokafkaError):
                made = runner.run(begin())
            try:
                yield _Aiokafka(made, runner)
            finally:
                # One that is fenced says so once more.
                with suppress(AiokafkaError):
                    runner.run(made.stop())


class _Aiokafka:
    def __init__(self, made: aiokafka.AIOKafkaProducer, runner: asyncio.Runner) -> None:
        self._made = made
        self._runner = runner

    def begin(self) -> None:
        self._run(self._made.begin_transaction())

    def send(self, topic: str, values: Sequence[bytes], *, partition: int = 0) -> None:
        async def send() -> None:
            waiting = [await self._made.send(topic, each, partition=partition) for each in values]
            await asyncio.gather(*waiting)

        self._run(send())

    def send_offset(self, group: str, topic: str, offset: int) -> None:
        offsets = {aiokafka.TopicPartition(topic, 0): offset}
        self._run(self._made.send_offsets_to_transaction(offsets, group))

    def commit(self) -> None:
        self._run(self._made.commit_transaction())

    def abort(self) -> None:
        self._run(self._made.abort_transaction())

    def _run(self, doing: Any) -> None:
        async def done_in_time() -> None:
            async with asyncio.timeout(TIMEOUT_S):
                await doing

        with _refusals(AiokafkaError):
            self._runner.run(done_in_time())


class KafkaPythonTransactions:
    name = "kafka-python"

    @contextmanager
    def producer(
        self, address: str, transactional_id: str, *, timeout_ms: int = TRANSACTION_TIMEOUT_MS
    ) -> Iterator[_KafkaPython]:
        made = kafka.KafkaProducer(
            bootstrap_servers=address,
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            max_block_ms=TIMEOUT_S * 1000,
            retry_backoff_ms=20,
        )
        try:
            with _refusals(KafkaPythonError):
                made.init_transactions()
            yield _KafkaPython(made)
        finally:
            made.close(timeout=0)


class _KafkaPython:
    def __init__(self, made: kafka.KafkaProducer) -> None:
        self._made = made

    def begin(self) -> None:
        with _refusals(KafkaPythonError):
            self._made.begin_transaction()

    def send(self, topic: str, values: Sequence[bytes], *, partition: int = 0) -> None:
        with _refusals(KafkaPythonError):
            waiting = [self._made.send(topic, each, partition=partition) for each in values]
            for each in waiting:
                each.get(TIMEOUT_S)

    def send_offset(self, group: str, topic: str, offset: int) -> None:
        offsets = {kafka.TopicPartition(topic, 0): OffsetAndMetadata(offset, "", -1)}
        with _refusals(KafkaPythonError):
            self._made.send_offsets_to_transaction(offsets, group)

    def commit(self) -> None:
        with _refusals(KafkaPythonError):
            self._made.commit_transaction()

    def abort(self) -> None:
        with _refusals(KafkaPythonError):
            self._made.abort_transaction()


@contextmanager
def _refusals(kind: type[Exception]) -> Iterator[None]:
    try:
        yield
    except kind as error:
        told = error.args[0] if error.args else None
        name = told.name() if hasattr(told, "name") else type(error).__name__
        raise Refused(name) from error


CLIENTS: tuple[TransactionalClient, ...] = (
    ConfluentTransactions(),
    AiokafkaTransactions(),
    KafkaPythonTransactions(),
)
