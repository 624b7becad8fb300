"""Three brokers, each in a network namespace of its own, and a ZooKeeper that is nobody else's.

    pytestmark = NEEDS_NAMESPACES
    with cluster_in_namespaces(directory) as cluster:
        cluster.network.loss = 0.05

Owner: the thread of the test.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.cluster import REPLICAS, Cluster
from tests.support.packet_network import PacketNetwork
from tests.support.tun_devices import may_be_made
from tests.support.zookeeper import server_in, skip_without_zookeeper

NEEDS_NAMESPACES = pytest.mark.skipif(
    not may_be_made(),
    reason="network namespaces and TUN devices need root, ip and /dev/net/tun",
)


@contextmanager
def cluster_in_namespaces(directory: Path, *overrides: str) -> Iterator[Cluster]:
    skip_without_zookeeper()
    with PacketNetwork(brokers=REPLICAS) as network:
        server = server_in(directory / "zookeeper", host=network.zookeeper)
        server.start()
        try:
            cluster = Cluster(directory, server, *overrides, network=network, kind=network.broker)
            with cluster.running():
                yield cluster
        finally:
            if server.is_running():
                server.kill()
