"""What a client is told that comes while the broker still starts."""

import time

from odradek.protocol.api_keys import ApiKey
from tests.support.broker_process import BrokerProcess
from tests.support.minimal_requests import create
from tests.support.wire_client import HungUp, WireClient

TOPIC = "there-all-along"
TIMEOUT_S = 30
STARTS = 3


def first_metadata(address):
    """Asked for as soon as anybody listens."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            with WireClient(address) as client:
                asked = [{"name": TOPIC}]
                return client.call(
                    ApiKey.METADATA, 9, topics=asked, allow_auto_topic_creation=False
                )
        except (ConnectionError, HungUp):
            assert time.monotonic() < deadline
            time.sleep(0.001)


def test_nobody_is_told_that_a_topic_or_the_broker_is_not_there(tmp_path, new_store):
    with BrokerProcess(tmp_path / "logs", *new_store()).start() as broker:
        create(broker.address, TOPIC)
        for _ in range(STARTS):
            broker.stop()
            broker.launch()
            answer = first_metadata(broker.address)
            assert len(answer.brokers) == 1
            (topic,) = answer.topics
            assert topic.error_code == 0
            assert [each.error_code for each in topic.partitions] == [0]
            broker.wait_until_ready()
