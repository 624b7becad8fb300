"""Transactional producers of every library that has them, on each metadata store."""

import pytest

from tests.support.client_driver import Refused
from tests.support.committed_records import committed_values, settled_values, stable_end
from tests.support.group_members import committed, wait_until
from tests.support.partition_client import LATEST, PartitionClient
from tests.support.transactional_clients import CLIENTS


@pytest.fixture(params=CLIENTS, ids=lambda client: client.name)
def client(request):
    return request.param


@pytest.fixture
def name(request):
    return request.node.name


def committed_in(broker, topic, partition):
    with PartitionClient(broker.address, topic, partition) as there:
        return settled_values(there)


def test_what_is_committed_is_read_and_what_is_aborted_is_not(broker, new_topic, client, name):
    topic, expected = new_topic(partitions=2), []
    with client.producer(broker.address, name) as producer:
        for number in range(6):
            value = b"%d" % number
            producer.begin()
            for partition in range(2):
                producer.send(topic, [value], partition=partition)
            if number % 3:
                producer.commit()
                expected.append(value)
            else:
                producer.abort()
    assert committed_in(broker, topic, 0) == committed_in(broker, topic, 1) == expected


def test_of_an_open_transaction_nothing_is_read(broker, new_topic, client, name):
    topic = new_topic()
    with (
        client.producer(broker.address, name) as producer,
        PartitionClient(broker.address, topic) as partition,
    ):
        producer.begin()
        producer.send(topic, [b"1", b"2"])
        assert (stable_end(partition), committed_values(partition)) == (0, [])
        assert partition.offset_at(LATEST) == 2
        producer.commit()
        assert settled_values(partition) == [b"1", b"2"]


def test_offsets_count_with_the_transaction_that_has_them(broker, new_topic, client, name):
    topic = new_topic()
    with client.producer(broker.address, name) as producer:
        for offset, end, expected in (
            (5, producer.abort, {}),
            (7, producer.commit, {(topic, 0): 7}),
        ):
            producer.begin()
            producer.send(topic, [b"copied"])
            producer.send_offset(name, topic, offset)
            assert committed(broker.address, name) == {}
            end()
            wait_until(lambda: committed(broker.address, name) == expected)  # noqa: B023
    assert committed_in(broker, topic, 0) == [b"copied"]


@pytest.mark.parametrize("ending", ["stop", "kill"])
def test_a_transaction_goes_on_when_the_broker_comes_back(broker, new_topic, client, name, ending):
    topic = new_topic()
    with client.producer(broker.address, name) as producer:
        producer.begin()
        producer.send(topic, [b"before"])
        getattr(broker, ending)()
        broker.start()
        producer.send(topic, [b"after"])
        producer.commit()
    assert committed_in(broker, topic, 0) == [b"before", b"after"]


def test_a_transaction_may_not_last_longer_than_the_broker_says(broker, client, name):
    too_long_ms = 15 * 60_000 + 1
    with pytest.raises(Refused), client.producer(broker.address, name, timeout_ms=too_long_ms):
        pass
