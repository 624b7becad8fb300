"""Responses to clients that connect while the broker starts."""

import time

from odradek.protocol.api_keys import ApiKey
from tests.support.broker_process import BrokerProcess
from tests.support.minimal_requests import create
from tests.support.wire_client import HungUp, WireClient

TOPIC = "there-all-along"
TIMEOUT_S = 30
STARTS = 3


def first_metadata(address):
    """Requests metadata as soon as a connection is accepted."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            with WireClient(address) as client:
                topics = [{"name": TOPIC}]
                return client.call(
                    ApiKey.METADATA, 9, topics=topics, allow_auto_topic_creation=False
                )
        except (ConnectionError, HungUp):
            assert time.monotonic() < deadline
            time.sleep(0.001)


def test_metadata_during_startup_has_the_topic_and_the_broker(tmp_path, new_store):
    with BrokerProcess(tmp_path / "logs", *new_store()).start() as broker:
        create(broker.address, TOPIC)
        for _ in range(STARTS):
            broker.stop()
            broker.launch()
            response = first_metadata(broker.address)
            assert len(response.brokers) == 1
            (topic,) = response.topics
            assert topic.error_code == 0
            assert [partition.error_code for partition in topic.partitions] == [0]
            broker.wait_until_ready()
