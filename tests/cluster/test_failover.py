"""What is acknowledged by all replicas in sync outlives whoever ends.

SIGKILL of the leader, of a follower and of the controller, and SIGTERM of the leader.  Who is only
paused, past its session, is elsewhere: the leader in ``test_lives.py`` (R6), a follower in
``test_isr.py`` (R2), the controller in ``test_cuts.py`` (R5); SIGTERM of each broker is R11.
"""

from pathlib import Path

from confluent_kafka.admin import ResourceType

from tests.support.cluster import REPLICAS
from tests.support.cluster_faults import wait_for_another_leader
from tests.support.cluster_load import Load, check
from tests.support.group_members import wait_until

PARTITIONS = 12
#: Each broker fetches from each other one.
PAIRS = REPLICAS * (REPLICAS - 1)
#: Connections that come and go meanwhile for other reasons: fewer than one for each pair.
SOME = PAIRS // 2
ESTABLISHED = "01"


def test_r1_the_controller_a_follower_and_the_leader_are_killed_and_the_leader_stops(shared):
    cluster, topic = shared, "r1"
    wait_until(lambda: cluster.controller() >= 0)
    controller = cluster.brokers[cluster.controller()]
    leader, follower = cluster.others(controller)
    cluster.create_on(topic, leader, follower, controller)
    with Load(cluster, topic) as load:
        load.wait_for_more()
        controller.kill()
        wait_until(lambda: is_controlled_by_another(cluster, controller, by=leader))
        go_on_without(controller, cluster, load)
        follower.kill()
        go_on_without(follower, cluster, load)
        assert led_by(load, cluster) == [leader]
        leader.kill()
        second = wait_for_another_leader(cluster, topic, leader, by=follower)
        go_on_without(leader, cluster, load)
        second.stop()
        wait_for_another_leader(cluster, topic, second, by=leader)
        go_on_without(second, cluster, load)
    check(cluster, load)


def is_controlled_by_another(cluster, broker, *, by):
    return cluster.controller(by=by) not in (-1, cluster.brokers.index(broker))


def go_on_without(broker, cluster, load):
    load.wait_for_more()
    broker.start()
    cluster.wait_until_whole(load.topic)
    load.wait_for_more()


def led_by(load, cluster):
    numbers = {each for found in load.watch.leaders.values() for each in found}
    return [cluster.brokers[each] for each in numbers]


def test_followers_fetch_by_as_many_connections_as_they_are_told_to(shared):
    cluster, topic = shared, "fetchers"
    cluster.create(topic, PARTITIONS)
    cluster.admin.elect_preferred()
    wait_until(lambda: all(leads(cluster, topic, each) for each in range(REPLICAS)))
    with Load(cluster, topic, partitions=PARTITIONS) as load:
        load.wait_for_more()
        before = connections(cluster)
        for count in (2, 4, 2):
            fetch_by(cluster, count)
            wanted = before + (count - 1) * PAIRS
            wait_until(
                lambda about=wanted: abs(connections(cluster) - about) <= SOME,
                or_else=lambda about=wanted: (before, about, connections(cluster)),
            )
            load.wait_for_more(PARTITIONS)
        cluster.brokers[0].restart()
        cluster.wait_until_whole(topic)
        load.wait_for_more(PARTITIONS)
        fetch_by(cluster, 1)
        load.wait_for_more(PARTITIONS)
    check(cluster, load)


def leads(cluster, topic, number):
    """Each of four connections to it has something to fetch."""
    led = [each for each, found in cluster.partitions(topic).items() if found.leader == number]
    return len({each % 4 for each in led}) == 4


def fetch_by(cluster, count):
    """Not more than twice or half as many as before, says Kafka."""
    for number in range(REPLICAS):
        configs = {"num.replica.fetchers": str(count)}
        cluster.admin.configure(ResourceType.BROKER, str(number), configs)


def connections(cluster):
    """Between brokers; the system's table has them by port, in hexadecimal."""
    ports = {int(each.setting("listeners").rpartition(":")[2]) for each in cluster.brokers}
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(
        state == ESTABLISHED and int(local.rpartition(":")[2], 16) in ports
        for _, local, _, state, *_ in lines
    )
