"""Three brokers for a test, or for all tests of a module, which leave them whole."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cluster import REPLICAS, Cluster
from tests.support.cluster_network import Network
from tests.support.jumping_clock import BrokerWithClock
from tests.support.zookeeper import ZooKeeperServer, server_in, skip_without_zookeeper

#: Groups and transactions outlive brokers, too.
ON_ALL = (
    "offsets.topic.replication.factor=3",
    "transaction.state.log.replication.factor=3",
    "transaction.state.log.min.isr=2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms=200",
    "group.min.session.timeout.ms=1000",
    "group.consumer.min.heartbeat.interval.ms=100",
    "group.consumer.heartbeat.interval.ms=100",
)


@pytest.fixture
def cluster(zookeeper: ZooKeeperServer, tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path, zookeeper).running() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Its network can be cut, its clocks can be set, and its ZooKeeper is nobody else's."""
    skip_without_zookeeper()
    directory = tmp_path_factory.mktemp("cluster")
    server = server_in(directory / "zookeeper")
    server.start()
    try:
        with Network(server.address, brokers=REPLICAS) as network:
            cluster = Cluster(directory, server, *ON_ALL, network=network, kind=BrokerWithClock)
            with cluster.running():
                yield cluster
    finally:
        if server.is_running():
            server.kill()
