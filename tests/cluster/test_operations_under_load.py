"""Brokers come, bounce and go for good under load: nothing that was acknowledged is lost."""

import json
import shutil
from itertools import pairwise

import pytest

from odradek.controller.leader_and_isr import NO_LEADER
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.types import TopicPartition
from tests.support.broker_process import BrokerProcess
from tests.support.cluster import REPLICAS, Cluster
from tests.support.cluster_faults import ALL_IN_SYNC, write
from tests.support.cluster_load import Load
from tests.support.command_line import CommandLine
from tests.support.group_members import wait_until

TOPIC, PARTITIONS = "events", 20
OFFSETS = "__consumer_offsets"
#: So that there is something to move.
PADDING = 1000


@pytest.fixture
def cluster(zookeeper, tmp_path):
    """A consumer asks for its group's coordinator, and so makes the topic that it lives in."""
    settings = f"offsets.topic.replication.factor={REPLICAS}"
    with Cluster(tmp_path, zookeeper, settings).running() as cluster:
        yield cluster


@pytest.fixture
def command(cluster, capsys, monkeypatch):
    return CommandLine(capsys, monkeypatch, cluster.addresses)


def another(cluster):
    """A broker of the same cluster, not started; it is watched and looked at as the others are."""
    known = cluster.brokers[0]
    settings = [
        text
        for option, text in pairwise(known.command())
        if option == "--override" and not text.startswith("broker.id=")
    ]
    directory = known.data_dir.with_name(f"{REPLICAS}")
    cluster.brokers.append(BrokerProcess(directory, *settings, f"broker.id={REPLICAS}"))
    return cluster.brokers[-1]


def check(cluster, load):
    """While all that have replicas are there."""
    load.check()
    cluster.wait_until_whole(TOPIC)
    for number in range(PARTITIONS):
        wait_until(lambda at=number: cluster.are_alike(TopicPartition(TOPIC, at)))


def logs_at(broker):
    """Of the topic; those that were deleted are renamed, and stay for a minute."""
    found = broker.data_dir.glob(f"{TOPIC}-*")
    return [each for each in found if not each.name.endswith("-delete")]


def plan_on(command, directory, *brokers, topics=(TOPIC,)):
    """The path of a plan that spreads topics over these brokers, and where each of TOPIC goes."""
    listed = ",".join(map(str, brokers))
    (plan,) = command("reassign", "generate", *topics, "--brokers", listed).lines
    path = directory / f"plan-{listed}.json"
    path.write_text(plan)
    moves = [each for each in json.loads(plan)["partitions"] if each["topic"] == TOPIC]
    return path, {each["partition"]: each["replicas"] for each in moves}


@pytest.mark.parametrize("rounds", [1, pytest.param(5, marks=pytest.mark.soak)])
def test_r8_partitions_move_to_a_new_broker_while_others_bounce(cluster, command, tmp_path, rounds):
    cluster.create(TOPIC, PARTITIONS)
    with (
        another(cluster).start() as added,
        Load(cluster, TOPIC, partitions=PARTITIONS, padding=PADDING) as load,
    ):
        cluster.leaks.include_another()
        load.wait_for_more(2000)
        for number in range(rounds):
            is_coming = number % 2 == 0
            path, wanted = plan_on(command, tmp_path, *((1, 2, 3) if is_coming else (0, 1, 2)))
            assert command("reassign", "execute", path).status == 0
            cluster.brokers[1].kill()
            load.wait_for_more()
            cluster.brokers[1].start()
            added.restart()
            cluster.brokers[2].restart()
            assert command("reassign", "verify", path, "--wait").status == 0
            wait_until(lambda wanted=wanted: cluster.replicas(TOPIC) == wanted)
            load.wait_for_more()
            wait_until(lambda: command("cluster", "status").status == 0)
            if is_coming:
                # One that was down meanwhile would keep them, as with Kafka: nobody could tell it.
                wait_until(lambda: not logs_at(cluster.brokers[0]))
        load.stop()
        check(cluster, load)
        cluster.leaks.check()


def test_brokers_that_are_lost_for_good_are_replaced(cluster, command, tmp_path):
    cluster.create(TOPIC, PARTITIONS)
    with Load(cluster, TOPIC, partitions=PARTITIONS) as load:
        load.wait_for_more()
        cluster.wait_until_whole(OFFSETS)
        cluster.brokers[2].kill()
        load.wait_for_more()
        with another(cluster).start():
            path, wanted = plan_on(command, tmp_path, 0, 1, 3, topics=(TOPIC, OFFSETS))
            assert command("reassign", "execute", path, "--wait").status == 0
            wait_until(lambda: cluster.replicas(TOPIC) == wanted)
            wait_until(lambda: command("cluster", "status").status == 0)
            load.wait_for_more()
            cluster.brokers[1].kill()
            shutil.rmtree(cluster.brokers[1].data_dir)
            load.wait_for_more()
            cluster.brokers[1].start()
            wait_until(lambda: command("cluster", "status").status == 0)
            load.wait_for_more()
            load.stop()
            check(cluster, load)


def test_a_broker_that_lost_what_only_it_was_in_sync_with_does_not_empty_the_others(
    cluster, command
):
    cluster.create(TOPIC, **{"min.insync.replicas": "1"})
    where = TopicPartition(TOPIC, 0)
    last = cluster.leader(TOPIC)
    for number in range(50):
        assert write(last, TOPIC, b"%d" % number, acks=ALL_IN_SYNC) is ErrorCode.NONE
    wait_until(lambda: cluster.are_alike(where))
    others = cluster.others(last)
    for each in others:
        each.stop()
    last.kill()
    shutil.rmtree(last.data_dir)
    for each in (*others, last):
        each.start()
    wait_until(lambda: f"Cannot lead partition {TOPIC}-0: its log is lost" in last.log_text)
    wait_until(lambda: cluster.partitions(TOPIC, by=others[0])[0].leader == NO_LEADER)
    assert command("leaders", "elect", "--type", "unclean", f"{TOPIC}:0").status == 0
    last.restart()
    cluster.wait_until_whole(TOPIC)
    wait_until(lambda: cluster.are_alike(where))
    assert all(b"%d" % number in cluster.logs(where)[0] for number in range(50))
