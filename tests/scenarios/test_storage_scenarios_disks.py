"""S10: a disk that is full, broken or read-only takes its directory offline, and nothing more."""

import errno
import subprocess
import time

import pytest

from odradek.protocol.error_codes import ErrorCode
from tests.support.broker_process import BrokerProcess
from tests.support.client_driver import BEGINNING, Options, Sent
from tests.support.faulty_broker import FaultyBroker
from tests.support.logs import records_batch
from tests.support.partition_client import PartitionClient, create_topic

TOPIC = "kept"
PARTITIONS = 4
BEFORE = [b"a", b"b", b"c"]
ERRORS = {"full": errno.ENOSPC, "broken": errno.EIO, "read-only": errno.EROFS}
SMALL_INDEXES = "log.index.size.max.bytes=4096"
FAILED = 1
STOP_S = 10
WAIT_S = 20


@pytest.fixture
def directories(tmp_path):
    return [tmp_path / "first", tmp_path / "second"]


@pytest.fixture
def broker(tmp_path, directories):
    """With a topic in both of its directories."""
    log_dirs = f"log.dirs={','.join(map(str, directories))}"
    with FaultyBroker(tmp_path / "logs", log_dirs, SMALL_INDEXES).start() as running:
        create_topic(running.address, TOPIC, partitions=PARTITIONS, retention_ms=-1)
        for number in range(PARTITIONS):
            assert [sent(running, number, value) for value in BEFORE] == [0, 1, 2]
        yield running


def sent(broker, number, value):
    """Its offset, or the error."""
    with PartitionClient(broker.address, TOPIC, number) as partition:
        line = partition.produce(records_batch(value))
    return ErrorCode.for_code(line.error_code) if line.error_code else line.base_offset


def fetched(broker, number):
    with PartitionClient(broker.address, TOPIC, number) as partition:
        line = partition.fetch(0)
        if line.error_code:
            return ErrorCode.for_code(line.error_code)
        return [record.value for record in partition.records()]


def numbers_in(directory):
    """Of the partitions that are there."""
    found = sorted(int(path.name.rpartition("-")[2]) for path in directory.glob(f"{TOPIC}-*"))
    assert found
    return found


def wait_for(is_so):
    deadline = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def assert_offline(broker, numbers):
    for number in numbers:
        assert sent(broker, number, b"refused") is ErrorCode.KAFKA_STORAGE_ERROR
        assert fetched(broker, number) is ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize("at", [0, 1])
@pytest.mark.parametrize("error", ERRORS)
def test_s10_a_disk_that_fails_is_offline_until_a_restart_and_nothing_acked_is_lost(
    broker, directories, error, at
):
    sick, sound = directories[at], directories[1 - at]
    broker.fail(ERRORS[error], below=sick)
    assert_offline(broker, numbers_in(sick))
    for number in numbers_in(sound):
        assert sent(broker, number, b"d") == len(BEFORE)
        assert fetched(broker, number) == [*BEFORE, b"d"]
    broker.heal()
    assert_offline(broker, numbers_in(sick))
    assert broker.is_alive()
    broker.restart()
    for number in numbers_in(sick):
        assert fetched(broker, number) == BEFORE
        assert sent(broker, number, b"d") == len(BEFORE)
    for number in numbers_in(sound):
        assert fetched(broker, number) == [*BEFORE, b"d"]
    assert "Traceback" not in broker.log_text


def test_s10_clients_go_on_with_the_disk_that_is_left(broker, directories, driver):
    broker.fail(errno.EIO, below=directories[1])
    assert_offline(broker, numbers_in(directories[1]))
    number = numbers_in(directories[0])[0]
    values = [b"%d" % each for each in range(20)]
    with driver.producer(broker.address, Options(is_idempotent=True)) as producer:
        offsets = producer.send(TOPIC, [Sent(value, partition=number) for value in values])
    with driver.consumer(broker.address) as consumer:
        received = consumer.read(TOPIC, {number: BEGINNING}, count=len(BEFORE) + len(values))
    assert offsets == list(range(len(BEFORE), len(BEFORE) + len(values)))
    assert [each.value for each in received] == BEFORE + values
    broker.heal()


def test_s10_without_any_log_directory_the_broker_stops(broker, directories):
    for directory in directories:
        broker.fail(errno.EIO, below=directory)
        number = numbers_in(directory)[0]
        assert sent(broker, number, b"refused") is ErrorCode.KAFKA_STORAGE_ERROR
    assert broker.wait() == FAILED
    assert "all log dirs have failed" in broker.log_text
    broker.heal()
    broker.start()
    for number in range(PARTITIONS):
        assert fetched(broker, number) == BEFORE
        assert sent(broker, number, b"d") == len(BEFORE)


@pytest.fixture(params=[1], ids=[""])
def small_disk(request, directories):
    """A real one."""
    path = directories[request.param]
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(path)]
    try:
        mounted = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("there is no mount")
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    yield path
    subprocess.run(["umount", str(path)], check=True)


def test_s10_a_disk_that_fills_up_refuses_what_does_not_fit(small_disk, tmp_path, directories):
    log_dirs = f"log.dirs={','.join(map(str, directories))}"
    with BrokerProcess(tmp_path / "logs", log_dirs, SMALL_INDEXES).start() as broker:
        create_topic(broker.address, TOPIC, partitions=PARTITIONS, retention_ms=-1)
        number = numbers_in(small_disk)[0]
        values = []
        while (outcome := sent(broker, number, b"%d" % len(values) + bytes(20_000))) == len(values):
            values.append(b"%d" % len(values) + bytes(20_000))
        assert outcome is ErrorCode.KAFKA_STORAGE_ERROR
        assert 10 < len(values) < 30
        assert sent(broker, numbers_in(directories[0])[0], b"elsewhere") == 0
        broker.stop()
        enlarged = ["mount", "-o", "remount,size=4m", str(small_disk)]
        subprocess.run(enlarged, check=True)
        broker.start()
        assert fetched(broker, number) == values
        assert sent(broker, number, b"next") == len(values)


@pytest.mark.parametrize("small_disk", [0], indirect=True)
def test_s10_where_the_metadata_is_on_a_disk_that_fills_up_the_other_is_served(
    small_disk, tmp_path, directories
):
    log_dirs = f"log.dirs={','.join(map(str, directories))}"
    with BrokerProcess(tmp_path / "logs", log_dirs, SMALL_INDEXES).start() as broker:
        create_topic(broker.address, TOPIC, partitions=PARTITIONS, retention_ms=-1)
        full, sound = numbers_in(small_disk)[0], numbers_in(directories[1])[0]
        while isinstance(outcome := sent(broker, full, bytes(20_000)), int):
            continue
        assert outcome is ErrorCode.KAFKA_STORAGE_ERROR
        assert [sent(broker, sound, value) for value in (b"a", b"b")] == [0, 1]
        wait_for(lambda: "Cannot open a session with the metadata store" in broker.log_text)
        broker.stop(timeout_s=STOP_S)
        assert broker.log_text.count("Cannot open a session with the metadata store") == 1
        assert "Traceback" not in broker.log_text
        subprocess.run(["mount", "-o", "remount,size=4m", str(small_disk)], check=True)
        broker.start()
        assert fetched(broker, sound) == [b"a", b"b"]
        create_topic(broker.address, "another")
