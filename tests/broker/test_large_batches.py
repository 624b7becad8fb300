"""A broker process serves other clients while it reads batches of 300,000 tiny records."""

import os
import signal
import time
from contextlib import contextmanager
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
from tests.support.worker_processes import of_linux, worker_of

__all__ = ["broker"]

COUNT = 300_000
LARGEST = -3
OTHERS = 20
TIMEOUT_S = 30


@cache
def build_large_batch():
    """Returns a batch whose last record has the largest timestamp."""
    return bytes(large_batch(COUNT, timestamps=range(COUNT), codec=Codec.ZSTD))


@pytest.fixture(scope="module")
def reader(broker):
    """Returns the pid of the process that reads records."""
    create_topic(broker.address, "first", cleanup_policy="compact")
    with PartitionClient(broker.address, "first") as client:
        assert client.produce(build_large_batch()).error_code == 0
    return worker_of(broker)


@contextmanager
def others_are_served(broker, reader, waiting):
    """The request that is sent here waits for a suspended process; other clients are served.

    The result does not depend on the time to read records, nor on the load of the machine.
    """
    os.kill(reader, signal.SIGSTOP)
    try:
        yield
        with WireClient(broker.address) as other:
            for _ in range(OTHERS):
                other.call(ApiKey.API_VERSIONS, 0)
        assert not waiting.is_answered()
    finally:
        os.kill(reader, signal.SIGCONT)


@of_linux
@pytest.mark.parametrize(
    ("topic", "configs", "records", "version"),
    [
        ("compacted", {"cleanup_policy": "compact"}, build_large_batch, 9),
        ("bounded", {"message_timestamp_before_max_ms": 2**62}, build_large_batch, 9),
        (
            "recompressed",
            {"compression_type": "lz4", "max_message_bytes": 2**30},
            build_large_batch,
            9,
        ),
        ("old", {}, lambda: message(1, b"v") * 25_000, 2),
    ],
)
def test_others_are_served_while_the_records_of_a_batch_are_validated(
    broker, reader, topic, configs, records, version
):
    create_topic(broker.address, topic, **configs)
    with PartitionClient(broker.address, topic) as client:
        values = client.produce_values(records())
        for is_first in (True, False):
            with others_are_served(broker, reader, client.wire):
                client.wire.send(ApiKey.PRODUCE, version, **values)
            response = client.answer_to_produce(client.wire.answer(ApiKey.PRODUCE, version))
            assert (response.error_code, response.base_offset == 0) == (0, is_first)


@of_linux
def test_others_are_served_during_an_offset_lookup(broker, reader):
    create_topic(broker.address, "looked-at", retention_ms=-1)  # the records are from 1970
    with PartitionClient(broker.address, "looked-at") as client:
        assert client.produce(build_large_batch()).error_code == 0
        for timestamp, offset in ((LARGEST, COUNT - 1), (COUNT - 1, COUNT - 1)):
            partition = {"partition_index": 0, "timestamp": timestamp}
            topics = [{"name": "looked-at", "partitions": [partition]}]
            request = {"replica_id": -1, "isolation_level": 0, "topics": topics}
            with others_are_served(broker, reader, client.wire):
                client.wire.send(ApiKey.LIST_OFFSETS, 7, **request)
            response = client.wire.answer(ApiKey.LIST_OFFSETS, 7)
            assert response.topics[0].partitions[0].offset == offset


def test_requests_of_a_connection_keep_their_order(broker):
    create_topic(broker.address, "ordered", cleanup_policy="compact")
    small = large_batch(1)
    with PartitionClient(broker.address, "ordered") as client:
        for batch in (small, build_large_batch(), small, build_large_batch(), small):
            client.wire.send(ApiKey.PRODUCE, 9, **client.produce_values(batch))
        bodies = [client.wire.answer_bytes() for _ in range(5)]
        assert [int.from_bytes(body[:4], "big") for body in bodies] == [1, 2, 3, 4, 5]
        batches = []
        while len(batches) < 5:
            batches += client.batches(batches[-1].next_offset if batches else 0)
    assert [batch.count for batch in batches] == [1, COUNT, 1, COUNT, 1]


@of_linux
def test_batch_is_appended_once_if_the_reading_process_is_killed(tmp_path):
    with BrokerProcess(tmp_path / "logs").start() as broker:
        create_topic(broker.address, "killed", cleanup_policy="compact")
        with PartitionClient(broker.address, "killed") as client:
            client.wire.send(ApiKey.PRODUCE, 9, **client.produce_values(build_large_batch()))
            os.kill(worker_of(broker), signal.SIGKILL)
            response = client.answer_to_produce(client.wire.answer(ApiKey.PRODUCE, 9))
            assert (response.error_code, response.base_offset) == (0, 0)
            assert client.produce(build_large_batch()).base_offset == COUNT


@of_linux
def test_broker_stops_cleanly_while_a_batch_is_validated(tmp_path):
    with BrokerProcess(tmp_path / "logs").start() as broker:
        create_topic(broker.address, "stopped", cleanup_policy="compact")
        with PartitionClient(broker.address, "stopped") as client:
            client.wire.send(ApiKey.PRODUCE, 9, **client.produce_values(build_large_batch()))
            worker_of(broker)
            broker.stop()


@of_linux
def test_killed_broker_leaves_no_process_behind(tmp_path):
    with BrokerProcess(tmp_path / "logs").start() as broker:
        create_topic(broker.address, "left", cleanup_policy="compact")
        with PartitionClient(broker.address, "left") as client:
            client.wire.send(ApiKey.PRODUCE, 9, **client.produce_values(build_large_batch()))
            reader = worker_of(broker)
            broker.kill()
    deadline = time.monotonic() + TIMEOUT_S
    while Path(f"/proc/{reader}").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
