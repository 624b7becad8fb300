"""A broker that a recipe of data_directory_recipes writes to, and what it sends.

Batches end where ``send`` ends.  They differ from one another in all that codecs and indexes care
about, and are the same every time but for their timestamps: these are near the time of recording,
since a broker forgets producers that it takes for idle.
"""

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from confluent_kafka import Producer
from confluent_kafka import TopicPartition as PartitionOffset
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from odradek.protocol.types import TopicPartition
from tests.support.apache_kafka import ApacheKafka
from tests.support.java_client import SentRecord
from tests.support.java_program import run_java
from tests.support.kafka_jars import kafka_jars

TIMEOUT_S = 30
POLL_INTERVAL_S = 0.1
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS

QUIET = {"log_level": 0}  # a broker that goes away is no news here
STAYS_OPEN = {"transaction.timeout.ms": 900_000}  # the most that brokers allow
END_OF_LOG = -1


class Scene:
    """Owner: the recording program.  Producers live as long as it, so that none tidies up."""

    def __init__(self, broker: ApacheKafka, *, zookeeper: str) -> None:
        self.broker = broker
        self._zookeeper = zookeeper
        self.topics: dict[str, dict[str, str]] = {}
        self._leader_epochs: dict[TopicPartition, int] = {}
        self.now_ms = int(time.time() * 1000)
        self._admin = AdminClient({"bootstrap.servers": broker.bootstrap, **QUIET})
        self._producers: list[Producer] = []

    def create(self, topic: str, configs: Mapping[str, str], *, partitions: int = 1) -> None:
        self.topics[topic] = dict(configs)
        for partition in range(partitions):
            self._leader_epochs[TopicPartition(topic, partition)] = 0
        new = NewTopic(topic, partitions, 1, config=self.topics[topic])
        self._admin.create_topics([new])[topic].result(TIMEOUT_S)

    def alter(self, topic: str, configs: Mapping[str, str]) -> None:
        """In force after the next ``restart``, at the latest."""
        self.topics[topic].update(configs)
        entries = [
            ConfigEntry(name, text, incremental_operation=AlterConfigOpType.SET)
            for name, text in configs.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        self._admin.incremental_alter_configs([resource])[resource].result(TIMEOUT_S)

    def producer(self, **settings: str) -> Producer:
        """Underscores in the names of settings stand for dots."""
        configs = {name.replace("_", "."): text for name, text in settings.items()}
        is_transactional = "transactional.id" in configs
        producer = Producer(
            {"bootstrap.servers": self.broker.bootstrap, "linger.ms": TIMEOUT_S * 1000}
            | QUIET
            | (STAYS_OPEN if is_transactional else {})
            | configs
        )
        if is_transactional:
            producer.init_transactions(TIMEOUT_S)
        self._producers.append(producer)
        return producer

    def delete_records(self, topic: str, *, before: int) -> None:
        asked = PartitionOffset(topic, 0, before)
        self._admin.delete_records([asked])[asked].result(TIMEOUT_S)

    def restart(self) -> None:
        """Cleanly: all that was written is flushed, and later batches are of another epoch."""
        self.broker.stop()
        self._raise_leader_epochs()
        self.broker.start()
        self.wait_until(self._is_led)

    def _is_led(self) -> bool:
        known = self._admin.list_topics(timeout=TIMEOUT_S).topics
        return all(
            topic in known and known[topic].partitions[partition].leader == self.broker.node_id
            for topic, partition in self._leader_epochs
        )

    def _raise_leader_epochs(self) -> None:
        """As if others had led meanwhile: a lone broker would go on with the epoch it had."""
        commands = []
        for (topic, partition), epoch in self._leader_epochs.items():
            self._leader_epochs[TopicPartition(topic, partition)] = epoch + 2
            state = json.dumps(
                {
                    "controller_epoch": 1,
                    "leader": self.broker.node_id,
                    "version": 1,
                    "leader_epoch": epoch + 2,
                    "isr": [self.broker.node_id],
                },
                separators=(",", ":"),
            )
            commands.append(f"set /brokers/topics/{topic}/partitions/{partition}/state {state}")
        run_java(
            kafka_jars(self.broker.version),
            "org.apache.zookeeper.ZooKeeperMain",
            *("-server", self._zookeeper),
            lines=[*commands, "quit"],
        )

    def wait_until(self, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while not is_so():
            assert time.monotonic() < deadline, self.broker.process.log_tail()
            time.sleep(POLL_INTERVAL_S)

    def base_offsets(self, topic: str) -> list[int]:
        """Of the segments that the broker has in use."""
        directory = self.broker.data_directory / f"{topic}-0"
        return sorted(int(path.stem) for path in directory.glob("*.log"))

    def batches(self, count: int, *, start: int = 0, since_ms: int = 0) -> Iterator["Batch"]:
        return batches(count, start=start, since_ms=since_ms or self.now_ms - HOUR_MS)


Batch = Sequence[SentRecord]


def send(producer: Producer, topic: str, batch: Batch, *, partition: int = 0) -> None:
    """As one batch, acknowledged when this returns."""
    failures = []
    for record in batch:
        producer.produce(
            topic,
            record.value,
            record.key,
            partition,
            timestamp=record.timestamp,
            headers=list(record.headers),
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )
    assert producer.flush(TIMEOUT_S) == 0
    assert not failures, failures


def batches(count: int, *, start: int, since_ms: int) -> Iterator[Batch]:
    """Timestamps lie 10 ms apart on average; every fifth record is older than the one before it."""
    for number in range(start, start + count):
        yield tuple(
            _record(number * 8 + slot, since_ms + number * 80 + slot * 10)
            for slot in range(1 + number % 4)
        )


def _record(number: int, timestamp: int) -> SentRecord:
    noise = hashlib.sha256(b"%d" % number).hexdigest().encode()
    return SentRecord(
        timestamp=timestamp - (35 if number % 5 == 3 else 0),
        key=None if number % 7 == 6 else b"k%d" % (number % 6),
        value=None if number % 11 == 10 else noise[: 4 + number % 40] + b"spool " * (number % 9),
        headers=(("n", noise[:4]), ("none", None)) if number % 4 == 1 else (),
    )
