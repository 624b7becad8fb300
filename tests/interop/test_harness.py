"""The harness itself: servers start, crash, come back, and never stay behind."""

import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support import kafka_jars
from tests.support.apache_kafka import zookeeper_broker
from tests.support.java_client import JavaClient, Round, SentRecord
from tests.support.raw_request import brokers_in_metadata
from tests.support.server_process import ServerFailed

RECORD = SentRecord(1_600_000_000_000, b"key", b"value")


@pytest.fixture
def lonely_broker(zookeeper, tmp_path):
    """A cluster of its own that a test may ill-treat."""
    with zookeeper_broker(tmp_path, zookeeper=f"{zookeeper.address}/{tmp_path.name}") as broker:
        yield broker


def test_a_broker_in_zookeeper_mode_answers(kafka_39):
    assert brokers_in_metadata(kafka_39.port) == {kafka_39.node_id}


def test_a_broker_in_kraft_mode_answers(kafka_41):
    assert brokers_in_metadata(kafka_41.port) == {kafka_41.node_id}


def test_a_killed_broker_answers_nobody_until_it_is_back_with_its_records(
    lonely_broker, kafka_39_jars
):
    with JavaClient(kafka_39_jars, lonely_broker.bootstrap) as client:
        client.create_topic("kept", {"retention.ms": "-1"})
        client.produce("kept", [Round([[RECORD]])])
        lonely_broker.kill()
        with pytest.raises(OSError, match="refused"):
            brokers_in_metadata(lonely_broker.port)
        lonely_broker.start()
        assert [record.value for record in client.consume("kept")] == [RECORD.value]


def test_a_broker_that_cannot_start_quotes_its_log(zookeeper, tmp_path):
    address = f"{zookeeper.address}/{tmp_path.name}"
    broker = zookeeper_broker(tmp_path, zookeeper=address, properties={"num.io.threads": "none"})
    with pytest.raises(ServerFailed, match=r"num\.io\.threads"):
        broker.start()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
def test_a_tied_process_dies_with_its_parent():
    child = subprocess.run(
        [sys.executable, "-c", STARTS_A_SLEEPER_AND_DIES],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
        cwd=kafka_jars.REPOSITORY_ROOT,
    )
    deadline = time.monotonic() + 10
    while _is_alive(int(child.stdout)):
        assert time.monotonic() < deadline
        time.sleep(0.01)


STARTS_A_SLEEPER_AND_DIES = """
import os, signal, subprocess
from odradek.controller.tied_process import tied_command
sleeper = subprocess.Popen(tied_command(["sleep", "60"]), stdout=subprocess.DEVNULL)
while b"sleep\\0" not in open(f"/proc/{sleeper.pid}/cmdline", "rb").read()[:6]:
    pass
print(sleeper.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(
    not (shutil.which("java") and shutil.which("mvn")), reason="there is no `java` or no `mvn`"
)
def test_jars_that_cannot_be_brought_say_why(monkeypatch, tmp_path):
    monkeypatch.setenv("ODRADEK_KAFKA_CACHE", str(tmp_path))
    with pytest.raises(kafka_jars.KafkaUnavailable, match=r"Maven could not bring Kafka 0\.0\.0"):
        kafka_jars.kafka_jars("0.0.0")
    assert [path.name for path in tmp_path.iterdir()] == ["0.0.0.lock"]


def test_without_java_there_is_a_reason(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(kafka_jars.KafkaUnavailable, match="no `java`"):
        kafka_jars.kafka_jars(kafka_jars.KAFKA_3_9)


def _is_alive(pid: int) -> bool:
    # A process that nobody has waited for yet is dead all the same.
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"
