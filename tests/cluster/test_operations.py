"""What an operator does to a cluster: looks at it, moves partitions, elects leaders."""

import itertools
import json
import os
import signal
from contextlib import contextmanager

import pytest
from confluent_kafka.admin import NewTopic
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from odradek.protocol.api_keys import ApiKey
from tests.support.cluster import Cluster
from tests.support.command_line import CommandLine
from tests.support.group_members import wait_until
from tests.support.wire_client import call

#: Far beyond what a test takes, so that a broker that is paused is not missed.
SESSION = "zookeeper.session.timeout.ms=60000"
RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
REPLICAS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
AMISS = 3
numbers = itertools.count()


@pytest.fixture(scope="module")
def cluster(zookeeper, tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("cluster"), zookeeper, SESSION).running() as cluster:
        yield cluster


@pytest.fixture
def command(cluster, capsys, monkeypatch):
    return CommandLine(capsys, monkeypatch, cluster.addresses)


@pytest.fixture
def topic(cluster):
    """Makes one with these replicas, and its name."""
    made = []

    def create(*replicas):
        name = f"operated-{next(numbers)}"
        made.append(name)
        new = NewTopic(name, len(replicas), replica_assignment=[list(each) for each in replicas])
        cluster.admin.create(new)
        wait_until(lambda: all(each.leader_id >= 0 for each in partitions(cluster, name)))
        return name

    yield create
    for name in made:
        cluster.admin.delete(name)


def partitions(cluster, topic):
    (found,) = call(cluster.brokers[0].address, ApiKey.METADATA, 7, topics=[{"name": topic}]).topics
    return found.partitions


def controller(cluster):
    return call(cluster.brokers[0].address, ApiKey.METADATA, 7, topics=[]).controller_id


def configs(cluster, path, names):
    """What is set at a node of ZooKeeper: brokers tell no rates, as they do not in Kafka."""
    client = KazooClient(cluster.brokers[0].setting("zookeeper.connect"))
    client.start()
    try:
        found = json.loads(client.get(f"/config/{path}")[0])["config"]
    except NoNodeError:
        found = {}
    finally:
        client.stop()
        client.close()
    return [found[each] for each in names if each in found]


def plan_file(directory, topic, *replicas):
    path = directory / f"{topic}.json"
    entries = [
        {"topic": topic, "partition": number, "replicas": list(each)}
        for number, each in enumerate(replicas)
    ]
    path.write_text(json.dumps({"version": 1, "partitions": entries}))
    return path


def status_when_well(command, *options):
    """Until all is in sync there is something amiss."""
    ran = []

    def is_well():
        ran.append(command("cluster", "status", *options))
        return ran[-1].status == 0

    wait_until(is_well)
    return ran[-1].lines


@contextmanager
def paused(broker):
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(broker.pid, signal.SIGCONT)


def test_the_status_names_brokers_controller_and_leaders(cluster, command, topic):
    topic((0, 1, 2), (1, 2, 0), (2, 0, 1))
    found = json.loads(status_when_well(command, "--json")[0])
    assert [each["address"] for each in found["brokers"]] == [
        each.address for each in cluster.brokers
    ]
    assert [each["broker"] for each in found["brokers"] if each["controller"]] == [
        found["summary"]["controller"]
    ]
    assert found["summary"]["partitions"] == sum(each["leads"] for each in found["brokers"])
    assert found["summary"]["under_replicated"] == 0
    assert found["amiss"] == []


def test_the_status_is_lines_in_a_pipe(cluster, command):
    lines = status_when_well(command)
    assert lines[0] == "name\tvalue"
    assert "brokers\t3" in lines
    assert f"controller\t{controller(cluster)}" in lines
    assert any(line.startswith(f"2\t{cluster.brokers[2].address}\t-\t") for line in lines)


def test_a_plan_is_made_and_done_with_progress(command, cluster, topic, tmp_path):
    name = topic((0, 1), (0, 1), (0, 1))
    (proposal,) = command("reassign", "generate", name, "--brokers", "1,2").lines
    path = tmp_path / "plan.json"
    path.write_text(proposal)
    rollback = tmp_path / "rollback.json"
    lines = command(*("reassign", "execute", path, "--wait", "--rollback-file", rollback)).lines
    assert lines[0] == "Started the reassignment of 3 partition(s)"
    assert lines[-1].startswith("3 of 3 partitions moved, ")
    assert [set(each.replica_nodes) for each in partitions(cluster, name)] == [{1, 2}] * 3
    assert command("reassign", "execute", rollback, "--wait").status == 0
    assert [each.replica_nodes for each in partitions(cluster, name)] == [[0, 1]] * 3


def test_a_throttle_is_set_and_removed_by_verify(command, cluster, topic, tmp_path):
    name = topic((0,))
    plan = plan_file(tmp_path, name, (1,))
    lines = command("reassign", "execute", plan, "--throttle", 50_000_000).lines
    assert lines[0] == "Current assignment, for a rollback:"
    assert json.loads(lines[1])["partitions"][0]["replicas"] == [0]
    assert "Set the throttle of brokers 0, 1 to 50000000 bytes/s" in lines
    assert configs(cluster, f"topics/{name}", REPLICAS) == ["0:0", "0:1"]
    for broker in ("0", "1"):
        assert configs(cluster, f"brokers/{broker}", RATES) == ["50000000"] * 2
    assert configs(cluster, "brokers/2", RATES) == []
    wait_until(lambda: command("reassign", "verify", plan).status == 0)
    assert command("reassign", "verify", plan).rows == [[name, "0", "moved", "1"]]
    assert configs(cluster, f"topics/{name}", REPLICAS) == []
    for broker in ("0", "1"):
        assert configs(cluster, f"brokers/{broker}", RATES) == []


