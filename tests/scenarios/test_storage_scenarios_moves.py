"""A replica on its way to another directory, whose disk fails or is away for a while."""

import shutil
import time
from uuid import uuid4

import pytest

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.error_codes import ErrorCode
from tests.support.logs import records_batch
from tests.support.partition_client import TIMEOUT_MS, PartitionClient, create_topic
from tests.support.sick_disk import SickDiskBroker
from tests.support.wire_client import call

TOPIC = "moving"
OLD, NEW = [b"a", b"b", b"c"], [b"1", b"2", b"3", b"4", b"5"]
WAIT_S = 30


@pytest.fixture
def directories(tmp_path):
    return [tmp_path / "first", tmp_path / "second"]


@pytest.fixture
def broker(tmp_path, directories):
    """With a topic in the first of its directories."""
    log_dirs = f"log.dirs={','.join(map(str, directories))}"
    with SickDiskBroker(tmp_path / "logs", log_dirs).start() as running:
        create_topic(running.address, TOPIC)
        send(running, OLD)
        assert (directories[0] / f"{TOPIC}-0").exists()
        yield running
    assert "Traceback" not in running.log_text


def send(broker, values):
    with PartitionClient(broker.address, TOPIC) as partition:
        assert [partition.produce(records_batch(value)).error_code for value in values] == [
            0 for _ in values
        ]


def values(broker):
    with PartitionClient(broker.address, TOPIC) as partition:
        return [record.value for record in partition.records()]


def move(broker, target):
    asked = [{"path": str(target), "topics": [{"name": TOPIC, "partitions": [0]}]}]
    answer = call(broker.address, ApiKey.ALTER_REPLICA_LOG_DIRS, 2, dirs=asked)
    return ErrorCode.for_code(answer.results[0].partitions[0].error_code)


def delete(broker):
    asked = {"topics": [{"name": TOPIC}], "timeout_ms": TIMEOUT_MS}
    assert call(broker.address, ApiKey.DELETE_TOPICS, 6, **asked).responses[0].error_code == 0
    wait_for(lambda: is_deleted(broker))


def is_deleted(broker):
    """Whether a topic of that name may be made."""
    asked = {"name": TOPIC, "num_partitions": 1, "replication_factor": 1}
    request = {"topics": [asked], "timeout_ms": TIMEOUT_MS, "validate_only": True}
    return not call(broker.address, ApiKey.CREATE_TOPICS, 7, **request).topics[0].error_code


def wait_for(is_so):
    deadline = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_topic_can_be_deleted_though_the_disk_failed_to_which_it_moved(broker, directories):
    second = directories[1]
    broker.hang_syncs(second)
    assert move(broker, second) is ErrorCode.NONE
    broker.wait_until_hanging(second)
    broker.fail_syncs(second)
    wait_for(lambda: "Aborted moving" in broker.log_text)
    assert values(broker) == OLD
    delete(broker)
    create_topic(broker.address, TOPIC)
    send(broker, NEW)
    broker.heal()
    broker.restart()
    assert values(broker) == NEW


def test_what_is_left_of_a_deleted_topic_on_a_disk_that_was_away_is_not_read_again(
    broker, directories, tmp_path
):
    first, second = directories
    broker.stop()
    # As a move leaves it that a kill has ended.
    copy = second / f"{TOPIC}-0.{uuid4().hex}-future"
    shutil.copytree(first / f"{TOPIC}-0", copy)
    second.rename(tmp_path / "away")
    second.touch()
    broker.start()
    delete(broker)
    create_topic(broker.address, TOPIC)
    send(broker, NEW)
    broker.stop()
    second.unlink()
    (tmp_path / "away").rename(second)
    broker.start()
    wait_for(lambda: not copy.exists())
    assert values(broker) == NEW
