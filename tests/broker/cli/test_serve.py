"""``odradek serve`` as a process: starting, being refused, being stopped, and coming back."""

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

from odradek.broker.store import FILE_NAME
from tests.support.broker_process import BrokerProcess
from tests.support.server_process import ServerFailed

SERVE = [sys.executable, "-m", "odradek.broker.cli.main", "serve"]
TIMEOUT_S = 30


def refused(*arguments, env=None):
    """The complaint of a broker that does not start."""
    ran = subprocess.run(
        [*SERVE, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        env={**os.environ, **(env or {})},
    )
    assert (ran.returncode, ran.stdout) == (1, "")
    complaints = [line for line in ran.stderr.splitlines() if line.startswith("odradek: ")]
    assert len(complaints) == 1, ran.stderr
    assert "Traceback" not in ran.stderr
    return complaints[0]


def wait_until(is_so, *, timeout_s=TIMEOUT_S):
    deadline = time.monotonic() + timeout_s
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def produce(broker, *values):
    producer = Producer({"bootstrap.servers": broker.address, "acks": "all"})
    for value in values:
        producer.produce("t", value)
    assert producer.flush(TIMEOUT_S) == 0


def consumed(broker):
    """All values that are there now, in order."""
    settings = {"bootstrap.servers": broker.address, "group.id": "none"}
    consumer = Consumer({**settings, "enable.auto.commit": False})
    try:
        place = TopicPartition("t", 0, 0)
        _, end = consumer.get_watermark_offsets(place, timeout=TIMEOUT_S)
        consumer.assign([place])
        values = []
        deadline = time.monotonic() + TIMEOUT_S
        while len(values) < end and time.monotonic() < deadline:
            messages = consumer.consume(min(10_000, end - len(values)), timeout=1)
            values += [message.value() for message in messages]
        return values
    finally:
        consumer.close()


def facts(data_dir):
    lines = (data_dir / "meta.properties").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


# Being ready


def test_the_ready_line_is_all_that_goes_to_standard_output(tmp_path):
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


def test_nobody_need_read_the_ready_line(tmp_path):
    reading, writing = os.pipe()
    os.close(reading)
    ready_file = tmp_path / "ready"
    arguments = ["--data-dir", tmp_path / "logs", "--port", 0, "--ready-file", ready_file]
    process = subprocess.Popen(
        [*SERVE, *map(str, arguments)], stdout=writing, stderr=subprocess.DEVNULL
    )
    os.close(writing)
    try:
        wait_until(ready_file.exists)
        process.terminate()
        assert process.wait(TIMEOUT_S) == 0
    finally:
        process.kill()
        process.wait()


def test_the_ready_file_of_an_earlier_broker_is_gone_before_the_start(tmp_path):
    ready_file = tmp_path / "ready"
    ready_file.write_text("127.0.0.1:9\n")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused("--data-dir", tmp_path / "logs", "--port", port, "--ready-file", ready_file)
    assert not ready_file.exists()


# Being refused


def test_a_second_broker_on_a_directory_is_refused_and_the_first_goes_on(tmp_path, new_store):
    with BrokerProcess(tmp_path / "logs", *new_store()).start() as broker:
        complaint = refused("--data-dir", broker.data_dir, "--port", 0)
        assert f"{broker.data_dir} is in use" in complaint
        produce(broker, b"still here")
        assert consumed(broker) == [b"still here"]


def test_a_port_in_use_is_one_line_and_leaves_the_directory_free(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        complaint = refused("--data-dir", tmp_path / "logs", "--port", port)
    assert f"127.0.0.1:{port} cannot be listened on: Address already in use" in complaint
    with BrokerProcess(tmp_path / "logs").start():
        pass


def test_a_bad_setting_is_told_with_file_line_name_and_reason(tmp_path):
    file = tmp_path / "server.properties"
    file.write_text("# mine\nbroker.id=1\nlog.segment.bytes=large\n")
    complaint = refused("--config", file, "--data-dir", tmp_path / "logs")
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
        (["--config", "missing.properties"], {}, "missing.properties: No such file"),
        (["--port", "70000"], {}, "must have ports between 0 and 65535"),
        (["--log-level", "loud"], {}, "--log-level loud: a level is one of"),
        (["--ready-file", "missing/ready"], {}, "--ready-file missing/ready: No such file"),
        (["--port", "0"], {"PYTHONOPTIMIZE": "1"}, "python -O leaves out checks"),
    ],
)
def test_what_makes_no_sense_is_told_in_one_line(tmp_path, arguments, env, complaint):
    assert complaint in refused("--data-dir", tmp_path / "logs", *arguments, env=env)


