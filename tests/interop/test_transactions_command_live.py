"""``odradek transactions`` on Apache Kafka 4.1: what it does on our broker, it does there.

The tests are those of tests/broker/cli, taken over with a broker that lets transactions hang.
"""

import pytest

from odradek.protocol.api_keys import ApiKey
from tests.broker.cli.transactions import test_command as test_transactions
from tests.broker.cli.transactions.test_command import leaderless
from tests.interop.test_groups_command_live import Running, command, taken_over
from tests.support.apache_kafka import kraft_broker
from tests.support.group_members import wait_until
from tests.support.partition_client import EARLIEST, create_topic
from tests.support.wire_client import call, error_codes

__all__ = ["command", "leaderless"]

PARTITIONS = 3


@pytest.fixture(scope="module")
def broker(kafka_41_jars, tmp_path_factory):
    directory = tmp_path_factory.mktemp("kafka-4.1-transactions")
    settings = dict(setting.split("=") for setting in test_transactions.SETTINGS)
    with kraft_broker(directory, properties=settings) as running:
        yield Running(running.bootstrap)


@pytest.fixture
def topic(broker):
    """Kafka tells of it before it leads it."""
    name = f"events-{next(test_transactions.numbers)}"
    create_topic(broker.address, name, partitions=PARTITIONS)
    partitions = [
        {"partition_index": number, "timestamp": EARLIEST} for number in range(PARTITIONS)
    ]
    asked = {"replica_id": -1, "topics": [{"name": name, "partitions": partitions}]}
    wait_until(lambda: error_codes(call(broker.address, ApiKey.LIST_OFFSETS, 7, **asked)) == {0})
    return name


globals().update(taken_over(test_transactions, {"new_producer", "name", "partition"}))
