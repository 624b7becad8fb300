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
    """Each leads the partition of its number; the first leads that of the coordinator, too."""
    # Nobody could lead in place of one that stops.
    settings = *on_zookeeper(zookeeper), "controlled.shutdown.enable=false"

    def start(number):
        return BrokerProcess(tmp_path / f"{number}", *settings, f"broker.id={number}").start()

    with start(0) as first, start(1) as second:
        both = first, second
        place(both, "__transaction_state", 0)
        place(both, TOPIC, 0, 1)
        yield both
        assert not [each for each in both if "Traceback" in each.log_text]


def place(brokers, topic, *leaders):
    """A topic whose partitions are led by these; whoever is the controller makes it."""
    assignments = [
        {"partition_index": index, "broker_ids": [each]} for index, each in enumerate(leaders)
    ]
    asked = {"name": topic, "num_partitions": -1, "replication_factor": -1}
    asked |= {"assignments": assignments}

    def is_made(broker):
        made = call(broker.address, ApiKey.CREATE_TOPICS, 4, topics=[asked], timeout_ms=10_000)
        return ErrorCode.of(made.topics[0].error_code) is ErrorCode.NONE

    wait_until(lambda: any(map(is_made, brokers)))
    wait_until(lambda: all(leaders_of(each, topic) == list(leaders) for each in brokers))


def leaders_of(broker, topic):
    (found,) = call(broker.address, ApiKey.METADATA, 7, topics=[{"name": topic}]).topics
    return [each.leader_id for each in sorted(found.partitions, key=lambda at: at.partition_index)]


def written(brokers):
    """Whose transaction has a record in each partition."""
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
    """Of each partition, by its leader."""
    found = []
    for partition, broker in enumerate(brokers):
        with PartitionClient(broker.address, TOPIC, partition) as client:
            found.append(settled_values(client))
    return found


@pytest.mark.parametrize("committed", [True, False])
def test_a_transaction_ends_though_the_leader_elsewhere_dies_with_its_marker(brokers, committed):
    first, second = brokers
    with written(brokers) as producer:
        second.send(signal.SIGSTOP)
        assert producer.ask_end(committed=committed) == "NONE"
        # What is under way to the other broker gets no answer, and then no connection.
        second.kill()
        assert state_of(first.address, NAME) == ("PrepareCommit" if committed else "PrepareAbort")
        second.start()
        complete = "CompleteCommit" if committed else "CompleteAbort"
        wait_until(lambda: state_of(first.address, NAME) == complete)
        assert values(brokers) == [[b"value"] if committed else []] * 2


def test_a_coordinator_that_dies_meanwhile_finds_the_leader_elsewhere_again(brokers):
    first, second = brokers
    with written(brokers) as producer:
        second.send(signal.SIGSTOP)
        assert producer.ask_end(committed=True) == "NONE"
        first.kill()
    second.send(signal.SIGCONT)
    first.start()
    wait_until(lambda: state_of(first.address, NAME) == "CompleteCommit")
    assert values(brokers) == [[b"value"]] * 2