def test_a_directory_that_cannot_be_used_ends_the_start(tmp_path):
    (tmp_path / "file").write_text("")
    complaint = refused("--data-dir", tmp_path / "file", "--port", 0)
    assert complaint == "odradek: no log directory can be used; the lines above say why"


def test_a_directory_of_another_broker_is_refused(tmp_path):
    with BrokerProcess(tmp_path / "logs", "broker.id=3").start():
        pass
    complaint = refused("--data-dir", tmp_path / "logs", "--port", 0, "--override", "broker.id=4")
    assert "meta.properties: broker.id is 3, but this broker has 4" in complaint


def test_a_directory_of_another_cluster_is_refused(tmp_path):
    for name in ("one", "two"):
        with BrokerProcess(tmp_path / name).start():
            pass
    theirs, ours = (facts(tmp_path / name)["cluster.id"] for name in ("one", "two"))
    shutil.copy(tmp_path / "one" / "meta.properties", tmp_path / "two" / "meta.properties")
    complaint = refused("--data-dir", tmp_path / "two", "--port", 0)
    assert f"meta.properties: cluster.id is {theirs}, but this broker has {ours}" in complaint


# Being stopped


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_stops_it_cleanly_and_is_logged(tmp_path, new_store, number):
    with BrokerProcess(tmp_path / "logs", *new_store()).start() as broker:
        broker.send(number)
        assert broker.wait() == 0
    assert f"{number.name}: the broker stops" in broker.log_text
    assert (broker.data_dir / ".kafka_cleanshutdown").exists()


@pytest.mark.parametrize("begun", [".lock", FILE_NAME, "meta.properties"])
def test_a_signal_during_the_start_undoes_it(tmp_path, begun):
    broker = BrokerProcess(tmp_path / "logs")
    with broker:
        broker.launch()
        wait_until((broker.data_dir / begun).exists)
        broker.send(signal.SIGTERM)
        assert broker.wait() == 0
        assert "SIGTERM: the broker stops" in broker.log_text
        assert "Traceback" not in broker.log_text
        broker.start()


@pytest.mark.parametrize("workers", [1, 2])
def test_a_signal_during_recovery_leaves_the_rest_to_the_next_start(tmp_path, workers):
    partitions = 100
    settings = (f"num.partitions={partitions}", f"num.recovery.threads.per.data.dir={workers}")
    with BrokerProcess(tmp_path / "logs", *settings).start() as broker:
        produce(broker, b"a")
        broker.kill()
        broker.launch()
        wait_until(lambda: f"0 of {partitions} logs are recovered" in broker.log_text)
        broker.send(signal.SIGTERM)
        assert broker.wait() == 0
        assert "Traceback" not in broker.log_text
        assert f"{partitions} of {partitions} logs are recovered" not in broker.log_text
        assert not (broker.data_dir / ".kafka_cleanshutdown").exists()
        broker.start()
        assert f"{partitions} of {partitions} logs are recovered" in broker.log_text


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_what_was_acknowledged_under_load_is_there_after_the_end(tmp_path, new_store, number):
    with BrokerProcess(tmp_path / "logs", *new_store()).start() as broker:
        load = Load(broker)
        load.wait_for(2_000)
        began_s = time.monotonic()
        broker.send(number)
        status = broker.wait()
        took_s = time.monotonic() - began_s
        load.stop()
        assert status == (-number if number == signal.SIGKILL else 0)
        assert took_s < 10
        broker.start()
        there = set(consumed(broker))
        assert load.acknowledged <= there


