"""Consumers in groups, for tests of commands about groups: they read, commit, and leave.

    broker   one for each module and metadata store, where a group's first member need not wait
    topic    three partitions, with ten records in each of the first two

Owner: the test's thread; librdkafka has its own beneath, which keeps members alive.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.support.broker_process import BrokerProcess
from tests.support.broker_stores import NewStore
from tests.support.partition_client import create_topic

PARTITIONS, RECORDS = 3, 10
#: The timestamp of a record is its offset more than this.
FIRST_MS = 1_700_000_000_000
WAIT_S = 30

_numbers = itertools.count()


@pytest.fixture(scope="module")
def broker(
    tmp_path_factory: pytest.TempPathFactory, new_store: NewStore
) -> Iterator[BrokerProcess]:
    data_dir = tmp_path_factory.mktemp("broker") / "logs"
    settings = (*new_store(), "group.initial.rebalance.delay.ms=0")
    with BrokerProcess(data_dir, *settings).start() as running:
        yield running


@pytest.fixture
def topic(broker: BrokerProcess) -> str:
    name = f"read-{next(_numbers)}"
    create_topic(broker.address, name, partitions=PARTITIONS)
    producer = Producer({"bootstrap.servers": broker.address})
    for partition in (0, 1):
        for offset in range(RECORDS):
            value = f"{partition}:{offset}"
            producer.produce(name, value, partition=partition, timestamp=FIRST_MS + offset)
    assert producer.flush(WAIT_S) == 0
    return name


class Reader:
    """A member as soon as it is made; ``with`` lets it leave."""

    def __init__(self, address: str, group: str, topic: str, **options: Any) -> None:
        """Names of options have ``_`` for a dot."""
        #: What it has read first in each partition.
        self.firsts: dict[int, str] = {}
        self.consumer = Consumer(
            {
                "bootstrap.servers": address,
                "group.id": group,
                "client.id": "reader",
                "auto.offset.reset": "error",
                "enable.auto.commit": False,
                **{name.replace("_", "."): value for name, value in options.items()},
            }
        )
        self.consumer.subscribe([topic])

    @classmethod
    @contextmanager
    def joining(cls, *arguments: Any, **options: Any) -> Iterator[Reader]:
        """One that does not wait until it is given something."""
        reader = cls(*arguments, **options)
        reader.consumer.poll(0)
        try:
            yield reader
        finally:
            reader.consumer.close()

    def __enter__(self) -> Self:
        deadline = time.monotonic() + WAIT_S
        while not self.consumer.assignment():
            assert time.monotonic() < deadline, "nothing was assigned"
            self.poll()
        return self

    def poll(self) -> None:
        message = self.consumer.poll(0.05)
        if message is not None and message.error() is None:
            partition, value = message.partition(), message.value()
            assert partition is not None
            assert isinstance(value, bytes)
            self.firsts.setdefault(partition, value.decode())

    def __exit__(self, *failure: object) -> None:
        self.consumer.close()


def commit(address: str, group: str, offsets: dict[tuple[str, int], int]) -> None:
    """As a consumer without a membership does."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": group})
    wanted = [TopicPartition(*place, offset) for place, offset in offsets.items()]
    for each in consumer.commit(offsets=wanted, asynchronous=False) or []:
        assert each.error is None, each
    consumer.close()


def first_values(address: str, group: str, topic: str, *, partitions: int) -> set[str]:
    """What a member reads first in each of so many partitions that have something left."""
    deadline = time.monotonic() + WAIT_S
    with Reader(address, group, topic, auto_offset_reset="latest") as reader:
        while len(reader.firsts) < partitions:
            assert time.monotonic() < deadline, reader.firsts
            reader.poll()
    return set(reader.firsts.values())
