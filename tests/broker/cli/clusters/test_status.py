"""``odradek cluster status``: what is known is shown, and what is not, with the reason."""

import json
import re
from argparse import Namespace

import pytest

from odradek.broker.cli.clusters import status
from odradek.broker.cli.direct import NoAnswer
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

WELL, AMISS = 0, 3
SHORT_S = 0.5
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
    async def show(*ports, timeout_s=SHORT_S):
        """The exit status and what is printed."""
        asked = brokers.cluster(*(ports or [0]), timeout_s=timeout_s)
        found = await status.show(Namespace(json=True), asked)
        return found, json.loads(capsys.readouterr().out)

    return show


async def test_a_cluster_that_is_well_has_nothing_unknown(shown):
    found, printed = await shown(timeout_s=20)
    assert (found, printed["unknown"], printed["amiss"]) == (WELL, {}, [])
    assert printed["summary"]["under_min_isr"] == printed["summary"]["reassigning"] == 0


async def test_a_silent_controller_leaves_all_but_what_only_it_knows(shown, brokers):
    brokers.answers[ListPartitionReassignmentsRequest] = Silent()
    found, printed = await shown()
    assert found == AMISS
    assert [each["leads"] for each in printed["brokers"]] == [1, 1]
    assert printed["summary"]["partitions"] == 2
    assert printed["summary"]["reassigning"] is None
    assert printed["summary"]["under_min_isr"] == 0
    assert "broker 0, the controller, does not answer" in printed["unknown"]["reassigning"]


async def test_what_comes_last_has_only_the_time_that_is_left(shown, brokers):
    brokers.answers[(9, MetadataRequest)] = Silent()
    brokers.answers[ListPartitionReassignmentsRequest] = Silent()
    _, printed = await shown(9, 0, timeout_s=1)
    left = re.search(r"does not answer in (\S+) s", printed["unknown"]["reassigning"])
    assert float(left[1]) < 0.8, "a third of it went to the broker that is silent"


async def test_where_no_broker_tells_settings_all_else_is_told(shown, brokers):
    """As when ZooKeeper is gone: brokers serve clients all the same."""
    brokers.answers[DescribeConfigsRequest] = Silent()
    brokers.answers[ListPartitionReassignmentsRequest] = NoAnswer("alas")
    found, printed = await shown()
    assert found == AMISS
    assert printed["summary"]["partitions"] == 2
    assert printed["summary"]["under_min_isr"] is None
    assert printed["unknown"].keys() == {"under_min_isr", "reassigning"}
    assert printed["unknown"]["reassigning"] == "alas"
    assert printed["unknown"]["under_min_isr"].startswith("min.insync.replicas: no broker answers")
    asked = {port for port, each in brokers.asked if isinstance(each, DescribeConfigsRequest)}
    assert asked == {0, 1}


async def test_without_a_controller_nobody_is_asked_what_moves(shown, brokers):
    brokers.answers[MetadataRequest] = metadata([0, 1], PARTITIONS, controller=-1)
    found, printed = await shown(timeout_s=20)
    assert (found, printed["summary"]["controller"]) == (AMISS, None)
    assert printed["unknown"] == {"reassigning": "the cluster has no controller"}


async def test_a_topic_that_was_deleted_meanwhile_is_not_missed(shown, brokers):
    def unknown_topic(request):
        return settings_of_topics(request, error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    brokers.answers[DescribeConfigsRequest] = unknown_topic
    found, printed = await shown(timeout_s=20)
    assert (found, printed["unknown"]) == (WELL, {})


async def test_what_is_unknown_stands_in_a_table_of_its_own(brokers, capsys):
    brokers.answers[ListPartitionReassignmentsRequest] = NoAnswer("alas")
    asked = brokers.cluster(0, timeout_s=SHORT_S)
    assert await status.show(Namespace(json=False), asked) == AMISS
    lines = capsys.readouterr().out.splitlines()
    assert "reassigning\t-" in lines
    assert lines[-2:] == ["unknown\twhy", "reassigning\talas"]