class Load:
    """A producer that never rests, on a thread of its own."""

    def __init__(self, broker):
        self.acknowledged = set()
        self.sent = 0
        self._is_over = threading.Event()
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
        while not self._is_over.is_set():
            value = b"%d" % self.sent
            try:
                self._producer.produce("t", value, partition=0, on_delivery=self._delivered)
            except BufferError:
                self._producer.poll(0.05)
                continue
            self.sent += 1
            self._producer.poll(0)
        self._producer.flush(5)

    def _delivered(self, error, message):
        if error is None:
            self.acknowledged.add(message.value())

    def wait_for(self, count):
        wait_until(lambda: len(self.acknowledged) >= count)

    def stop(self):
        self._is_over.set()
        self._thread.join(TIMEOUT_S)


# Coming back


def test_a_broker_keeps_its_id_and_its_cluster(tmp_path, new_store):
    with BrokerProcess(tmp_path / "logs", *new_store()).start() as broker:
        first = facts(broker.data_dir)
        broker.restart()
        assert facts(broker.data_dir) == first
    assert int(first["broker.id"]) > 1000
    assert len(first["cluster.id"]) == 22


def test_records_are_there_after_a_stop_and_after_a_kill(tmp_path, new_store):
    with BrokerProcess(tmp_path / "logs", *new_store()).start() as broker:
        produce(broker, b"a")
        broker.restart()
        produce(broker, b"b")
        broker.kill()
        broker.start()
        produce(broker, b"c")
        assert consumed(broker) == [b"a", b"b", b"c"]


def test_clients_that_come_at_once_find_the_topics(tmp_path):
    with BrokerProcess(tmp_path / "logs", "num.partitions=20").start() as broker:
        produce(broker, b"a")
        for _ in range(3):
            broker.restart()
            admin = AdminClient({"bootstrap.servers": broker.address})
            partitions = admin.list_topics(timeout=TIMEOUT_S).topics["t"].partitions
            assert [each.leader for each in partitions.values()].count(-1) == 0
            assert len(partitions) == 20


# What else it takes from its surroundings


class FewFiles(BrokerProcess):
    def command(self):
        return ["sh", "-c", 'ulimit -Sn 200 && exec "$@"', "sh", *super().command()]


def test_the_soft_limit_on_open_files_is_raised_to_the_hard_one(tmp_path):
    with FewFiles(tmp_path / "logs").start() as broker:
        soft, hard = resource.prlimit(broker.pid, resource.RLIMIT_NOFILE)
    assert soft == min(hard, 1 << 20)


def test_settings_come_from_file_environment_and_command_line_the_last_first(tmp_path, monkeypatch):
    file = tmp_path / "server.properties"
    file.write_text("broker.id=1\nnum.partitions=2\nnot.a.setting=1\n")
    monkeypatch.setenv("ODRADEK_BROKER_ID", "2")
    monkeypatch.setenv("ODRADEK_NUM_PARTITIONS", "3")
    with BrokerProcess(tmp_path / "logs", "broker.id=5", config=file).start() as broker:
        assert facts(broker.data_dir)["broker.id"] == "5"
        topics = Producer({"bootstrap.servers": broker.address})
        wait_until(lambda: len(topics.list_topics("t", timeout=5).topics["t"].partitions) == 3)
    assert broker.log_text.count("not.a.setting") == 1


def test_requests_are_logged_on_demand(tmp_path):
    arguments = ("--log-level", "warning", "--log-level", "request=trace")
    with BrokerProcess(tmp_path / "logs", arguments=arguments).start() as broker:
        produce(broker, b"a")
    assert "TRACE" in broker.log_text
    assert "INFO controller" not in broker.log_text


def test_the_example_file_starts_a_broker(tmp_path):
    file = Path(__file__).parents[3] / "config" / "server.properties"
    with BrokerProcess(tmp_path / "logs", config=file).start() as broker:
        assert facts(broker.data_dir)["broker.id"] == "0"


def test_a_broker_that_cannot_start_quotes_its_log_in_the_tests(tmp_path):
    broker = BrokerProcess(tmp_path / "logs", "broker.id=x")
    with pytest.raises(
        ServerFailed, match=r"ended with 1 before it was ready; it wrote\n.*broker.id=x"
    ):
        broker.start()
