"""A broker on a real ZooKeeper that is absent, goes away, or expires the broker's session."""

import json
import signal
import subprocess
import time
from contextlib import contextmanager

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from kazoo.retry import KazooRetry

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.error_codes import ErrorCode
from tests.support.broker_process import BrokerProcess
from tests.support.broker_stores import on_zookeeper
from tests.support.client_driver import BEGINNING, Sent
from tests.support.confluent_driver import ConfluentDriver
from tests.support.free_ports import free_port
from tests.support.wire_client import WireClient, call

BROKER_ID = 5
SESSION_TIMEOUT_MS = 2_000
#: Outlives every outage of these tests.
LONG_SESSION = "zookeeper.session.timeout.ms=20000"
#: Long enough even on a busy machine.
LONGER_THAN_A_START = "zookeeper.session.timeout.ms=6000"
WAIT_S = 20
STOP_S = 12
REGISTRATION = f"/brokers/ids/{BROKER_ID}"


class Scene:
    """A broker, and another client's view of its znodes."""

    def __init__(self, server, data_dir, *overrides):
        self.settings = (
            *on_zookeeper(server, session_timeout_ms=SESSION_TIMEOUT_MS),
            f"broker.id={BROKER_ID}",
            *overrides,
        )
        self.broker = BrokerProcess(data_dir, *self.settings)
        self._address = self.settings[0].partition("=")[2]
        # This client may lose its session where the broker does not: kazoo reconnects more slowly.
        retry = KazooRetry(max_tries=3, delay=0.2)
        self.zookeeper = KazooClient(self._address, command_retry=retry)

    def registration(self):
        """Returns the registration and its broker epoch, or None."""
        try:
            value, stat = self.zookeeper.retry(self.zookeeper.get, REGISTRATION)
        except NoNodeError:
            return None
        return json.loads(value), stat.czxid

    def is_controller_again(self, epoch):
        """Whether the broker is registered and the controller, with a later broker epoch."""
        _, registered_epoch = self.registration() or (None, 0)
        return registered_epoch > epoch and self.zookeeper.retry(
            self.zookeeper.exists, "/controller"
        )


@contextmanager
def running(server, directory, *overrides):
    scene = Scene(server, directory / "logs", *overrides)
    with scene.broker.start():
        scene.zookeeper.start()
        try:
            yield scene
        finally:
            scene.zookeeper.stop()
            scene.zookeeper.close()
    assert "Traceback" not in scene.broker.log_text


def wait_until(condition, *, timeout_s=WAIT_S):
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def send(broker, *values, topic="t"):
    with ConfluentDriver().producer(broker.address) as producer:
        return producer.send(topic, [Sent(value) for value in values])


def values(broker, count, *, topic="t"):
    with ConfluentDriver().consumer(broker.address) as consumer:
        received = consumer.read(topic, {0: BEGINNING}, count=count)
    return [record.value for record in received]


def coordinator_error(broker):
    request = {"key_type": 0, "coordinator_keys": ["group"]}
    return call(broker.address, ApiKey.FIND_COORDINATOR, 4, **request).coordinators[0].error_code


def topic_error(broker, topic):
    """Returns the topic's error code; the broker creates the topic if it is missing."""
    request = {"topics": [{"name": topic}], "allow_auto_topic_creation": True}
    return call(broker.address, ApiKey.METADATA, 9, **request).topics[0].error_code


def is_created(broker, topic):
    """Whether the topic is created; not during a session expiry or without a controller."""
    topics = [{"name": topic, "num_partitions": 1, "replication_factor": 1}]
    response = call(
        broker.address, ApiKey.CREATE_TOPICS, 7, topics=topics, timeout_ms=WAIT_S * 1000
    )
    error_code = ErrorCode.for_code(response.topics[0].error_code)
    assert error_code in {ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.NOT_CONTROLLER}
    return error_code is not ErrorCode.NOT_CONTROLLER


def run_until_exit(broker, *arguments):
    """Returns the exit status and the error lines of a broker that cannot start."""
    process = subprocess.run(
        [*broker.command(), *arguments], capture_output=True, text=True, timeout=WAIT_S
    )
    assert "Traceback" not in process.stderr
    return process.returncode, [
        line for line in process.stderr.splitlines() if line.startswith("odradek: ")
    ]


# ZooKeeper is absent


def test_start_without_zookeeper_ends_with_one_line_after_the_timeout(tmp_path):
    address = f"127.0.0.1:{free_port()}"
    settings = (f"zookeeper.connect={address}/branch", "zookeeper.connection.timeout.ms=700")
    started_s = time.monotonic()
    status, errors = run_until_exit(BrokerProcess(tmp_path / "logs", *settings))
    assert 0.7 < time.monotonic() - started_s < STOP_S
    assert status == 1
    (error,) = errors
    assert error.startswith(f"odradek: ZooKeeper at {address}/branch: no response in 700 ms")


def test_broker_that_waits_for_zookeeper_can_be_stopped(tmp_path):
    address = f"127.0.0.1:{free_port()}"
    broker = BrokerProcess(tmp_path / "logs", f"zookeeper.connect={address}")
    with broker:
        broker.launch()
        wait_until((broker.data_dir / ".lock").exists)
        broker.send(signal.SIGTERM)
        assert broker.wait(timeout_s=STOP_S) == 0


# ZooKeeper goes away


