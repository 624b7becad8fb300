"""``odradek serve`` as a process: startup, rejected startup, shutdown and restart."""

import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from odradek.broker.metadata_store import FILE_NAME
from tests.support.broker_process import BrokerProcess
from tests.support.server_process import ServerFailed

SERVE = [sys.executable, "-m", "odradek.broker.cli.main", "serve"]
TIMEOUT_S = 30


def startup_error(*arguments, env=None):
    """Return the error message of a broker that fails to start."""
    result = subprocess.run(
        [*SERVE, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        env={**os.environ, **(env or {})},
    )
    assert (result.returncode, result.stdout) == (1, "")
    complaints = [line for line in result.stderr.splitlines() if line.startswith("odradek: ")]
    assert len(complaints) == 1, result.stderr
    assert "Traceback" not in result.stderr
    return complaints[0]


def wait_until(condition, *, timeout_s=TIMEOUT_S):
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def produce(broker, *values):
    producer = Producer({"bootstrap.servers": broker.address, "acks": "all"})
    for value in values:
        producer.produce("t", value)
    assert producer.flush(TIMEOUT_S) == 0


def consumed(broker):
    """Return all values of the partition, in order."""
    settings = {"bootstrap.servers": broker.address, "group.id": "none"}
    consumer = Consumer({**settings, "enable.auto.commit": False})
    try:
        partition = TopicPartition("t", 0, 0)
        _, end = consumer.get_watermark_offsets(partition, timeout=TIMEOUT_S)
        consumer.assign([partition])
        values = []
        deadline = time.monotonic() + TIMEOUT_S
        while len(values) < end and time.monotonic() < deadline:
            messages = consumer.consume(min(10_000, end - len(values)), timeout=1)
            values += [message.value() for message in messages]
        return values
    finally:
        consumer.close()


def meta_properties(data_dir):
    lines = (data_dir / "meta.properties").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


# Startup


def test_standard_output_has_only_the_ready_line(tmp_path):
    ready_file = tmp_path / "ready"
    arguments = ["--data-dir", tmp_path / "logs", "--port", 0, "--ready-file", ready_file]
    with subprocess.Popen(
        [*SERVE, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            line = process.stdout.readline()
            address = re.fullmatch(r"Ready at (127\.0\.0\.1:(\d+))\n", line)
            assert ready_file.read_text() == address[1] + "\n"
            socket.create_connection(("127.0.0.1", int(address[2])), TIMEOUT_S).close()
        finally:
            process.terminate()
        assert process.stdout.read() == ""
        assert process.wait(TIMEOUT_S) == 0


def test_closed_standard_output_does_not_stop_the_broker(tmp_path):
    read_end, write_end = os.pipe()
    os.close(read_end)
    ready_file = tmp_path / "ready"
    arguments = ["--data-dir", tmp_path / "logs", "--port", 0, "--ready-file", ready_file]
    process = subprocess.Popen(
        [*SERVE, *map(str, arguments)], stdout=write_end, stderr=subprocess.DEVNULL
    )
    os.close(write_end)
    try:
        wait_until(ready_file.exists)
        process.terminate()
        assert process.wait(TIMEOUT_S) == 0
    finally:
        process.kill()
        process.wait()


def test_old_ready_file_is_removed_before_startup(tmp_path):
    ready_file = tmp_path / "ready"
    ready_file.write_text("127.0.0.1:9\n")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        startup_error("--data-dir", tmp_path / "logs", "--port", port, "--ready-file", ready_file)
    assert not ready_file.exists()


# Rejected startup


def test_second_broker_on_a_directory_is_rejected_and_the_first_continues(tmp_path, new_store):
    with BrokerProcess(tmp_path / "logs", *new_store()).start() as broker:
        complaint = startup_error("--data-dir", broker.data_dir, "--port", 0)
        assert f"{broker.data_dir} is in use" in complaint
        produce(broker, b"still here")
        assert consumed(broker) == [b"still here"]


def test_port_in_use_is_reported_in_one_line_and_unlocks_the_directory(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        complaint = startup_error("--data-dir", tmp_path / "logs", "--port", port)
    assert f"failed to bind to PLAINTEXT://127.0.0.1:{port}: Address already in use" in complaint
    with BrokerProcess(tmp_path / "logs").start():
        pass


def test_invalid_setting_is_reported_with_file_and_line(tmp_path):
    file = tmp_path / "server.properties"
    file.write_text("# mine\nbroker.id=1\nlog.segment.bytes=large\n")
    complaint = startup_error("--config", file, "--data-dir", tmp_path / "logs")
    assert complaint.startswith(
        f"odradek: {file}:3: log.segment.bytes=large: must be a whole number"
    )
    assert not (tmp_path / "logs").exists()


@pytest.mark.parametrize(
    ("arguments", "env", "complaint"),
    [
        (["--override", "broker.id=x"], {}, "--override: broker.id=x: must be"),
        ([], {"ODRADEK_BROKER_ID": "x"}, "ODRADEK_BROKER_ID: broker.id=x: must be"),
        (["--override", "broker.id"], {}, "--override broker.id: must be name=value"),
        (
            ["--override", "authorizer.class.name=A"],
            {},
            "authorizer.class.name=A: is not supported",
        ),
        (["--config", "missing.properties"], {}, "missing.properties: No such file"),
        (["--port", "70000"], {}, "must have ports between 0 and 65535"),
        (["--log-level", "loud"], {}, "--log-level loud: a level is one of"),
        (["--ready-file", "missing/ready"], {}, "--ready-file missing/ready: No such file"),
        (["--port", "0"], {"PYTHONOPTIMIZE": "1"}, "python -O removes checks"),
    ],
)
def test_invalid_option_is_reported_in_one_line(tmp_path, arguments, env, complaint):
    assert complaint in startup_error("--data-dir", tmp_path / "logs", *arguments, env=env)


def test_unusable_log_directory_stops_the_startup(tmp_path):
    (tmp_path / "file").write_text("")
    complaint = startup_error("--data-dir", tmp_path / "file", "--port", 0)
    assert complaint == "odradek: no log directory can be used; the errors are logged above"


def test_directory_of_another_broker_is_rejected(tmp_path):
    with BrokerProcess(tmp_path / "logs", "broker.id=3").start():
        pass
    complaint = startup_error(
        "--data-dir", tmp_path / "logs", "--port", 0, "--override", "broker.id=4"
    )
    assert "meta.properties: broker.id is 3, but this broker has 4" in complaint


def test_directory_of_another_cluster_is_rejected(tmp_path):
    for name in ("one", "two"):
        with BrokerProcess(tmp_path / name).start():
            pass
    theirs, ours = (meta_properties(tmp_path / name)["cluster.id"] for name in ("one", "two"))
    shutil.copy(tmp_path / "one" / "meta.properties", tmp_path / "two" / "meta.properties")
    complaint = startup_error("--data-dir", tmp_path / "two", "--port", 0)
    assert f"meta.properties: cluster.id is {theirs}, but this broker has {ours}" in complaint


# Shutdown


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signal_causes_a_clean_shutdown_and_is_logged(tmp_path, new_store, number):
    with BrokerProcess(tmp_path / "logs", *new_store()).start() as broker:
        broker.send(number)
        assert broker.wait() == 0
    assert f"Terminating process due to signal {number.name}" in broker.log_text
    assert (broker.data_dir / ".kafka_cleanshutdown").exists()


@pytest.mark.parametrize("created_file", [".lock", FILE_NAME, "meta.properties"])
def test_signal_during_startup_reverts_it(tmp_path, created_file):
    broker = BrokerProcess(tmp_path / "logs")
    with broker:
        broker.launch()
        wait_until((broker.data_dir / created_file).exists)
        broker.send(signal.SIGTERM)
        assert broker.wait() == 0
        assert "Terminating process due to signal SIGTERM" in broker.log_text
        assert "Traceback" not in broker.log_text
        broker.start()


@pytest.mark.parametrize("workers", [1, 2])
def test_signal_during_recovery_leaves_the_rest_to_the_next_start(tmp_path, workers):
    partitions = 100
    settings = (f"num.partitions={partitions}", f"num.recovery.threads.per.data.dir={workers}")
    with BrokerProcess(tmp_path / "logs", *settings).start() as broker:
        produce(broker, b"a")
        broker.kill()
        broker.launch()
        wait_until(
            lambda: f"clean shutdown file was found: 0 of {partitions} done" in broker.log_text
        )
        broker.send(signal.SIGTERM)
        assert broker.wait() == 0
        assert "Traceback" not in broker.log_text
        assert (
            f"clean shutdown file was found: {partitions} of {partitions} done"
            not in broker.log_text
        )
        assert not (broker.data_dir / ".kafka_cleanshutdown").exists()
        broker.start()
        assert (
            f"clean shutdown file was found: {partitions} of {partitions} done" in broker.log_text
        )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_acknowledged_records_survive_a_signal_under_load(tmp_path, new_store, number):
    with BrokerProcess(tmp_path / "logs", *new_store()).start() as broker:
        load = Load(broker)
        load.wait_for(2_000)
        started_s = time.monotonic()
        broker.send(number)
        status = broker.wait()
        took_s = time.monotonic() - started_s
        load.stop()
        assert status == (-number if number == signal.SIGKILL else 0)
        assert took_s < 10
        broker.start()
        values = set(consumed(broker))
        assert load.acknowledged <= values


class Load:
    """A producer that sends continuously on its own thread."""

    def __init__(self, broker):
        self.acknowledged = set()
        self.sent = 0
        self._stopped = threading.Event()
        settings = {
            "bootstrap.servers": broker.address,
            "acks": "all",
            "message.timeout.ms": 1_000,
            "queue.buffering.max.messages": 5_000,
            "log_level": 0,
        }
        self._producer = Producer(settings)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        while not self._stopped.is_set():
            value = b"%d" % self.sent
            try:
                self._producer.produce("t", value, partition=0, on_delivery=self._on_delivery)
            except BufferError:
                self._producer.poll(0.05)
                continue
            self.sent += 1
            self._producer.poll(0)
        self._producer.flush(5)

    def _on_delivery(self, error, message):
        if error is None:
            self.acknowledged.add(message.value())

    def wait_for(self, count):
        wait_until(lambda: len(self.acknowledged) >= count)

    def stop(self):
        self._stopped.set()
        self._thread.join(TIMEOUT_S)


# Restart


def test_broker_keeps_its_id_and_cluster_id_after_a_restart(tmp_path, new_store):
    with BrokerProcess(tmp_path / "logs", *new_store()).start() as broker:
        first = meta_properties(broker.data_dir)
        broker.restart()
        assert meta_properties(broker.data_dir) == first
    assert int(first["broker.id"]) > 1000
    assert len(first["cluster.id"]) == 22


def test_records_survive_a_shutdown_and_a_kill(tmp_path, new_store):
    with BrokerProcess(tmp_path / "logs", *new_store()).start() as broker:
        produce(broker, b"a")
        broker.restart()
        produce(broker, b"b")
        broker.kill()
        broker.start()
        produce(broker, b"c")
        assert consumed(broker) == [b"a", b"b", b"c"]


def test_clients_find_the_topics_right_after_a_restart(tmp_path):
    with BrokerProcess(tmp_path / "logs", "num.partitions=20").start() as broker:
        produce(broker, b"a")
        for _ in range(3):
            broker.restart()
            admin = AdminClient({"bootstrap.servers": broker.address})
            partitions = admin.list_topics(timeout=TIMEOUT_S).topics["t"].partitions
            assert [partition.leader for partition in partitions.values()].count(-1) == 0
            assert len(partitions) == 20


# Resource limits, settings and logging


class BrokerWithFewFiles(BrokerProcess):
    def command(self):
        return ["sh", "-c", 'ulimit -Sn 200 && exec "$@"', "sh", *super().command()]


def test_soft_limit_on_open_files_is_raised_to_the_hard_limit(tmp_path):
    with BrokerWithFewFiles(tmp_path / "logs").start() as broker:
        soft, hard = resource.prlimit(broker.pid, resource.RLIMIT_NOFILE)
    assert soft == min(hard, 1 << 20)


def test_command_line_overrides_environment_and_environment_overrides_file(tmp_path, monkeypatch):
    file = tmp_path / "server.properties"
    file.write_text("broker.id=1\nnum.partitions=2\nnot.a.setting=1\n")
    monkeypatch.setenv("ODRADEK_BROKER_ID", "2")
    monkeypatch.setenv("ODRADEK_NUM_PARTITIONS", "3")
    with BrokerProcess(tmp_path / "logs", "broker.id=5", config=file).start() as broker:
        assert meta_properties(broker.data_dir)["broker.id"] == "5"
        topics = Producer({"bootstrap.servers": broker.address})
        wait_until(lambda: len(topics.list_topics("t", timeout=5).topics["t"].partitions) == 3)
    assert broker.log_text.count("not.a.setting") == 1


def test_requests_are_logged_at_trace_level(tmp_path):
    arguments = ("--log-level", "warning", "--log-level", "request=trace")
    with BrokerProcess(tmp_path / "logs", arguments=arguments).start() as broker:
        produce(broker, b"a")
    assert "TRACE" in broker.log_text
    assert "INFO controller" not in broker.log_text


def test_example_configuration_file_starts_a_broker(tmp_path):
    file = Path(__file__).parents[3] / "config" / "server.properties"
    with BrokerProcess(tmp_path / "logs", config=file).start() as broker:
        assert meta_properties(broker.data_dir)["broker.id"] == "0"


def test_failed_start_of_a_test_broker_quotes_its_log(tmp_path):
    broker = BrokerProcess(tmp_path / "logs", "broker.id=x")
    with pytest.raises(
        ServerFailed, match=r"ended with 1 before it was ready; it wrote\n.*broker.id=x"
    ):
        broker.start()
