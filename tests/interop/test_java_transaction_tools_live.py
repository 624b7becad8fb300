"""Kafka's tool for transactions, of two releases, on a broker of ours."""

import pytest
from confluent_kafka import Producer

from tests.interop.test_java_clients_live import in_transaction, log_of
from tests.interop.test_java_tools_live import run, tools
from tests.support.batches import batch_of
from tests.support.broker_process import BrokerProcess
from tests.support.committed_records import committed_values
from tests.support.java_conversation import jars
from tests.support.new_topics import new_topic
from tests.support.partition_client import PartitionClient

__all__ = ["jars", "new_topic", "run", "tools"]

BROKER_ID = 3
TIMEOUT_S = 20
PRODUCER_OF_NOBODY = 5_001


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    data_dir = tmp_path_factory.mktemp("broker") / "logs"
    with BrokerProcess(data_dir, f"broker.id={BROKER_ID}").start() as running:
        yield running


@pytest.fixture
def opened(broker, new_topic):
    """A transaction in mid-flight: its topic and the id of its producer."""
    topic = new_topic()
    producer = Producer({"bootstrap.servers": broker.address, "transactional.id": f"id-of-{topic}"})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(topic, b"open")
    assert producer.flush(TIMEOUT_S) == 0
    yield topic
    producer.abort_transaction(TIMEOUT_S)


def rows(ended):
    """The table that a tool has printed."""
    heading, *lines = [line.split() for line in ended.lines if line.strip()]
    return [dict(zip(heading, line, strict=False)) for line in lines]


def test_open_transactions_are_listed_and_described(run, broker, opened):
    name = f"id-of-{opened}"
    (listed,) = [
        each for each in rows(run("TransactionsCommand", "list")) if each["TransactionalId"] == name
    ]
    assert listed["TransactionState"] == "Ongoing"
    assert listed["Coordinator"] == str(BROKER_ID)
    (described,) = rows(run("TransactionsCommand", "describe", "--transactional-id", name))
    assert described["TransactionState"] == "Ongoing"
    assert described["ProducerId"] == listed["ProducerId"]
    assert described["TopicPartitions"] == f"{opened}-0"
    asked = ("--topic", opened, "--partition", "0")
    (producer,) = rows(run("TransactionsCommand", "describe-producers", *asked))
    assert producer["ProducerId"] == listed["ProducerId"]
    assert producer["CurrentTransactionStartOffset"] == "0"
    assert rows(run("TransactionsCommand", "find-hanging", "--broker-id", BROKER_ID)) == []


def test_a_transaction_that_hangs_is_found_and_aborted(run, broker, new_topic):
    topic = new_topic()
    # What a producer sent too late, before brokers verified it.
    broker.kill()
    with log_of(broker, topic).open("ab") as log:
        log.write(in_transaction(b"hanging", producer_id=PRODUCER_OF_NOBODY, offset=0))
    broker.start()
    (found,) = rows(run("TransactionsCommand", "find-hanging", "--broker-id", BROKER_ID))
    assert (found["Topic"], found["ProducerId"]) == (topic, str(PRODUCER_OF_NOBODY))
    with PartitionClient(broker.address, topic) as client:
        client.produce(batch_of(b"after"))
        assert committed_values(client) == []
        asked = ("--topic", topic, "--partition", "0", "--start-offset", found["StartOffset"])
        run("TransactionsCommand", "abort", *asked)
        assert committed_values(client) == [b"after"]
    assert rows(run("TransactionsCommand", "find-hanging", "--broker-id", BROKER_ID)) == []