@pytest.mark.parametrize(("leave", "return_"), [("kill", "start"), ("suspend", "resume")])
def test_records_are_written_and_read_during_a_zookeeper_outage(
    own_zookeeper, tmp_path, leave, return_
):
    with running(own_zookeeper, tmp_path) as scene:
        broker, (_, epoch) = scene.broker, scene.registration()
        assert send(broker, b"before") == [0]
        getattr(own_zookeeper, leave)()
        wait_until(lambda: "Connection to ZooKeeper lost" in broker.log_text)
        for number in range(1, 20):
            assert send(broker, b"%d" % number) == [number]
        assert len(values(broker, 20)) == 20
        assert call(broker.address, ApiKey.METADATA, 9, topics=None).controller_id == BROKER_ID
        getattr(own_zookeeper, return_)()
        wait_until(lambda: scene.registration() is not None)
        wait_until(lambda: is_created(broker, "made-afterwards"))
        assert send(broker, b"after", topic="made-afterwards") == [0]
        assert scene.registration()[1] >= epoch
    assert "kazoo" not in broker.log_text


def test_requests_that_need_zookeeper_complete_after_the_outage(own_zookeeper, tmp_path):
    with running(own_zookeeper, tmp_path, LONG_SESSION) as scene:
        _, epoch = scene.registration()
        own_zookeeper.kill()
        with WireClient(scene.broker.address) as client:
            topic = {"name": "asked-for", "num_partitions": 1, "replication_factor": 1}
            client.send(ApiKey.CREATE_TOPICS, 7, topics=[topic], timeout_ms=WAIT_S * 1000)
            # Clients send these on connections on which they produce and fetch.
            assert coordinator_error(scene.broker) == ErrorCode.COORDINATOR_NOT_AVAILABLE.code
            assert topic_error(scene.broker, "used") == ErrorCode.LEADER_NOT_AVAILABLE.code
            own_zookeeper.start()
            assert client.answer(ApiKey.CREATE_TOPICS, 7).topics[0].error_code == 0
        wait_until(
            lambda: coordinator_error(scene.broker) == topic_error(scene.broker, "used") == 0
        )
        assert send(scene.broker, b"x", topic="asked-for") == [0]
        assert scene.registration()[1] == epoch


def test_broker_stops_cleanly_during_a_zookeeper_outage(own_zookeeper, tmp_path):
    with running(own_zookeeper, tmp_path) as scene:
        broker = scene.broker
        send(broker, b"kept")
        own_zookeeper.kill()
        broker.stop(timeout_s=STOP_S)
        assert (broker.data_dir / ".kafka_cleanshutdown").exists()
        own_zookeeper.start()
        broker.start()
        assert values(broker, 1) == [b"kept"]


def test_broker_stops_cleanly_while_a_request_waits_for_zookeeper(own_zookeeper, tmp_path):
    with running(own_zookeeper, tmp_path) as scene:
        broker = scene.broker
        send(broker, b"kept")
        own_zookeeper.kill()
        with WireClient(broker.address) as client:
            # The controller has to store the first block of producer ids before anything else.
            client.send(ApiKey.INIT_PRODUCER_ID, 4, transactional_id=None)
            client.send(ApiKey.METADATA, 9, topics=[])
            # The topic creation goes on after the response.
            assert topic_error(broker, "used") == ErrorCode.LEADER_NOT_AVAILABLE.code
            broker.stop(timeout_s=STOP_S)
        assert (broker.data_dir / ".kafka_cleanshutdown").exists()
        own_zookeeper.start()


# ZooKeeper expires the session


def test_broker_registers_again_after_its_session_expired(zookeeper, tmp_path):
    with running(zookeeper, tmp_path) as scene:
        broker, (registration, epoch) = scene.broker, scene.registration()
        send(broker, b"before")
        broker.send(signal.SIGSTOP)
        wait_until(lambda: scene.registration() is None)
        broker.send(signal.SIGCONT)
        wait_until(lambda: scene.is_controller_again(epoch))
        new_registration, _ = scene.registration()
        assert new_registration["endpoints"] == registration["endpoints"]
        assert send(broker, b"after") == [1]
        assert values(broker, 2) == [b"before", b"after"]
        wait_until(lambda: is_created(broker, "made-afterwards"))
        assert send(broker, b"x", topic="made-afterwards") == [0]
        broker.restart()
        assert values(broker, 2) == [b"before", b"after"]


def test_broker_restarts_after_a_kill_while_its_old_registration_exists(zookeeper, tmp_path):
    with running(zookeeper, tmp_path, LONGER_THAN_A_START) as scene:
        broker, (_, epoch) = scene.broker, scene.registration()
        send(broker, b"before")
        broker.kill()
        assert scene.registration() is not None
        broker.start()
        assert scene.registration()[1] > epoch
        assert f"{REGISTRATION} is already registered by another" in broker.log_text
        assert send(broker, b"after") == [1]
        assert values(broker, 2) == [b"before", b"after"]


def test_broker_that_waits_for_its_old_session_to_expire_can_be_stopped(zookeeper, tmp_path):
    with running(zookeeper, tmp_path, LONG_SESSION) as scene:
        scene.broker.kill()
        scene.broker.launch()
        wait_until(lambda: "for its session to expire" in scene.broker.log_text)
        scene.broker.send(signal.SIGTERM)
        assert scene.broker.wait(timeout_s=STOP_S) == 0
        scene.zookeeper.delete(REGISTRATION)


def test_broker_with_the_id_of_a_running_broker_is_rejected(zookeeper, tmp_path):
    with running(zookeeper, tmp_path) as scene:
        _, epoch = scene.registration()
        status, errors = run_until_exit(BrokerProcess(tmp_path / "second", *scene.settings))
        assert status == 1
        (error,) = errors
        assert f"{REGISTRATION} is already registered by another" in error
        assert scene.registration()[1] == epoch
        assert send(scene.broker, b"still here") == [0]
