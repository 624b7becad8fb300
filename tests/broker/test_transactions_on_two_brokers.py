"""Two brokers on a real ZooKeeper: one coordinates transactions, the other leads a partition."""

import signal
from functools import partial

import pytest

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.error_codes import ErrorCode
from tests.support.broker_process import BrokerProcess
from tests.support.broker_stores import on_zookeeper
from tests.support.committed_records import settled_values
from tests.support.group_members import wait_until
from tests.support.partition_client import PartitionClient
from tests.support.transaction_wire import WireProducer, settled, state_of
from tests.support.wire_client import call

NAME, TOPIC = "copier", "events"


@pytest.fixture
def brokers(zookeeper, tmp_path):
    """Each broker leads the partition of its number; the first is the coordinator, too."""
    # Each partition has one replica, so no broker could take over the leadership.
    settings = *on_zookeeper(zookeeper), "controlled.shutdown.enable=false"

    def start(number):
        return BrokerProcess(tmp_path / f"{number}", *settings, f"broker.id={number}").start()

    with start(0) as first, start(1) as second:
        both = first, second
        create_topic(both, "__transaction_state", 0)
        create_topic(both, TOPIC, 0, 1)
        yield both
        assert not [broker for broker in both if "Traceback" in broker.log_text]


def create_topic(brokers, topic, *leaders):
    """Creates a topic with these leaders; one of the brokers is the controller."""
    assignments = [
        {"partition_index": index, "broker_ids": [leader]} for index, leader in enumerate(leaders)
    ]
    topic_fields = {"name": topic, "num_partitions": -1, "replication_factor": -1}
    topic_fields |= {"assignments": assignments}

    def is_created(broker):
        response = call(
            broker.address, ApiKey.CREATE_TOPICS, 4, topics=[topic_fields], timeout_ms=10_000
        )
        return ErrorCode.for_code(response.topics[0].error_code) is ErrorCode.NONE

    wait_until(lambda: any(map(is_created, brokers)))
    wait_until(lambda: all(leaders_of(leader, topic) == list(leaders) for leader in brokers))


def leaders_of(broker, topic):
    (metadata,) = call(broker.address, ApiKey.METADATA, 7, topics=[{"name": topic}]).topics
    return [
        partition.leader_id
        for partition in sorted(metadata.partitions, key=lambda entry: entry.partition_index)
    ]


def write_transaction(brokers):
    """Returns the producer of a transaction with a record in each partition."""
    coordinated = WireProducer(brokers[0].address, NAME)
    coordinated.init()
    coordinated.add(TOPIC, 0, 1)
    for partition, broker in enumerate(brokers):
        with WireProducer(broker.address, NAME) as producer:
            producer.id, producer.epoch = coordinated.id, coordinated.epoch
            produce = partial(producer.ask_produce, TOPIC, b"value", partition=partition)
            assert settled(produce) == "NONE"
    return coordinated


def values(brokers):
    """Returns the values of each partition, read from its leader."""
    partition_values = []
    for partition, broker in enumerate(brokers):
        with PartitionClient(broker.address, TOPIC, partition) as client:
            partition_values.append(settled_values(client))
    return partition_values


@pytest.mark.parametrize("committed", [True, False])
def test_transaction_ends_after_another_leader_died_before_its_marker(brokers, committed):
    first, second = brokers
    with write_transaction(brokers) as producer:
        second.send(signal.SIGSTOP)
        assert producer.ask_end(committed=committed) == "NONE"
        # The request to the other broker gets no response, and then no connection.
        second.kill()
        assert state_of(first.address, NAME) == ("PrepareCommit" if committed else "PrepareAbort")
        second.start()
        complete = "CompleteCommit" if committed else "CompleteAbort"
        wait_until(lambda: state_of(first.address, NAME) == complete)
        assert values(brokers) == [[b"value"] if committed else []] * 2


def test_restarted_coordinator_sends_markers_to_the_other_leader(brokers):
    first, second = brokers
    with write_transaction(brokers) as producer:
        second.send(signal.SIGSTOP)
        assert producer.ask_end(committed=True) == "NONE"
        first.kill()
    second.send(signal.SIGCONT)
    first.start()
    wait_until(lambda: state_of(first.address, NAME) == "CompleteCommit")
    assert values(brokers) == [[b"value"]] * 2
