"""Three brokers on one ZooKeeper, of which some are Apache Kafka's and some ours.

    with MixedCluster(tmp_path, address).running(KAFKA, ODRADEK, ODRADEK) as cluster:
        cluster.seats[1].kill()
        cluster.seats[1].start(KAFKA)

A seat is an id with its port and its data directory; brokers of either kind take turns on it.

Owner: the test's thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Self

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.internal.key_partition import partition_for
from odradek.storage.paths import LogFileType
from tests.support.apache_kafka import ApacheKafka, zookeeper_broker
from tests.support.broker_process import BrokerProcess
from tests.support.group_members import wait_until
from tests.support.wire_client import call

KAFKA, ODRADEK = "kafka", "odradek"
#: Of both kinds.
SETTINGS: Mapping[str, str] = {
    "inter.broker.protocol.version": "3.9",
    "zookeeper.session.timeout.ms": "5000",
    "replica.lag.time.max.ms": "5000",
    "replica.fetch.wait.max.ms": "100",
    "replica.fetch.backoff.ms": "100",
    "replica.high.watermark.checkpoint.interval.ms": "200",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "group.initial.rebalance.delay.ms": "0",
    "controlled.shutdown.retry.backoff.ms": "100",
    # Leaders move when they are told to.
    "auto.leader.rebalance.enable": "false",
}


class Seat:
    """``kind`` is of the broker that runs there now; None: none does."""

    def __init__(self, number: int, directory: Path, zookeeper: str) -> None:
        self.number = number
        self._kafka = zookeeper_broker(
            directory, zookeeper=zookeeper, broker_id=number, properties=SETTINGS
        )
        self.data_dir = self._kafka.data_directory
        self._odradek = BrokerProcess(
            self.data_dir,
            f"zookeeper.connect={zookeeper}",
            f"broker.id={number}",
            *(f"{name}={text}" for name, text in SETTINGS.items()),
            port=self._kafka.port,
        )
        self.address = self._odradek.address
        self.kind: str | None = None

    @property
    def _broker(self) -> ApacheKafka | BrokerProcess:
        assert self.kind is not None, f"broker {self.number} is not running"
        return self._kafka if self.kind == KAFKA else self._odradek

    def start(self, kind: str | None) -> None:
        assert self.kind is None, f"broker {self.number} is running"
        self.kind = kind
        self._broker.start()

    def stop(self) -> None:
        self._broker.stop()
        self.kind = None

    def kill(self) -> None:
        self._broker.kill()
        self.kind = None

    def log_dir(self, topic: str, partition: int) -> Path:
        return self.data_dir / f"{topic}-{partition}"

    def batches(self, topic: str, partition: int) -> bytes:
        """What the segments of its replica hold, one after the other."""
        segments = sorted(self.log_dir(topic, partition).glob(f"*{LogFileType.LOG.value}"))
        return b"".join(each.read_bytes() for each in segments)

    def check_log(self) -> None:
        """No broker of ours has met there what nobody has foreseen."""
        assert "Traceback" not in self._odradek.log_text, self._odradek.log_text


class MixedCluster:
    """Seats 0 to 2."""

    def __init__(self, directory: Path, zookeeper: str) -> None:
        self.seats = [Seat(number, directory, zookeeper) for number in range(3)]
        self.addresses = ",".join(each.address for each in self.seats)

    @contextmanager
    def running(self, *kinds: str) -> Iterator[Self]:
        """Started one after the other: the first is the controller."""
        try:
            for seat, kind in zip(self.seats, kinds, strict=True):
                seat.start(kind)
            yield self
        finally:
            for seat in self.seats:
                if seat.kind is not None:
                    seat.kill()
        for seat in self.seats:
            seat.check_log()

    @property
    def _present(self) -> list[Seat]:
        return [each for each in self.seats if each.kind is not None]

    def controller(self) -> Seat:
        """As all that are there know it."""
        found: set[int] = set()

        def agree() -> bool:
            found.clear()
            found.update(self._metadata(each).controller_id for each in self._present)
            return len(found) == 1 and self.seats[min(found)].kind is not None

        wait_until(agree, or_else=lambda: found)
        return self.seats[found.pop()]

    def let_control(self, seat: Seat) -> None:
        """Whoever is left is the controller."""
        if self.controller() is not seat:
            others = [(each, each.kind) for each in self.seats if each is not seat]
            for each, _ in others:
                each.stop()
            for each, kind in others:
                each.start(kind)

    def leaders(self, topic: str) -> dict[int, int]:
        return {number: leader for number, (leader, _) in self._states(topic)[0].items()}

    def wait_until_led_by(self, topic: str, leaders: Mapping[int, int]) -> None:
        """All replicas are in sync, too, and all brokers know it."""

        def is_so() -> bool:
            expected = {each: (leader, {0, 1, 2}) for each, leader in leaders.items()}
            return all(each == expected for each in self._states(topic))

        wait_until(is_so, or_else=lambda: self._states(topic))

    def wait_until_whole(self, topic: str) -> None:
        """Whoever leads, all replicas are in sync, and all brokers know it."""

        def is_so() -> bool:
            first, *others = self._states(topic)
            return (
                bool(first)
                and all(each == first for each in others)
                and all(len(isr) == len(self.seats) for _, isr in first.values())
            )

        wait_until(is_so, or_else=lambda: self._states(topic))

    def _states(self, topic: str) -> list[dict[int, tuple[int, set[int]]]]:
        """By partition, its leader and in-sync replicas, as each of those that are there has it."""
        return [
            {
                each.partition_index: (each.leader_id, set(each.isr_nodes))
                for each in self._metadata(seat, topic).topics[0].partitions
            }
            for seat in self._present
        ]

    @staticmethod
    def _metadata(seat: Seat, *topics: str) -> Any:
        asked = [{"name": topic} for topic in topics]
        return call(seat.address, ApiKey.METADATA, 7, topics=asked)

    def wait_until_equal(self, topic: str, partitions: int) -> None:
        """Byte by byte, on all replicas."""
        for partition in range(partitions):
            wait_until(lambda at=partition: len(self._logs(topic, at)) == 1)

    def _logs(self, topic: str, partition: int) -> set[bytes]:
        return {seat.batches(topic, partition) for seat in self.seats}

    def name_coordinated_by(self, seat: Seat, topic: str, prefix: str) -> str:
        """A group, or a transactional id, whose partition of the internal topic it leads."""
        led = self.leaders(topic)
        names = (f"{prefix}-{number}" for number in count())
        return next(each for each in names if led[partition_for(each, len(led))] == seat.number)