def test_a_throttle_is_removed_when_a_plan_is_done(command, cluster, topic, tmp_path):
    name = topic((0,))
    plan = plan_file(tmp_path, name, (1,))
    lines = command("reassign", "execute", plan, "--throttle", 50_000_000, "--wait").lines
    assert lines[-1] == f"Removed the throttles of all brokers and of topics {name}"
    assert configs(cluster, f"topics/{name}", REPLICAS) == []
    assert configs(cluster, "brokers/0", RATES) == []


def test_what_is_under_way_is_listed_and_cancelled(command, cluster, topic, tmp_path):
    # Neither the controller is to be paused, nor broker 0, which the test asks.
    source, target = [each for each in range(3) if each != controller(cluster)]
    name = topic((source,))
    plan = plan_file(tmp_path, name, (target,))
    with paused(cluster.brokers[target]):
        assert command("reassign", "execute", plan).status == 0
        assert command("reassign", "list").rows == [
            [name, "0", f"{target},{source}", f"{target}", f"{source}"]
        ]
        ran = command("reassign", "verify", plan)
        assert (ran.status, ran.out.splitlines()[1].split("\t")[2]) == (AMISS, "moving")
        other = plan_file(tmp_path, topic((source,)), (controller(cluster),))
        assert "give --additional" in command("reassign", "execute", other).complaint
        assert command("reassign", "execute", other, "--additional").status == 0
        wait_until(lambda: command("reassign", "verify", other, "--preserve-throttles").status == 0)
        assert command("reassign", "cancel", plan, "--preserve-throttles").lines == [
            "Cancelled the reassignment of 1 partition(s)"
        ]
        assert command("reassign", "list").rows == []
    assert command("reassign", "verify", plan).status == AMISS
    assert [each.replica_nodes for each in partitions(cluster, name)] == [[source]]


def test_what_makes_no_sense_is_told_in_one_line(command, topic, tmp_path):
    name = topic((0,))
    elsewhere = plan_file(tmp_path, name, (0,), (1,))
    assert f"{name}:1: there is no such partition" in (
        command("reassign", "execute", elsewhere).complaint
    )
    unknown = plan_file(tmp_path, name, (77,))
    ran = command("reassign", "execute", unknown)
    assert ran.status == 1
    assert f"{name}:0: INVALID_REPLICA_ASSIGNMENT: " in ran.err
    assert "brokers that are not alive: [77]" in ran.err
    assert "no topics" in command("reassign", "generate").complaint
    assert "UNKNOWN_TOPIC" in command("reassign", "generate", "nowhere").complaint
    assert "give exactly one of: partitions, --all, --file" in command("leaders", "elect").complaint
    ran = command("leaders", "elect", "nowhere:0")
    assert (ran.status, "UNKNOWN_TOPIC" in ran.err) == (1, True)


def test_preferred_leaders_are_elected(command, cluster, topic, tmp_path):
    name = topic((1, 2, 0), (2, 1, 0))
    cluster.brokers[1].restart()

    def is_settled():
        """Whom the command asks first knows who leads, and who the controller is."""
        found = partitions(cluster, name)
        is_whole = all(len(each.isr_nodes) == 3 for each in found)
        controllers = {cluster.controller(by=each) for each in cluster.brokers}
        return is_whole and found[0].leader_id != 1 and len(controllers) == 1

    wait_until(is_settled)
    path = tmp_path / "partitions.json"
    entries = [{"topic": name, "partition": number} for number in range(2)]
    path.write_text(json.dumps({"partitions": entries}))
    assert command("leaders", "elect", "--file", path).rows == [
        [name, "0", "elected", "1"],
        [name, "1", "not needed", "2"],
    ]
    assert command("leaders", "elect", f"{name}:1").rows == [[name, "1", "not needed", "2"]]
    assert command("leaders", "elect", "--all").status == 0


def test_a_partition_without_a_leader_is_amiss_until_an_unclean_election(command, cluster, topic):
    name = topic((1, 2))
    first, second = cluster.brokers[1], cluster.brokers[2]
    second.stop()
    wait_until(lambda: partitions(cluster, name)[0].isr_nodes == [1])
    first.stop()
    second.start()
    try:
        wait_until(lambda: partitions(cluster, name)[0].leader_id < 0)
        ran = command("cluster", "status")
        assert ran.status == AMISS
        assert f"{name}\t0\toffline,under-replicated" in ran.out
        assert "1\t-\t-\tno\t" in ran.out, "a broker that is gone"
        wait_until(
            lambda: (
                command("leaders", "elect", name, "--type", "unclean").out.splitlines()[1:]
                == [f"{name}\t0\telected\t2"]
            )
        )
    finally:
        first.start()
    wait_until(lambda: command("cluster", "status").status == 0)
