"""Three brokers on a real ZooKeeper, and what is to be true of them when all trouble is over.

Owner: the thread that started them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self

from confluent_kafka.admin import AdminClient, NewTopic

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.types import TopicPartition
from odradek.storage.paths import Content
from tests.support.broker_process import BrokerProcess
from tests.support.broker_stores import on_zookeeper
from tests.support.group_members import wait_until
from tests.support.wire_client import call
from tests.support.zookeeper import ZooKeeperServer

#: A follower that lags is soon found out, and a broker that is gone as soon as ZooKeeper knows.
SETTINGS = (
    "replica.lag.time.max.ms=2000",
    "replica.fetch.wait.max.ms=100",
    "replica.fetch.backoff.ms=100",
    "replica.high.watermark.checkpoint.interval.ms=200",
    "zookeeper.session.timeout.ms=2000",
    "offsets.topic.num.partitions=3",
    "transaction.state.log.num.partitions=3",
    "group.initial.rebalance.delay.ms=0",
    "controlled.shutdown.retry.backoff.ms=100",
)
REPLICAS, MIN_IN_SYNC = 3, 2


class Cluster:
    """Brokers 0 to 2, each in a directory of its own."""

    def __init__(self, directory: Path, zookeeper: ZooKeeperServer, *overrides: str) -> None:
        common = (*on_zookeeper(zookeeper), *SETTINGS, *overrides)
        self.brokers = [
            BrokerProcess(directory / f"{number}", *common, f"broker.id={number}")
            for number in range(REPLICAS)
        ]

    @property
    def addresses(self) -> str:
        return ",".join(each.address for each in self.brokers)

    @contextlib.contextmanager
    def running(self) -> Iterator[Self]:
        with contextlib.ExitStack() as endings:
            for broker in self.brokers:
                endings.enter_context(broker.start())
            self.admin = AdminClient({"bootstrap.servers": self.addresses})
            yield self
        assert not [each.log_text for each in self.brokers if "Traceback" in each.log_text]

    def create(self, topic: str, partitions: int = 1, **configs: str) -> None:
        configs = {"min.insync.replicas": str(MIN_IN_SYNC), **configs}
        new = NewTopic(topic, partitions, REPLICAS, config=configs)
        for made in self.admin.create_topics([new]).values():
            made.result()
        wait_until(lambda: self.is_whole(topic))

    def partitions(
        self, topic: str, *, by: BrokerProcess | None = None
    ) -> dict[int, tuple[int, frozenset[int]]]:
        """Leader and in-sync replicas, as a broker knows them; the first by default."""
        asked = (by or self.brokers[0]).address
        (found,) = call(asked, ApiKey.METADATA, 7, topics=[{"name": topic}]).topics
        return {
            each.partition_index: (each.leader_id, frozenset(each.isr_nodes))
            for each in found.partitions
        }

    def leader(self, topic: str, partition: int = 0) -> BrokerProcess:
        return self.brokers[self.partitions(topic)[partition][0]]

    def is_whole(self, topic: str, *, by: BrokerProcess | None = None) -> bool:
        """Every partition is led, and all of its replicas are in sync."""
        found = self.partitions(topic, by=by).values()
        return bool(found) and all(
            leader >= 0 and len(in_sync) == REPLICAS for leader, in_sync in found
        )

    def logs(self, partition: TopicPartition) -> list[bytes]:
        """What the segments of each replica hold, one after the other."""
        name = f"{partition.topic}-{partition.partition}"
        return [_batches(each.data_dir / name) for each in self.brokers]


def _batches(directory: Path) -> bytes:
    segments: Sequence[Path] = sorted(directory.glob(f"*{Content.BATCHES.value}"))
    return b"".join(each.read_bytes() for each in segments)
