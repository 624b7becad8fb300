"""Transactions over several brokers: their coordinator leads some of the partitions, not all."""

import pytest
from confluent_kafka.admin import NewTopic

from odradek.protocol.api_keys import ApiKey
from tests.support.cluster import Cluster
from tests.support.committed_records import committed_values, stable_end
from tests.support.group_members import wait_until
from tests.support.partition_client import LATEST, PartitionClient
from tests.support.transaction_wire import TRANSACTION, WireProducer, settled, state_of
from tests.support.wire_client import WireClient, call

SETTINGS = (
    "transaction.state.log.num.partitions=1",
    "transaction.state.log.replication.factor=3",
    "transaction.state.log.min.isr=2",
)
TOPIC, ID = "events", "spread"
#: Those of which the third broker has no replica, and those that it keeps in sync with two.
WELL, SHORT = (0, 2), (1, 3)
#: By their leader.
HERE, THERE = (0, 1), (2, 3)


@pytest.fixture
def cluster(zookeeper, tmp_path):
    with Cluster(tmp_path, zookeeper, *SETTINGS).running() as cluster:
        yield cluster


def coordinator_of(cluster):
    """Once the log of transactions is whole."""
    asked = {"key_type": TRANSACTION, "coordinator_keys": [ID]}
    first = cluster.brokers[0].address
    found = []

    def is_found():
        found[:] = call(first, ApiKey.FIND_COORDINATOR, 4, **asked).coordinators
        return not found[0].error_code and cluster.is_whole("__transaction_state")

    wait_until(is_found)
    return cluster.brokers[found[0].node_id]


def create(cluster, here, there, third):
    """Each partition has two replicas, and both have to be in sync."""
    ids = [cluster.brokers.index(each) for each in (here, there, third)]
    placed = [[ids[0], ids[1]], [ids[0], ids[2]], [ids[1], ids[0]], [ids[1], ids[2]]]
    config = {"min.insync.replicas": "2"}
    new = NewTopic(TOPIC, len(placed), replica_assignment=placed, config=config)
    cluster.admin.create(new)
    wait_until(lambda: in_sync(cluster, here) == [2, 2, 2, 2])


def in_sync(cluster, by):
    return [len(found.in_sync) for _, found in sorted(cluster.partitions(TOPIC, by=by).items())]


def write_everywhere(producer, there, value):
    producer.add(TOPIC, *HERE, *THERE)
    with WireClient(there.address) as wire:
        for partition in HERE + THERE:
            leader = wire if partition in THERE else None
            told = settled(
                lambda: producer.ask_produce(
                    TOPIC,
                    value,
                    partition=partition,  # noqa: B023 - called at once
                    leader=leader,  # noqa: B023
                )
            )
            assert told == "NONE"


def is_over(cluster, partition, values, *, by):
    """Whether nothing is open there, and these are committed; ``by`` knows its leader."""
    leader = cluster.partitions(TOPIC, by=by)[partition].leader
    with PartitionClient(cluster.brokers[leader].address, TOPIC, partition) as client:
        is_stable = stable_end(client) == client.offset_at(LATEST)
        return is_stable and committed_values(client) == values


def test_t4_partitions_that_are_short_of_replicas_get_their_marker_when_they_can(cluster):
    here = coordinator_of(cluster)
    there, third = (each for each in cluster.brokers if each is not here)
    create(cluster, here, there, third)
    with WireProducer(here.address, ID) as producer:
        producer.init()
        write_everywhere(producer, there, b"first")
        producer.commit()
        assert all(is_over(cluster, each, [b"first"], by=here) for each in HERE + THERE)

        write_everywhere(producer, there, b"second")
        third.kill()
        wait_until(lambda: in_sync(cluster, here) == in_sync(cluster, there) == [2, 1, 2, 1])
        assert settled(lambda: producer.ask_end(committed=True)) == "NONE"
        both = [b"first", b"second"]
        wait_until(lambda: all(is_over(cluster, each, both, by=here) for each in WELL))
        assert not any(is_over(cluster, each, both, by=here) for each in SHORT)
        assert state_of(here.address, ID) == "PrepareCommit"
        assert producer.ask_end(committed=True) == "CONCURRENT_TRANSACTIONS"

    # Whoever coordinates next knows nothing but the log, and goes on with it.
    here.kill()
    third.start()
    here.start()
    wait_until(lambda: in_sync(cluster, there) == [2, 2, 2, 2])
    wait_until(lambda: state_of(coordinator_of(cluster).address, ID) == "CompleteCommit")
    assert all(is_over(cluster, each, both, by=there) for each in HERE + THERE)
