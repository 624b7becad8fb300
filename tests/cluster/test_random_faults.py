"""Faults without end, drawn by a seed: nothing acknowledged is lost, repeated or shown too early.

    one after the other   SIGKILL, SIGTERM and SIGSTOP of the leader, of a follower and of the
                          controller, five times each, and cuts, each healed before the next
    all at once           whatever comes, whether the last one is over or not

ODRADEK_CRASH_SEED draws others, ODRADEK_CRASH_ROUNDS more of them; see docs/testing.md.
"""

import time
from random import Random

import pytest

from tests.support.cluster_faults import FAULTS, TARGETS, Fault
from tests.support.cluster_load import Load, check
from tests.support.crash_rounds import seeds, told

pytestmark = pytest.mark.soak

TOPIC, PARTITIONS = "events", 3
BOUNCES = 5
OVERLAPPING = 30
#: Whatever happens, it is over by then.
PATIENCE = {"message.timeout.ms": 300_000}
AWAY_S = 30


@pytest.mark.parametrize("seed", seeds(1))
def test_r1_every_fault_five_times(shared, seed):
    cluster, topic = shared, f"{TOPIC}-{seed}"
    cluster.create(topic, PARTITIONS)
    planned = [Fault(kind, target) for kind in FAULTS for target in TARGETS] * BOUNCES
    Random(seed).shuffle(planned)
    with Load(cluster, topic, partitions=PARTITIONS, **PATIENCE) as load:
        for number, fault in enumerate(planned):
            with told(f"fault {number} of seed {seed}: {fault}"):
                load.wait_for_more()
                heal = fault.make(cluster, topic)
                try:
                    fault.wait_while(load.wait_for_more)
                finally:
                    heal()
                cluster.wait_until_whole(topic)
    check(cluster, load)


@pytest.mark.parametrize("seed", seeds(3))
def test_r1_faults_that_overlap(shared, seed):
    check_faults_that_overlap(shared, f"{TOPIC}-overlap-{seed}", seed)


def test_r9_zookeeper_is_away_for_half_a_minute(shared):
    cluster, topic = shared, "r9-long"
    cluster.create(topic)
    with Load(cluster, topic) as load:
        load.wait_for_more()  # a producer gets its id by ZooKeeper
        cluster.zookeeper.kill()
        back_at = time.monotonic() + AWAY_S
        while time.monotonic() < back_at:
            load.wait_for_more()
        assert len(load.watch.leaders) == 1
        cluster.zookeeper.start()
        load.wait_for_more()
        cluster.create("r9-long-afterwards")
    check(cluster, load)


def check_faults_that_overlap(cluster, topic, seed):
    cluster.create(topic, PARTITIONS)
    random = Random(seed)
    with Load(cluster, topic, partitions=PARTITIONS, **PATIENCE) as load:
        for number in range(OVERLAPPING):
            fault = Fault(random.choice(FAULTS), random.choice(TARGETS))
            with told(f"fault {number} of seed {seed}: {fault}"):
                heal = fault.make(cluster, topic)
                time.sleep(random.uniform(0, 4))
                heal()
                time.sleep(random.uniform(0, 1))
        cluster.wait_until_whole(topic)
        load.wait_for_more()
    with told(f"seed {seed}"):
        check(cluster, load)
