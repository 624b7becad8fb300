"""``LocalCluster``: process states, exit descriptions and checks before the start."""

import signal
import subprocess
import sys

import pytest

from odradek.broker.cli.clusters.local_cluster import LocalBroker, LocalCluster, ProcessState


@pytest.fixture
def ended(tmp_path):
    def run(program):
        broker_process = LocalBroker(tmp_path, 0, port=0, settings=[])
        broker_process.log.write_text("INFO unrelated\nthe last line\n")
        broker_process._process = subprocess.Popen([sys.executable, "-c", program])
        broker_process._process.wait(30)
        return broker_process

    return run


def test_killed_broker_reports_its_signal_without_a_log_line(ended):
    run = ended("import os; os.kill(os.getpid(), 9)")
    assert run.state is ProcessState.DIED
    assert run.exit_description == f"was killed by {signal.SIGKILL.name}, see {run.log}"


def test_exited_broker_reports_its_code_and_last_log_line(ended):
    run = ended("raise SystemExit(7)")
    assert run.exit_description == f"exited with code 7, see {run.log}: the last line"


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


def test_zookeeper_that_died_is_not_reported_as_stopped(cluster):
    cluster.zookeeper.is_alive = False
    assert cluster.zookeeper_state is ProcessState.DIED
    cluster.terminate()
    cluster.kill()
    assert cluster.zookeeper_state is ProcessState.DIED


def test_stopped_zookeeper_is_not_reported_as_died(cluster):
    cluster.terminate()
    assert cluster.zookeeper_state is ProcessState.READY
    cluster.kill()
    assert cluster.zookeeper_state is ProcessState.STOPPED


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("nonsense", "nonsense"),
        ("num.partitions=none", "num.partitions"),
        ("advertised.listeners=nowhere", "advertised.listeners"),
    ],
)
def test_invalid_setting_is_reported_before_any_process_starts(offline, tmp_path, setting, message):
    directory = tmp_path / "data"
    options = ("--port", "0", "--zookeeper-port", "0", "--data-dir", directory)
    result = offline("cluster", *options, "--override", setting)
    assert message in result.complaint
    assert result.out == ""
    assert not directory.exists()
