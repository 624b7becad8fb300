"""What a broker tells of itself when it gets SIGUSR1."""

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
    """It waits, for the topic is empty."""
    asked = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1_000}
    topics = [{"topic": topic, "partitions": [asked]}]
    wire.send(ApiKey.FETCH, 4, max_wait_ms=LONG_MS, min_bytes=1, max_bytes=1_000, topics=topics)


def test_a_poll_that_waits_is_told_of_and_forgotten_with_its_connection(broker, new_topic, wire):
    topic = new_topic()
    poll(wire, topic)
    expected = {f"{topic}-0": {"consumers": 1}}
    wait_until(lambda: held_by(broker).waiting == expected, or_else=lambda: held_by(broker))
    held = held_by(broker)
    # One is the controller's.
    assert (held.requests, held.connections["PLAINTEXT"]) == (1, 2)
    assert held.accepted == 2
    wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, ABRUPTLY)
    wire.close()  # who only ends its side may want the answer still
    wait_until(
        lambda: held_by(broker).connections["PLAINTEXT"] == 1, or_else=lambda: held_by(broker)
    )
    assert (held_by(broker).requests, held_by(broker).waiting) == (0, {})


def test_tasks_are_told_of_by_name_and_connections_by_what_they_are_for(broker):
    held = held_by(broker)
    assert held.outgoing == {"controller to broker 1001": 1}
    assert held.tasks["controller-to-broker-1001"] == held.tasks["retention"] == 1


def test_who_asks_before_there_is_anything_to_tell_does_no_harm(tmp_path):
    starting = BrokerProcess(tmp_path / "logs")
    starting.launch()
    with starting:
        deadline = time.monotonic() + 30
        while not (starting.data_dir / ".lock").exists():
            assert time.monotonic() < deadline
        starting.send(signal.SIGUSR1)
        starting.wait_until_ready()
        assert held_by(starting).requests == 0
