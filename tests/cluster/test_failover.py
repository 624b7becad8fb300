"""What is acknowledged by all replicas in sync outlives the leader."""

import signal

import pytest

from tests.support.cluster_load import TOPIC, Load, check
from tests.support.group_members import wait_until


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_r1_the_leader_ends(cluster, how):
    cluster.create(TOPIC)
    with Load(cluster, TOPIC) as load:
        load.wait_for_more()
        leader = cluster.leader(TOPIC)
        if how == signal.SIGKILL:
            leader.kill()
        else:
            leader.stop()
        load.wait_for_more()
        leader.start()
        wait_until(lambda: cluster.is_whole(TOPIC))
        load.wait_for_more()
    check(cluster, load)
