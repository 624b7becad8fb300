"""Batches of hundreds of thousands of tiny records, on a broker process, and others meanwhile."""

import os
import signal
import sys
import time
from functools import cache
from pathlib import Path

import pytest

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.records.compression import Codec
from tests.support.broker_process import BrokerProcess, broker
from tests.support.large_batches import large_batch
from tests.support.legacy_messages import message
from tests.support.partition_client import PartitionClient, create_topic
from tests.support.wire_client import WireClient

__all__ = ["broker"]

COUNT = 300_000
LARGEST = -3
#: Of which others get at most one or two if the loop is held meanwhile.
ANSWERS_MIN = 5
TIMEOUT_S = 30


@cache
def large():
    """Whose last record is the youngest."""
    return bytes(large_batch(COUNT, timestamps=range(COUNT), codec=Codec.ZSTD))


def answers_meanwhile(address, waiting):
    """How many another client gets before ``waiting`` is answered, as far as it matters."""
    count = 0
    with WireClient(address) as other:
        while count < ANSWERS_MIN and not waiting.is_answered():
            other.call(ApiKey.API_VERSIONS, 0)
            count += 1
    return count


@pytest.mark.parametrize(
    ("topic", "configs", "records", "version"),
    [
        ("compacted", {"cleanup_policy": "compact"}, large, 9),
        ("bounded", {"message_timestamp_before_max_ms": 2**62}, large, 9),
        ("recompressed", {"compression_type": "lz4", "max_message_bytes": 2**30}, large, 9),
        ("old", {}, lambda: message(1, b"v") * 25_000, 2),
    ],
)
def test_others_are_answered_while_the_records_of_a_batch_are_read(
    broker, topic, configs, records, version
):
    create_topic(broker.address, topic, **configs)
    with PartitionClient(broker.address, topic) as client:
        values = client.produce_values(records())
        for base_offset in (0, 1):
            client.wire.send(ApiKey.PRODUCE, version, **values)
            assert answers_meanwhile(broker.address, client.wire) == ANSWERS_MIN
            answer = client.answer_to_produce(client.wire.answer(ApiKey.PRODUCE, version))
            assert (answer.error_code, answer.base_offset > 0) == (0, base_offset > 0)


def test_others_are_answered_while_an_offset_is_looked_for(broker):
    create_topic(broker.address, "looked-at")
    with PartitionClient(broker.address, "looked-at") as client:
        assert client.produce(large()).error_code == 0
        for timestamp, offset in ((LARGEST, COUNT - 1), (COUNT - 1, COUNT - 1)):
            asked = {"partition_index": 0, "timestamp": timestamp}
            topics = [{"name": "looked-at", "partitions": [asked]}]
            client.wire.send(
                ApiKey.LIST_OFFSETS, 7, replica_id=-1, isolation_level=0, topics=topics
            )
            assert answers_meanwhile(broker.address, client.wire) == ANSWERS_MIN
            answer = client.wire.answer(ApiKey.LIST_OFFSETS, 7)
            assert answer.topics[0].partitions[0].offset == offset


def test_the_requests_of_a_connection_keep_their_order(broker):
    create_topic(broker.address, "ordered", cleanup_policy="compact")
    small = large_batch(1)
    with PartitionClient(broker.address, "ordered") as client:
        for batch in (small, large(), small, large(), small):
            client.wire.send(ApiKey.PRODUCE, 9, **client.produce_values(batch))
        bodies = [client.wire.answer_bytes() for _ in range(5)]
        assert [int.from_bytes(body[:4], "big") for body in bodies] == [1, 2, 3, 4, 5]
        batches = []
        while len(batches) < 5:
            batches += client.batches(batches[-1].next_offset if batches else 0)
    assert [batch.count for batch in batches] == [1, COUNT, 1, COUNT, 1]


@pytest.mark.skipif(sys.platform != "linux", reason="children are found in /proc")
def test_a_batch_is_appended_once_although_whoever_reads_it_is_killed(tmp_path):
    with BrokerProcess(tmp_path / "logs").start() as broker:
        create_topic(broker.address, "killed", cleanup_policy="compact")
        with PartitionClient(broker.address, "killed") as client:
            client.wire.send(ApiKey.PRODUCE, 9, **client.produce_values(large()))
            os.kill(reading_process(broker), signal.SIGKILL)
            answer = client.answer_to_produce(client.wire.answer(ApiKey.PRODUCE, 9))
            assert (answer.error_code, answer.base_offset) == (0, 0)
            assert client.produce(large()).base_offset == COUNT


@pytest.mark.skipif(sys.platform != "linux", reason="children are found in /proc")
def test_a_broker_that_is_stopped_meanwhile_stops_well(tmp_path):
    with BrokerProcess(tmp_path / "logs").start() as broker:
        create_topic(broker.address, "stopped", cleanup_policy="compact")
        with PartitionClient(broker.address, "stopped") as client:
            client.wire.send(ApiKey.PRODUCE, 9, **client.produce_values(large()))
            reading_process(broker)
            broker.stop()


@pytest.mark.skipif(sys.platform != "linux", reason="children are found in /proc")
def test_a_broker_that_is_killed_leaves_no_process_behind(tmp_path):
    with BrokerProcess(tmp_path / "logs").start() as broker:
        create_topic(broker.address, "left", cleanup_policy="compact")
        with PartitionClient(broker.address, "left") as client:
            client.wire.send(ApiKey.PRODUCE, 9, **client.produce_values(large()))
            reader = reading_process(broker)
            broker.kill()
    deadline = time.monotonic() + TIMEOUT_S
    while Path(f"/proc/{reader}").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def reading_process(broker):
    """The process that the broker has started to read records."""
    children = Path(f"/proc/{broker.pid}/task/{broker.pid}/children")
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        for child in children.read_text().split():
            if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes():
                return int(child)
        time.sleep(0.01)
    raise AssertionError("nobody reads")
