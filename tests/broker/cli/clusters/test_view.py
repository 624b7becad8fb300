"""What is shown of a cluster on this machine: lines about what changed, and a table."""

import io
from pathlib import Path
from types import MappingProxyType

import pytest
from rich.console import Console
from rich.live import Live

from odradek.broker.cli.clusters import view
from odradek.broker.cli.clusters.health import health
from odradek.broker.cli.clusters.processes import State
from odradek.broker.cli.clusters.status import Status
from odradek.broker.cli.clusters.view import Changes, LineView, TableView
from odradek.broker.cli.direct import Address
from odradek.broker.cli.operated import Broker, Partition, Picture
from odradek.broker.cli.partitions import Place
from odradek.broker.cli.reassign.moves import UnderWay


class FakeBroker:
    def __init__(self, number):
        self.id, self.name, self.pid = number, f"broker {number}", 100 + number
        self.state, self.address = State.STARTING, None
        self.last_words = "ended with -9, see broker.log: alas"

    def become(self, state):
        self.state, self.address = state, f"127.0.0.1:{9092 + self.id}"


class FakeZooKeeper:
    address, output, pid = "127.0.0.1:2181", Path("zookeeper.out"), 99


class FakeCluster:
    addresses = "127.0.0.1:9092,127.0.0.1:9093"

    def __init__(self):
        self.zookeeper, self.zookeeper_state = FakeZooKeeper(), State.READY
        self.brokers = [FakeBroker(0), FakeBroker(1)]


@pytest.fixture
def cluster():
    return FakeCluster()


def test_what_changes_is_told_once(cluster, capsys):
    shown = LineView(Changes(cluster))
    shown.look()
    cluster.brokers[0].become(State.READY)
    shown.look()
    shown.look()
    cluster.brokers[0].become(State.DIED)
    cluster.brokers[1].become(State.STOPPED)
    cluster.zookeeper_state = State.DIED
    shown.look()
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
    Place("orders", 0): Partition(0, (0, 1), (0, 1)),
    Place("orders", 1): Partition(0, (0, 1), (0,)),
    Place("orders", 2): Partition(None, (1,), (1,)),
}


def found(moving=MappingProxyType({}), **others):
    picture = Picture("id", 1, BROKERS, PARTITIONS)
    least = {"orders": 2}
    return Status(picture, moving, least, health(picture, moving, least), **others)


@pytest.fixture
def table(cluster, monkeypatch):
    def lines(status):
        """Of the table, if that is how the cluster is."""
        monkeypatch.setattr(view, "_status", lambda _: status)
        written = io.StringIO()
        console = Console(file=written, force_terminal=True, width=100, color_system=None)
        with Live(console=console, auto_refresh=False) as live:
            TableView(cluster, Changes(cluster), live).look()
        return [" ".join(line.split()) for line in written.getvalue().splitlines()]

    return lines


def test_the_table_has_a_row_for_each_process(cluster, table):
    cluster.brokers[0].become(State.READY)
    cluster.brokers[1].become(State.DIED)
    lines = table(found())
    assert "ZooKeeper ready 127.0.0.1:2181 99" in lines
    assert "broker 0 ready 127.0.0.1:9092 100 2 2" in lines
    assert "broker 1, controller died 127.0.0.1:9093 101 0 3" in lines
    assert "3 partitions, 1 under-replicated, 1 offline, 1 under min ISR, 0 moving" in lines
    assert any(each.endswith("broker 1 ended with -9, see broker.log: alas") for each in lines)


def test_the_table_does_not_miss_a_replica_that_is_on_its_way(cluster, table):
    cluster.brokers[0].become(State.READY)
    lines = table(found({Place("orders", 1): UnderWay((0, 1), (1,), ())}))
    assert "3 partitions, 0 under-replicated, 1 offline, 1 under min ISR, 1 moving" in lines


def test_the_table_says_what_is_unknown(cluster, table):
    cluster.brokers[0].become(State.READY)
    lines = table(found(unknown={"under_min_isr": "alas", "reassigning": "alas"}))
    assert "3 partitions, 1 under-replicated, 1 offline, ? under min ISR, ? moving" in lines


def test_the_table_is_there_before_anybody_answers(cluster, table):
    cluster.brokers[0].become(State.READY)
    assert "broker 0 ready 127.0.0.1:9092 100" in table(None)
