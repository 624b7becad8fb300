"""``odradek cluster`` shows its processes: one line per state change, or a live table."""

import io
from pathlib import Path
from types import MappingProxyType

import pytest
from rich.console import Console
from rich.live import Live

from odradek.broker.cli.broker_connections import Address
from odradek.broker.cli.cluster_client import Broker, MetadataSnapshot, PartitionInfo
from odradek.broker.cli.clusters import view
from odradek.broker.cli.clusters.health import check_health
from odradek.broker.cli.clusters.local_cluster import ProcessState
from odradek.broker.cli.clusters.status import ClusterStatus
from odradek.broker.cli.clusters.view import LineView, StateChanges, TableView
from odradek.broker.cli.partitions import TopicAndPartition
from odradek.broker.cli.reassign.reassignments import PartitionReassignment


class FakeBroker:
    def __init__(self, number):
        self.id, self.name, self.pid = number, f"broker {number}", 100 + number
        self.state, self.address = ProcessState.STARTING, None
        self.exit_description = "ended with -9, see broker.log: alas"

    def set_state(self, state):
        self.state, self.address = state, f"127.0.0.1:{9092 + self.id}"


class FakeZooKeeper:
    address, output_file, pid = "127.0.0.1:2181", Path("zookeeper.out"), 99


class FakeCluster:
    addresses = "127.0.0.1:9092,127.0.0.1:9093"

    def __init__(self):
        self.zookeeper, self.zookeeper_state = FakeZooKeeper(), ProcessState.READY
        self.brokers = [FakeBroker(0), FakeBroker(1)]


@pytest.fixture
def cluster():
    return FakeCluster()


def test_each_state_change_is_printed_once(cluster, capsys):
    view_lines = LineView(StateChanges(cluster))
    view_lines.refresh()
    cluster.brokers[0].set_state(ProcessState.READY)
    view_lines.refresh()
    view_lines.refresh()
    cluster.brokers[0].set_state(ProcessState.DIED)
    cluster.brokers[1].set_state(ProcessState.STOPPED)
    cluster.zookeeper_state = ProcessState.DIED
    view_lines.refresh()
    assert capsys.readouterr().out.splitlines() == [
        "ZooKeeper is ready at 127.0.0.1:2181",
        "broker 0 is starting",
        "broker 1 is starting",
        "broker 0 is ready at 127.0.0.1:9092",
        "ZooKeeper died, see zookeeper.out",
        "broker 0 ended with -9, see broker.log: alas",
        "broker 1 has stopped",
    ]


BROKERS = {number: Broker(Address("127.0.0.1", 9092 + number), None) for number in range(2)}
PARTITIONS = {
    TopicAndPartition("orders", 0): PartitionInfo(0, (0, 1), (0, 1)),
    TopicAndPartition("orders", 1): PartitionInfo(0, (0, 1), (0,)),
    TopicAndPartition("orders", 2): PartitionInfo(None, (1,), (1,)),
}


def cluster_status(reassignments=MappingProxyType({}), **others):
    snapshot = MetadataSnapshot("id", 1, BROKERS, PARTITIONS)
    min_isr = {"orders": 2}
    return ClusterStatus(
        snapshot, reassignments, min_isr, check_health(snapshot, reassignments, min_isr), **others
    )


@pytest.fixture
def table(cluster, monkeypatch):
    def lines(status):
        """Return the lines of the table for a cluster in this status."""
        monkeypatch.setattr(view, "_try_fetch_status", lambda _: status)
        output = io.StringIO()
        console = Console(file=output, force_terminal=True, width=100, color_system=None)
        with Live(console=console, auto_refresh=False) as live:
            TableView(cluster, StateChanges(cluster), live).refresh()
        return [" ".join(line.split()) for line in output.getvalue().splitlines()]

    return lines


def test_table_has_a_row_for_each_process(cluster, table):
    cluster.brokers[0].set_state(ProcessState.READY)
    cluster.brokers[1].set_state(ProcessState.DIED)
    lines = table(cluster_status())
    assert "ZooKeeper ready 127.0.0.1:2181 99" in lines
    assert "broker 0 ready 127.0.0.1:9092 100 2 2" in lines
    assert "broker 1, controller died 127.0.0.1:9093 101 0 3" in lines
    assert "3 partitions, 1 under-replicated, 1 offline, 1 under min ISR, 0 reassigning" in lines
    assert any(line.endswith("broker 1 ended with -9, see broker.log: alas") for line in lines)


def test_table_does_not_count_an_adding_replica_as_under_replicated(cluster, table):
    cluster.brokers[0].set_state(ProcessState.READY)
    lines = table(
        cluster_status({TopicAndPartition("orders", 1): PartitionReassignment((0, 1), (1,), ())})
    )
    assert "3 partitions, 0 under-replicated, 1 offline, 1 under min ISR, 1 reassigning" in lines


def test_table_marks_unknown_counts(cluster, table):
    cluster.brokers[0].set_state(ProcessState.READY)
    lines = table(cluster_status(unknown={"under_min_isr": "alas", "reassigning": "alas"}))
    assert "3 partitions, 1 under-replicated, 1 offline, ? under min ISR, ? reassigning" in lines


def test_table_is_shown_before_any_broker_responds(cluster, table):
    cluster.brokers[0].set_state(ProcessState.READY)
    assert "broker 0 ready 127.0.0.1:9092 100" in table(None)
