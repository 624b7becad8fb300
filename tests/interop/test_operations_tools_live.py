"""Kafka's tools for operators and ours, on three brokers of ours: one ends what the other began."""

import json

import pytest

from odradek.broker.cli.partitions import TopicAndPartition
from odradek.broker.cli.reassign import plans
from tests.cluster.test_operations import RATES, REPLICAS, configs, partitions, topic
from tests.support.cluster import Cluster
from tests.support.command_line import CommandLine
from tests.support.group_members import wait_until
from tests.support.java_conversation import JavaTools

__all__ = ["topic"]

REASSIGN, ELECT = "ReassignPartitionsCommand", "LeaderElectionCommand"


@pytest.fixture(scope="module")
def cluster(zookeeper, tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("cluster"), zookeeper).running() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def tools(kafka_39_jars):
    with JavaTools(kafka_39_jars) as running:
        yield running


@pytest.fixture
def run(tools, cluster):
    """Runs a tool, which must succeed; the lines that it wrote."""

    def ran(tool, *arguments):
        ended = tools.run(tool, "--bootstrap-server", cluster.addresses, *arguments)
        assert ended.status == 0, ended
        return ended.lines

    return ran


@pytest.fixture
def command(cluster, capsys, monkeypatch):
    return CommandLine(capsys, monkeypatch, cluster.addresses)


def written(path, content):
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_a_plan_of_one_tool_is_done_by_the_other(run, command, cluster, topic, tmp_path):
    name = topic((0,), (0,))
    topics = written(tmp_path / "topics.json", {"version": 1, "topics": [{"topic": name}]})
    lines = run(
        *(REASSIGN, "--generate", "--topics-to-move-json-file", topics),
        *("--broker-list", "1,2"),
    )
    now, proposal = [line for line in lines if line.startswith("{")]
    assert command("reassign", "generate", name, "--current").lines == [now]
    path = written(tmp_path / "plan.json", proposal)
    assert command("reassign", "generate", "--topics-file", topics, "--brokers", "1,2").status == 0
    assert command("reassign", "execute", path, "--wait").status == 0
    assert plans.format_plan(plans.read_plan(str(path)).replicas) == proposal
    back = written(tmp_path / "back.json", now)
    of_kafka = ("--reassignment-json-file", back, "--execute")
    assert any("Successfully started" in line for line in run(REASSIGN, *of_kafka))
    assert command("reassign", "verify", back, "--wait").status == 0
    assert [each.replica_nodes for each in partitions(cluster, name)] == [[0], [0]]


def test_a_throttle_of_one_tool_is_removed_by_the_other(run, command, cluster, topic, tmp_path):
    name = topic((0,))
    for number, tool in ((1, "kafka"), (2, "odradek")):
        plan = written(
            tmp_path / f"{number}.json", plans.format_plan({TopicAndPartition(name, 0): (number,)})
        )
        if tool == "kafka":
            run(REASSIGN, "--execute", "--reassignment-json-file", plan, "--throttle", 10**7)
            set_by_kafka = throttle(cluster, name)
            assert command("reassign", "verify", plan, "--wait").status == 0
        else:
            assert command("reassign", "execute", plan, "--throttle", 10**7).status == 0
            assert len(throttle(cluster, name)[0]) == len(set_by_kafka[0]) == 2
            wait_until(lambda plan=plan: is_complete(run, plan))
        assert throttle(cluster, name) == ([], [])


def throttle(cluster, name):
    rates = [rate for broker in range(3) for rate in configs(cluster, f"brokers/{broker}", RATES)]
    return configs(cluster, f"topics/{name}", REPLICAS), rates


def is_complete(run, plan):
    lines = run(REASSIGN, "--verify", "--reassignment-json-file", plan)
    return any("is completed." in line for line in lines)


def test_elections_are_asked_for_by_the_same_files(run, command, cluster, topic, tmp_path):
    name = topic((1, 2, 0))
    entries = {"partitions": [{"topic": name, "partition": 0}]}
    path = written(tmp_path / "partitions.json", entries)
    for elect in (
        lambda: run(ELECT, "--election-type", "preferred", "--path-to-json-file", path),
        lambda: command("leaders", "elect", "--file", path).lines,
    ):
        cluster.brokers[1].restart()
        wait_until(lambda: len(partitions(cluster, name)[0].isr_nodes) == 3)
        assert partitions(cluster, name)[0].leader_id != 1
        elect()
        wait_until(lambda: partitions(cluster, name)[0].leader_id == 1)
