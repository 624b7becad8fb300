"""The diagnostics that a broker logs on SIGUSR1."""

import signal
import socket
import time

import pytest

from odradek.protocol.api_keys import ApiKey
from tests.support.broker_process import BrokerProcess, broker
from tests.support.group_members import wait_until
from tests.support.in_hand import held_by
from tests.support.network_scene import ABRUPTLY
from tests.support.new_topics import new_topic
from tests.support.wire_client import WireClient

__all__ = ["broker", "new_topic"]

LONG_MS = 600_000


@pytest.fixture
def wire(broker):
    with WireClient(broker.address) as client:
        yield client


def poll(wire, topic):
    """Sends a fetch that waits, because the topic is empty."""
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1_000}
    topics = [{"topic": topic, "partitions": [partition]}]
    wire.send(ApiKey.FETCH, 4, max_wait_ms=LONG_MS, min_bytes=1, max_bytes=1_000, topics=topics)


def test_waiting_fetch_is_reported_until_its_connection_is_closed(broker, new_topic, wire):
    topic = new_topic()
    poll(wire, topic)
    expected = {f"{topic}-0": {"consumers": 1}}
    wait_until(lambda: held_by(broker).waiting == expected, or_else=lambda: held_by(broker))
    report = held_by(broker)
    # One connection is the controller's.
    assert (report.requests, report.connections["PLAINTEXT"]) == (1, 2)
    assert report.accepted == 2
    wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, ABRUPTLY)
    wire.close()  # abruptly: after a half-close the client may still read the response
    wait_until(
        lambda: held_by(broker).connections["PLAINTEXT"] == 1, or_else=lambda: held_by(broker)
    )
    assert (held_by(broker).requests, held_by(broker).waiting) == (0, {})


def test_tasks_are_reported_by_name_and_connections_by_purpose(broker):
    report = held_by(broker)
    assert report.outgoing == {"controller to broker 1001": 1}
    assert report.tasks["controller-to-broker-1001"] == report.tasks["retention"] == 1


def test_signal_during_startup_does_no_harm(tmp_path):
    starting = BrokerProcess(tmp_path / "logs")
    starting.launch()
    with starting:
        deadline = time.monotonic() + 30
        while not (starting.data_dir / ".lock").exists():
            assert time.monotonic() < deadline
        starting.send(signal.SIGUSR1)
        starting.wait_until_ready()
        assert held_by(starting).requests == 0
