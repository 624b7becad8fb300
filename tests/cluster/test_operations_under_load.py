"""Brokers come, bounce and go for good under load: nothing that was acknowledged is lost."""

import json
import shutil
from itertools import pairwise

import pytest

from odradek.controller.leadership import NO_LEADER
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.types import TopicPartition
from tests.support.broker_process import BrokerProcess
from tests.support.cluster import REPLICAS
from tests.support.cluster_faults import ALL_IN_SYNC, write
from tests.support.command_line import CommandLine
from tests.support.group_members import wait_until
from tests.support.moving_load import MovingLoad
from tests.support.wire_client import call

TOPIC, PARTITIONS = "events", 20
#: So that there is something to move.
PADDING = 1000


@pytest.fixture
def command(cluster, capsys, monkeypatch):
    return CommandLine(capsys, monkeypatch, cluster.addresses)


def another(cluster):
    """A broker of the same cluster, not started."""
    known = cluster.brokers[0]
    settings = [
        text
        for option, text in pairwise(known.command())
        if option == "--override" and not text.startswith("broker.id=")
    ]
    directory = known.data_dir.with_name(f"{REPLICAS}")
    return BrokerProcess(directory, *settings, f"broker.id={REPLICAS}")


def replicas(cluster):
    """Of each partition, as the first broker has been told."""
    asked = cluster.brokers[0].address
    (found,) = call(asked, ApiKey.METADATA, 7, topics=[{"name": TOPIC}]).topics
    return {each.partition_index: each.replica_nodes for each in found.partitions}


def logs_at(broker):
    """Of the topic; those that were deleted are renamed, and stay for a minute."""
    found = broker.data_dir.glob(f"{TOPIC}-*")
    return [each for each in found if not each.name.endswith("-delete")]


def plan_on(command, directory, *brokers):
    """The path of a plan that spreads the topic over these brokers, and where each goes."""
    listed = ",".join(map(str, brokers))
    (plan,) = command("reassign", "generate", TOPIC, "--brokers", listed).lines
    path = directory / f"plan-{listed}.json"
    path.write_text(plan)
    return path, {each["partition"]: each["replicas"] for each in json.loads(plan)["partitions"]}


@pytest.mark.parametrize("rounds", [1, pytest.param(5, marks=pytest.mark.soak)])
def test_r8_partitions_move_to_a_new_broker_while_others_bounce(cluster, command, tmp_path, rounds):
    cluster.create(TOPIC, PARTITIONS)
    with (
        MovingLoad(cluster.addresses, TOPIC, partitions=PARTITIONS, padding=PADDING) as load,
        another(cluster).start() as added,
    ):
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
            wait_until(lambda wanted=wanted: replicas(cluster) == wanted)
            load.wait_for_more()
            wait_until(lambda: command("cluster", "status").status == 0)
            if is_coming:
                # One that was down meanwhile would keep them, as with Kafka: nobody could tell it.
                wait_until(lambda: not logs_at(cluster.brokers[0]))
        load.stop()
        load.check()


def test_brokers_that_are_lost_for_good_are_replaced(cluster, command, tmp_path):
    cluster.create(TOPIC, PARTITIONS)
    with MovingLoad(cluster.addresses, TOPIC, partitions=PARTITIONS) as load:
        load.wait_for_more()
        cluster.brokers[2].kill()
        load.wait_for_more()
        with another(cluster).start():
            path, wanted = plan_on(command, tmp_path, 0, 1, 3)
            assert command("reassign", "execute", path, "--wait").status == 0
            wait_until(lambda: replicas(cluster) == wanted)
            wait_until(lambda: command("cluster", "status").status == 0)
            load.wait_for_more()
            cluster.brokers[1].kill()
            shutil.rmtree(cluster.brokers[1].data_dir)
            load.wait_for_more()
            cluster.brokers[1].start()
            wait_until(lambda: command("cluster", "status").status == 0)
            load.wait_for_more()
            load.stop()
            load.check()


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
    wait_until(lambda: f"{TOPIC}-0 is not led: its log is lost" in last.log_text)
    wait_until(lambda: cluster.partitions(TOPIC, by=others[0])[0].leader == NO_LEADER)
    assert command("leaders", "elect", "--type", "unclean", f"{TOPIC}:0").status == 0
    last.restart()
    cluster.wait_until_whole(TOPIC)
    wait_until(lambda: cluster.are_alike(where))
    assert all(b"%d" % number in cluster.logs(where)[0] for number in range(50))
