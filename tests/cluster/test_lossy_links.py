"""R14: what TCP makes of links that lose, repeat, delay and reorder packets, brokers survive."""

import pytest

from tests.support.cluster_load import Load, check
from tests.support.crash_rounds import seeds, told
from tests.support.namespaced_cluster import NEEDS_NAMESPACES, cluster_in_namespaces

pytestmark = [pytest.mark.soak, NEEDS_NAMESPACES]

TOPIC = "r14-lossy"
LOSS, REPETITION, DELAY_S = 0.05, 0.02, 0.1
#: Written and read during the fault.
PROGRESS = 1_000
#: Twenty times what a follower may take on a sound network.
SLOW = ("replica.lag.time.max.ms=10000", "zookeeper.session.timeout.ms=6000")


@pytest.fixture
def cluster(tmp_path):
    with cluster_in_namespaces(tmp_path, *SLOW) as running:
        yield running


@pytest.mark.parametrize("seed", seeds(1))
def test_r14_records_survive_links_that_lose_packets(cluster, seed):
    links = cluster.network
    links.random.seed(seed)
    cluster.create(TOPIC, 3)
    with told(f"seed {seed}"), Load(cluster, TOPIC, partitions=3) as load:
        load.wait_for_more()
        links.loss, links.repetition = LOSS, REPETITION
        links.delay(DELAY_S)
        load.wait_for_more(PROGRESS)
        leader = cluster.leader(TOPIC)
        leader.kill()
        load.wait_for_more(PROGRESS)
        leader.start()
        cluster.wait_until_whole(TOPIC)
        load.wait_for_more(PROGRESS)
        links.loss = links.repetition = 0.0
        links.hasten()
        assert links.lost > 0
    check(cluster, load)
