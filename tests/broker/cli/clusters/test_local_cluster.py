"""The processes of a cluster on this machine: how they ended, and what they were started with."""

import signal
import subprocess
import sys

import pytest

from odradek.broker.cli.clusters.processes import LocalBroker, LocalCluster, State


@pytest.fixture
def ended(tmp_path):
    def broker(program):
        """One whose process has run this, and has logged a line before."""
        found = LocalBroker(tmp_path, 0, port=0, settings=[])
        found.log.write_text("INFO unrelated\nthe last line\n")
        found._process = subprocess.Popen([sys.executable, "-c", program])
        found._process.wait(30)
        return found

    return broker


def test_a_broker_that_was_killed_has_a_signal_and_no_last_words(ended):
    broker = ended("import os; os.kill(os.getpid(), 9)")
    assert broker.state is State.DIED
    assert broker.last_words == f"was killed by {signal.SIGKILL.name}, see {broker.log}"


def test_a_broker_that_ended_by_itself_has_last_words(ended):
    broker = ended("raise SystemExit(7)")
    assert broker.last_words == f"ended with 7, see {broker.log}: the last line"


class FakeZooKeeper:
    def __init__(self):
        self.is_alive = True

    def is_running(self):
        return self.is_alive

    def stop(self):
        self.is_alive = False


@pytest.fixture
def cluster(tmp_path):
    cluster = LocalCluster(tmp_path, brokers=1, port=0, zookeeper_port=0, settings=[])
    cluster.zookeeper = FakeZooKeeper()
    return cluster


def test_a_zookeeper_that_died_has_not_stopped(cluster):
    cluster.zookeeper.is_alive = False
    assert cluster.zookeeper_state is State.DIED
    cluster.terminate()
    cluster.end()
    assert cluster.zookeeper_state is State.DIED


def test_a_zookeeper_that_was_stopped_has_not_died(cluster):
    cluster.terminate()
    assert cluster.zookeeper_state is State.READY
    cluster.end()
    assert cluster.zookeeper_state is State.STOPPED


@pytest.mark.parametrize(
    ("setting", "why"),
    [
        ("nonsense", "nonsense"),
        ("num.partitions=none", "num.partitions"),
        ("advertised.listeners=nowhere", "advertised.listeners"),
    ],
)
def test_settings_that_make_no_sense_are_told_before_anything_starts(
    offline, tmp_path, setting, why
):
    directory = tmp_path / "data"
    words = ("--port", "0", "--zookeeper-port", "0", "--data-dir", directory)
    ran = offline("cluster", *words, "--override", setting)
    assert why in ran.complaint
    assert ran.out == ""
    assert not directory.exists()
