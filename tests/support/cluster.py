"""Three brokers on a real ZooKeeper, and what is to be true of them when all trouble is over.

Owner: the thread that started them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from struct import Struct
from typing import Any, NamedTuple, Self

from confluent_kafka.admin import AdminClient, NewTopic

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.types import TopicPartition
from odradek.storage.paths import Content
from tests.support.broker_process import BrokerProcess
from tests.support.broker_stores import on_zookeeper
from tests.support.cluster_admin import ClusterAdmin
from tests.support.free_ports import free_port
from tests.support.group_members import wait_until
from tests.support.leaks import Leaks
from tests.support.links import Links
from tests.support.wire_client import call
from tests.support.zookeeper import ZooKeeperServer

#: Base offset of a batch, and the size of what follows.
BATCH_START = Struct(">qi")
#: A follower that lags is soon found out, and a broker that is gone as soon as ZooKeeper knows.
SETTINGS = (
    "replica.lag.time.max.ms=2000",
    "replica.fetch.wait.max.ms=100",
    "replica.fetch.backoff.ms=100",
    "replica.high.watermark.checkpoint.interval.ms=200",
    "zookeeper.session.timeout.ms=3000",
    "zookeeper.connection.timeout.ms=20000",  # where much else runs, a first one takes its time
    "offsets.topic.num.partitions=3",
    "transaction.state.log.num.partitions=3",
    "group.initial.rebalance.delay.ms=0",
    "controlled.shutdown.retry.backoff.ms=100",
)
REPLICAS, MIN_IN_SYNC = 3, 2


class Led(NamedTuple):
    """A partition."""

    leader: int
    in_sync: frozenset[int]
    epoch: int


class Cluster:
    """Brokers 0 to 2, each in a directory of its own."""

    def __init__(
        self,
        directory: Path,
        zookeeper: ZooKeeperServer,
        *overrides: str,
        network: Links | None = None,
        racks: Sequence[str] = (),
        kind: Callable[..., BrokerProcess] = BrokerProcess,
    ) -> None:
        """``network``: by which brokers reach each other, and ZooKeeper."""
        common = (*on_zookeeper(zookeeper), *SETTINGS, *overrides)
        branch = common[0].rpartition("/")[2]
        self.zookeeper, self.network = zookeeper, network
        self.brokers: list[BrokerProcess] = []
        for number in range(REPLICAS):
            port = free_port()
            own = [f"broker.id={number}"]
            own += [f"broker.rack={racks[number]}"] if racks else []
            own += network.settings_of(number, port=port, branch=branch) if network else []
            self.brokers.append(kind(directory / f"{number}", *common, *own, port=port))

    @property
    def addresses(self) -> str:
        return ",".join(each.address for each in self.brokers)

    @property
    def admin(self) -> ClusterAdmin:
        return ClusterAdmin(self.addresses)

    @contextlib.contextmanager
    def running(self) -> Iterator[Self]:
        with contextlib.ExitStack() as endings:
            for broker in self.brokers:
                broker.launch()
                endings.enter_context(broker)
            if self.network:
                endings.callback(self.network.mend)  # who is cut off takes long to stop
            for broker in self.brokers:
                broker.wait_until_ready()
            self.leaks = Leaks(self.brokers)
            yield self
            if all(each.is_alive() for each in self.brokers):
                self.leaks.check()
        assert not [each.log_text for each in self.brokers if "Traceback" in each.log_text]
        self.check_replicas()

    def create(self, topic: str, partitions: int = 1, **configs: str) -> None:
        self.admin.create(_new(topic, partitions, configs))
        self.wait_until_whole(topic)

    def create_on(self, topic: str, *brokers: BrokerProcess) -> None:
        """One partition, which the first leads."""
        placed = [self.brokers.index(each) for each in brokers]
        configs = {"min.insync.replicas": str(MIN_IN_SYNC)}
        self.admin.create(NewTopic(topic, 1, replica_assignment=[placed], config=configs))
        self.wait_until_whole(topic)
        assert self.leader(topic) is brokers[0]

    def start_to_create(self, topic: str) -> AdminClient:
        return self.admin.start_to_create(_new(topic, 1, {}))

    def partitions(self, topic: str, *, by: BrokerProcess | None = None) -> dict[int, Led]:
        """As a broker knows them; the first by default."""
        (found,) = self._metadata(by, topic).topics
        return {
            each.partition_index: Led(each.leader_id, frozenset(each.isr_nodes), each.leader_epoch)
            for each in found.partitions
        }

    def leader(
        self, topic: str, partition: int = 0, *, by: BrokerProcess | None = None
    ) -> BrokerProcess:
        return self.brokers[self.partitions(topic, by=by)[partition].leader]

    def controller(self, *, by: BrokerProcess | None = None) -> int:
        """-1 if there is none."""
        return int(self._metadata(by, None).controller_id)

    def _metadata(self, by: BrokerProcess | None, topic: str | None) -> Any:
        topics = [] if topic is None else [{"name": topic}]
        asked = (by or self.brokers[0]).address
        # What is only looked for is not to be created.
        return call(asked, ApiKey.METADATA, 7, topics=topics, allow_auto_topic_creation=False)

    def others(self, *brokers: BrokerProcess) -> list[BrokerProcess]:
        return [each for each in self.brokers if each not in brokers]

    def is_whole(self, topic: str, *, by: BrokerProcess | None = None) -> bool:
        """Every partition is led, and all of its replicas are in sync."""
        found = self.partitions(topic, by=by).values()
        return bool(found) and all(
            each.leader >= 0 and len(each.in_sync) == REPLICAS for each in found
        )

    def wait_until_whole(self, topic: str) -> None:
        """As all of them know."""
        for broker in self.brokers:
            wait_until(
                lambda by=broker: self.is_whole(topic, by=by),
                or_else=lambda by=broker: (by.address, self.partitions(topic, by=by)),
            )

    # What is on their disks

    def are_alike(self, partition: TopicPartition) -> bool:
        """The logs of all replicas, byte by byte."""
        return len(set(self.logs(partition))) == 1

    def logs(self, partition: TopicPartition) -> list[bytes]:
        """What the segments of each replica hold, one after the other."""
        name = f"{partition.topic}-{partition.partition}"
        return [_batches(each.data_dir / name) for each in self.brokers]

    def check_replicas(self) -> None:
        """When they have stopped: up to what all had, all have the same."""
        names = {
            each.parent.name for one in self.brokers for each in one.data_dir.glob("*-*/*.log")
        }
        for name in sorted(names):
            replicas = [each.data_dir / name for each in self.brokers]
            replicas = [each for each in replicas if each.exists()]
            start = max(_first_offset(each) for each in replicas)
            end = min(_high_watermark(each) for each in replicas)
            assert len({_batches(each, start, end) for each in replicas}) == 1, (name, start, end)


def _new(topic: str, partitions: int, configs: dict[str, str]) -> NewTopic:
    configs = {"min.insync.replicas": str(MIN_IN_SYNC), **configs}
    return NewTopic(topic, partitions, REPLICAS, config=configs)


def _batches(directory: Path, start: int = 0, end: int | None = None) -> bytes:
    """All of them, or those that begin between two offsets."""
    segments = sorted(directory.glob(f"*{Content.BATCHES.value}"))
    whole = b"".join(each.read_bytes() for each in segments)
    if end is None:
        return whole
    found, position = b"", 0
    while position < len(whole):
        base_offset, size = BATCH_START.unpack_from(whole, position)
        following = position + BATCH_START.size + size
        if start <= base_offset < end:
            found += whole[position:following]
        position = following
    return found


def _first_offset(partition: Path) -> int:
    """Retention is each replica's own."""
    return min(int(each.stem) for each in partition.glob(f"*{Content.BATCHES.value}"))


def _high_watermark(partition: Path) -> int:
    topic, _, number = partition.name.rpartition("-")
    checkpoint = partition.parent / "replication-offset-checkpoint"
    lines = checkpoint.read_text().splitlines() if checkpoint.exists() else []
    found = dict(line.rsplit(" ", 1) for line in lines[2:])
    return int(found.get(f"{topic} {number}", 0))
