"""``odradek cluster status`` shows what it could fetch, and a reason for each unknown value."""

import json
import re
from argparse import Namespace

import pytest

from odradek.broker.cli.broker_connections import RetriableError
from odradek.broker.cli.clusters import status
from odradek.protocol.api.describe_configs import DescribeConfigsRequest
from odradek.protocol.api.list_partition_reassignments import ListPartitionReassignmentsRequest
from odradek.protocol.api.metadata import MetadataRequest
from odradek.protocol.error_codes import ErrorCode
from tests.support.scripted_brokers import (
    ScriptedBrokers,
    Silent,
    metadata,
    moving,
    settings_of_topics,
)

HEALTHY, UNHEALTHY = 0, 3
SHORT_TIMEOUT_S = 0.5
PARTITIONS = {("orders", 0): (0, (0, 1), (0, 1)), ("orders", 1): (1, (1, 0), (1, 0))}


@pytest.fixture
def brokers():
    return ScriptedBrokers(
        {
            MetadataRequest: metadata([0, 1], PARTITIONS),
            DescribeConfigsRequest: settings_of_topics,
            ListPartitionReassignmentsRequest: moving(),
        }
    )


@pytest.fixture
def shown(brokers, capsys):
    async def show(*ports, timeout_s=SHORT_TIMEOUT_S):
        """Return the exit code and the printed JSON."""
        cluster = brokers.cluster(*(ports or [0]), timeout_s=timeout_s)
        exit_code = await status.show_status(Namespace(json=True), cluster)
        return exit_code, json.loads(capsys.readouterr().out)

    return show


async def test_healthy_cluster_has_no_unknown_values(shown):
    exit_code, printed = await shown(timeout_s=20)
    assert (exit_code, printed["unknown"], printed["amiss"]) == (HEALTHY, {}, [])
    assert printed["summary"]["under_min_isr"] == printed["summary"]["reassigning"] == 0


async def test_silent_controller_hides_only_the_reassignments(shown, brokers):
    brokers.answers[ListPartitionReassignmentsRequest] = Silent()
    exit_code, printed = await shown()
    assert exit_code == UNHEALTHY
    assert [broker["leads"] for broker in printed["brokers"]] == [1, 1]
    assert printed["summary"]["partitions"] == 2
    assert printed["summary"]["reassigning"] is None
    assert printed["summary"]["under_min_isr"] == 0
    assert "broker 0, the controller, did not respond" in printed["unknown"]["reassigning"]


async def test_last_request_gets_only_the_remaining_time(shown, brokers):
    brokers.answers[(9, MetadataRequest)] = Silent()
    brokers.answers[ListPartitionReassignmentsRequest] = Silent()
    _, printed = await shown(9, 0, timeout_s=1)
    remaining = re.search(r"did not respond within (\S+) s", printed["unknown"]["reassigning"])
    assert float(remaining[1]) < 0.8, "the silent broker used up a third of the timeout"


async def test_without_configs_and_reassignments_the_rest_is_shown(shown, brokers):
    """Brokers are in this state when ZooKeeper is down: they still serve clients."""
    brokers.answers[DescribeConfigsRequest] = Silent()
    brokers.answers[ListPartitionReassignmentsRequest] = RetriableError("alas")
    exit_code, printed = await shown()
    assert exit_code == UNHEALTHY
    assert printed["summary"]["partitions"] == 2
    assert printed["summary"]["under_min_isr"] is None
    assert printed["unknown"].keys() == {"under_min_isr", "reassigning"}
    assert printed["unknown"]["reassigning"] == "alas"
    assert printed["unknown"]["under_min_isr"].startswith(
        "min.insync.replicas: no broker responded"
    )
    ports = {port for port, request in brokers.asked if isinstance(request, DescribeConfigsRequest)}
    assert ports == {0, 1}


async def test_without_a_controller_no_broker_is_asked_for_reassignments(shown, brokers):
    brokers.answers[MetadataRequest] = metadata([0, 1], PARTITIONS, controller=-1)
    exit_code, printed = await shown(timeout_s=20)
    assert (exit_code, printed["summary"]["controller"]) == (UNHEALTHY, None)
    assert printed["unknown"] == {"reassigning": "the cluster has no controller"}


async def test_topic_deleted_during_the_command_is_not_unknown(shown, brokers):
    def unknown_topic(request):
        return settings_of_topics(request, error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    brokers.answers[DescribeConfigsRequest] = unknown_topic
    exit_code, printed = await shown(timeout_s=20)
    assert (exit_code, printed["unknown"]) == (HEALTHY, {})


async def test_unknown_values_are_printed_in_their_own_table(brokers, capsys):
    brokers.answers[ListPartitionReassignmentsRequest] = RetriableError("alas")
    cluster = brokers.cluster(0, timeout_s=SHORT_TIMEOUT_S)
    assert await status.show_status(Namespace(json=False), cluster) == UNHEALTHY
    lines = capsys.readouterr().out.splitlines()
    assert "reassigning\t-" in lines
    assert lines[-2:] == ["unknown\treason", "reassigning\talas"]
