"""Three brokers on a real ZooKeeper, and what is to be true of them when all trouble is over.

Owner: the thread that started them.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.client import KazooClient

from odradek.controller.store import paths
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.types import TopicPartition
from tests.support.broker_process import BrokerProcess
from tests.support.broker_stores import on_zookeeper
from tests.support.cluster_admin import ClusterAdmin
from tests.support.free_ports import free_port
from tests.support.group_members import wait_until
from tests.support.leaks import Leaks
from tests.support.links import Links
from tests.support.replica_files import batches_in, check_replicas, partitions_in
from tests.support.wire_client import call
from tests.support.zookeeper import ZooKeeperServer

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
        self._tree = f"{zookeeper.address}/{branch}"
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
        """As all know that are there."""
        for broker in filter(BrokerProcess.is_alive, self.brokers):
            wait_until(
                lambda by=broker: self.is_whole(topic, by=by),
                or_else=lambda by=broker: (by.address, self.partitions(topic, by=by)),
            )

    def replicas(self, topic: str) -> dict[int, list[int]]:
        """Of each partition, as the first broker knows them."""
        (found,) = self._metadata(None, topic).topics
        return {each.partition_index: each.replica_nodes for each in found.partitions}

    # What is on their disks

    def are_alike(self, partition: TopicPartition) -> bool:
        """The logs of all replicas, byte by byte."""
        logs, numbers = self.logs(partition), self.replicas(partition.topic)[partition.partition]
        return len({logs[each] for each in numbers}) == 1

    def logs(self, partition: TopicPartition) -> list[bytes]:
        """What the segments of each broker hold, one after the other; b"" if it has none."""
        name = f"{partition.topic}-{partition.partition}"
        found = [partitions_in(each.log_dirs).get(name) for each in self.brokers]
        return [batches_in(each) if each else b"" for each in found]

    def check_replicas(self) -> None:
        """When they have stopped: up to what all had, all have the same."""
        well = {number for number, each in enumerate(self.brokers) if each.has_stopped_well}
        assigned = {name: well.intersection(each) for name, each in self._assigned().items()}
        check_replicas([each.log_dirs for each in self.brokers], assigned)

    def _assigned(self) -> dict[str, list[int]]:
        """The replicas of each partition, as the tree has them."""
        tree = KazooClient(self._tree)
        tree.start()
        try:
            topics = {
                each: tree.get(paths.topic(each))[0] for each in tree.get_children(paths.TOPICS)
            }
        finally:
            tree.stop()
            tree.close()
        return {
            f"{topic}-{number}": replicas
            for topic, node in topics.items()
            for number, replicas in json.loads(node)["partitions"].items()
        }


def _new(topic: str, partitions: int, configs: dict[str, str]) -> NewTopic:
    configs = {"min.insync.replicas": str(MIN_IN_SYNC), **configs}
    return NewTopic(topic, partitions, REPLICAS, config=configs)
