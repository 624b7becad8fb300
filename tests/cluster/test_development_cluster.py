"""``odradek cluster``: brokers and a ZooKeeper on this machine, shown, and stopped cleanly."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.support.command_line import CommandLine
from tests.support.free_ports import free_port
from tests.support.group_members import wait_until
from tests.support.zookeeper import skip_without_zookeeper

ODRADEK = [sys.executable, "-m", "odradek.broker.cli.main"]
AMISS = 3


@pytest.fixture
def offline(capsys, monkeypatch):
    return CommandLine(capsys, monkeypatch)


class Started:
    """``odradek cluster`` in a process of its own."""

    def __init__(self, directory, *arguments):
        self.out = directory / "out"
        self.ready_file = directory / "ready"
        self.ready_file.unlink(missing_ok=True)  # of one that was killed
        self.data_dir = directory / "data"
        words = ["--port", "0", "--zookeeper-port", "0", "--data-dir", self.data_dir]
        words += ["--ready-file", self.ready_file, *arguments]
        with self.out.open("wb") as out:
            self.process = subprocess.Popen(
                [*ODRADEK, "cluster", *map(str, words)],
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    @property
    def text(self):
        return self.out.read_text()

    def wait_until_ready(self):
        wait_until(lambda: self.ready_file.exists() or self.process.poll() is not None)
        assert self.process.poll() is None, self.text
        return self.ready_file.read_text().strip()

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def running(directory):
    """The command lines of all processes that name this directory, by process id."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            line = path.read_text(errors="replace")
            if str(directory) in line:
                found[int(path.parent.name)] = line
    return found


def test_a_cluster_starts_serves_and_stops(tmp_path, offline):
    skip_without_zookeeper()
    with Started(tmp_path, "--brokers", "3", "--override", "num.partitions=2") as started:
        addresses = started.wait_until_ready()
        assert addresses.count(",") == 2
        assert f"Ready at {addresses}" in started.text.splitlines()
        told = []
        producer = Producer({"bootstrap.servers": addresses, "acks": "all"})
        producer.produce("made", b"v", on_delivery=lambda failure, _: told.append(failure))
        producer.flush(30)
        assert told == [None]
        asked = ("--bootstrap", addresses, "--json")
        wait_until(lambda: offline("cluster", "status", *asked).status == 0)
        found = json.loads(offline("cluster", "status", *asked).out)
        assert (found["summary"]["partitions"], len(found["brokers"])) == (2, 3)
        assert "in use by another cluster" in (
            offline(
                *("cluster", "start", "--port", "0", "--zookeeper-port", "0"),
                *("--data-dir", started.data_dir),
            ).complaint
        )
        (victim,) = [
            pid for pid, line in running(started.data_dir).items() if "broker.id=1" in line
        ]
        os.kill(victim, signal.SIGKILL)
        wait_until(lambda: re.search("^broker 1 was killed by SIGKILL", started.text, re.MULTILINE))
        wait_until(lambda: offline("cluster", "status", *asked).status == AMISS)
        assert started.ready_file.read_text().strip() == addresses, "the others still serve"
        os.killpg(started.process.pid, signal.SIGINT)  # as a terminal does for Ctrl-C
        assert started.process.wait(60) == 0
        *_, one, other, last = started.text.splitlines()
        assert {one, other} == {"broker 0 has stopped", "broker 2 has stopped"}
        assert last == "ZooKeeper has stopped"
        assert not started.ready_file.exists()
    assert running(started.data_dir) == {}


def test_what_is_started_ends_with_who_started_it_and_is_found_again(tmp_path, offline):
    skip_without_zookeeper()
    with Started(tmp_path, "--brokers", "1") as started:
        asked = ("--bootstrap", started.wait_until_ready())
        assert offline("topics", "create", "kept", *asked).lines == ["kept created"]
        assert len(running(started.data_dir)) > 2
        started.process.kill()
        started.process.wait()
        wait_until(lambda: running(started.data_dir) == {})
    with Started(tmp_path, "--brokers", "1") as again:
        asked = ("--bootstrap", again.wait_until_ready())
        assert [row[0] for row in offline("topics", "list", *asked).rows] == ["kept"]
        again.process.terminate()
        assert again.process.wait(60) == 0
        assert not again.ready_file.exists()


def test_a_broker_that_does_not_start_is_the_end_of_all(tmp_path):
    skip_without_zookeeper()
    in_the_way = tmp_path / "data" / "broker-0"
    in_the_way.parent.mkdir()
    in_the_way.touch()
    with Started(tmp_path, "--brokers", "1") as started:
        assert started.process.wait(60) == 1
    assert "odradek: broker 0 exited with code 1" in started.text
    assert str(in_the_way) in started.text
    assert running(started.data_dir) == {}


def test_that_there_is_no_java_is_told_in_one_line(tmp_path, offline, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    words = ("--port", "0", "--zookeeper-port", "0", "--data-dir", tmp_path / "data")
    ran = offline("cluster", *words)
    assert ran.status == 1
    (complaint,) = ran.err.splitlines()
    assert complaint.startswith("odradek: ZooKeeper needs Java: ")


@pytest.mark.parametrize("option", ["--port", "--zookeeper-port"])
def test_a_port_in_use_is_told_in_one_line(tmp_path, offline, option, broker_port):
    others = {"--port": "0", "--zookeeper-port": "0"} | {option: str(broker_port)}
    words = [word for each in others.items() for word in each]
    ran = offline("cluster", *words, "--data-dir", tmp_path / "data")
    assert ran.complaint == f"odradek: {option}: 127.0.0.1:{broker_port}: Address already in use"


@pytest.fixture
def broker_port():
    with socket.create_server(("127.0.0.1", free_port())) as taken:
        yield taken.getsockname()[1]


@pytest.mark.parametrize("written", ["0", "x", "101"])
def test_a_number_of_brokers_that_makes_no_sense_has_status_2(offline, written):
    assert offline("cluster", "--brokers", written).status == 2
