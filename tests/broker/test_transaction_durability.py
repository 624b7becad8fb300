"""Transactions survive kills and deleted topics; unused transactional ids expire."""

import pytest

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.error_codes import ErrorCode
from tests.support.broker_process import BrokerProcess
from tests.support.group_members import wait_until
from tests.support.partition_client import create_topic
from tests.support.wire_client import call

NAME = "copier"
SHORT_CLEANUP_INTERVAL = ["transaction.remove.expired.transaction.cleanup.interval.ms=100"]


@pytest.fixture
def new_broker(tmp_path):
    brokers = []

    def make(*settings):
        broker = BrokerProcess(tmp_path / "data", *settings).start()
        brokers.append(broker)
        call(broker.address, ApiKey.FIND_COORDINATOR, 3, key=NAME, key_type=1)
        return broker

    yield make
    for broker in brokers:
        broker.kill()


def begin_transaction(broker, topic="events", *, partitions=1):
    """Returns the producer of an open transaction in these partitions."""
    create_topic(broker.address, topic, partitions=partitions)
    timeout = {"transaction_timeout_ms": 60_000}
    response = call(broker.address, ApiKey.INIT_PRODUCER_ID, 4, transactional_id=NAME, **timeout)
    producer = {
        "transactional_id": NAME,
        "producer_id": response.producer_id,
        "producer_epoch": response.producer_epoch,
    }
    request = {f"v3_and_below_{name}": value for name, value in producer.items()}
    request["v3_and_below_topics"] = [{"name": topic, "partitions": [*range(partitions)]}]
    added = call(broker.address, ApiKey.ADD_PARTITIONS_TO_TXN, 3, **request)
    assert added.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == 0
    return producer


def delete_topic(broker):
    topics = {"topics": [{"name": "events"}], "topic_names": ["events"], "timeout_ms": 10_000}
    assert call(broker.address, ApiKey.DELETE_TOPICS, 5, **topics).responses[0].error_code == 0


def is_created_again(broker):
    """Whether the topic is created with one partition; it fails until the old one is deleted."""
    topic = {"name": "events", "num_partitions": 1, "replication_factor": 1}
    response = call(broker.address, ApiKey.CREATE_TOPICS, 7, topics=[topic], timeout_ms=10_000)
    return response.topics[0].error_code == 0


def describe(broker):
    (description,) = call(
        broker.address, ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=[NAME]
    ).transaction_states
    return description


def state(broker):
    return describe(broker).transaction_state


def test_open_transaction_survives_a_kill_of_the_broker(new_broker):
    broker = new_broker()
    producer = begin_transaction(broker)
    before = describe(broker)
    broker.kill()
    broker.start()
    wait_until(lambda: state(broker) == "Ongoing")
    assert describe(broker) == before
    response = call(broker.address, ApiKey.END_TXN, 4, **producer, committed=True)
    assert response.error_code == 0
    wait_until(lambda: state(broker) == "CompleteCommit")


def test_transaction_ends_after_its_topic_is_deleted(new_broker):
    broker = new_broker()
    producer = begin_transaction(broker)
    delete_topic(broker)
    response = call(broker.address, ApiKey.END_TXN, 4, **producer, committed=False)
    assert response.error_code == 0
    wait_until(lambda: state(broker) == "CompleteAbort")


def test_transaction_ends_after_its_topic_is_recreated_with_fewer_partitions(new_broker):
    broker = new_broker()
    producer = begin_transaction(broker, partitions=3)
    delete_topic(broker)
    wait_until(lambda: is_created_again(broker))
    response = call(broker.address, ApiKey.END_TXN, 4, **producer, committed=True)
    assert response.error_code == 0
    wait_until(lambda: state(broker) == "CompleteCommit")


def test_unused_transactional_id_expires(new_broker):
    broker = new_broker("transactional.id.expiration.ms=3000", *SHORT_CLEANUP_INTERVAL)
    producer = begin_transaction(broker)
    assert state(broker) == "Ongoing"
    call(broker.address, ApiKey.END_TXN, 4, **producer, committed=True)
    wait_until(lambda: describe(broker).error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND.code)
    broker.kill()
    broker.start()
    wait_until(lambda: not call(broker.address, ApiKey.LIST_TRANSACTIONS, 0).error_code)
    assert not call(broker.address, ApiKey.LIST_TRANSACTIONS, 0).transaction_states
