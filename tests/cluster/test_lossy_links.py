"""R14: what TCP makes of links that lose, repeat, delay and reorder packets, brokers survive."""

import os
import shutil

import pytest

from tests.support.cluster import REPLICAS, Cluster
from tests.support.cluster_load import Load, check
from tests.support.crash_rounds import seeds, told
from tests.support.free_ports import free_port
from tests.support.lossy_links import LossyLinks
from tests.support.zookeeper import (
    JAVA_OPTIONS,
    PROPERTIES,
    ZooKeeperServer,
    skip_without_zookeeper,
)

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(
        not (shutil.which("ip") and os.access("/dev/net/tun", os.W_OK) and os.geteuid() == 0),
        reason="network namespaces and TUN devices need root, ip and /dev/net/tun",
    ),
]

TOPIC = "r14-lossy"
LOSS, REPETITION, DELAY_S = 0.05, 0.02, 0.1
#: Written and read during the fault.
PROGRESS = 1_000
#: Twenty times what a follower may take on a sound network.
SLOW = ("replica.lag.time.max.ms=10000", "zookeeper.session.timeout.ms=6000")


@pytest.fixture
def links():
    with LossyLinks(brokers=REPLICAS) as made:
        yield made


@pytest.fixture
def cluster(links, tmp_path):
    skip_without_zookeeper()
    server = ZooKeeperServer(
        tmp_path / "zookeeper",
        host=links.hub,
        port=free_port(),
        properties=PROPERTIES,
        java_options=JAVA_OPTIONS,
    )
    server.start()
    try:
        with Cluster(
            tmp_path, server, *SLOW, network=links, kind=links.broker
        ).running() as running:
            yield running
    finally:
        server.kill()


@pytest.mark.parametrize("seed", seeds(1))
def test_r14_records_survive_links_that_lose_packets(links, cluster, seed):
    links._random.seed(seed)
    cluster.create(TOPIC, 3)
    with told(f"seed {seed}"), Load(cluster, TOPIC, partitions=3) as load:
        load.wait_for_more()
        links.loss, links.repetition, links.delay_s = LOSS, REPETITION, DELAY_S
        load.wait_for_more(PROGRESS)
        leader = cluster.leader(TOPIC)
        leader.kill()
        load.wait_for_more(PROGRESS)
        leader.start()
        cluster.wait_until_whole(TOPIC)
        load.wait_for_more(PROGRESS)
        links.loss = links.repetition = links.delay_s = 0.0
        assert links.lost > 0
    check(cluster, load)
