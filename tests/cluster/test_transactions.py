"""Transactions over several brokers: their coordinator leads some of the partitions, not all.

All tests share three brokers, which are whole again after each.
"""

from contextlib import ExitStack
from itertools import count

import pytest
from confluent_kafka.admin import NewTopic

from tests.support.cluster import Cluster
from tests.support.cluster_coordinators import GROUP, TRANSACTION, coordinator
from tests.support.cluster_faults import wait_for_another_leader
from tests.support.committed_records import committed_values, settled_values, stable_end
from tests.support.group_members import wait_until
from tests.support.partition_client import LATEST, READ_COMMITTED, PartitionClient
from tests.support.transaction_wire import (
    WireProducer,
    settled,
    stable_offset,
    state_of,
)
from tests.support.wire_client import WireClient

SETTINGS = (
    "replica.lag.time.max.ms=30000",  # whoever is slow is not out of sync, only who is gone
    "transaction.state.log.num.partitions=1",
    "transaction.state.log.replication.factor=3",
    "transaction.state.log.min.isr=2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms=200",
)
TOPIC, ID = "events", "spread"
#: Those of which the third broker has no replica, and those that it keeps in sync with two.
WELL, SHORT = (0, 2), (1, 3)
#: By their leader.
HERE, THERE = (0, 1), (2, 3)


@pytest.fixture(scope="module")
def cluster(zookeeper, tmp_path_factory):
    directory = tmp_path_factory.mktemp("transactions")
    with Cluster(directory, zookeeper, *SETTINGS).running() as cluster:
        yield cluster


def coordinator_of(cluster):
    """Of all transactions, once their log is whole."""
    found = coordinator(cluster, TRANSACTION, ID)
    wait_until(lambda: cluster.is_whole("__transaction_state"))
    return found


def create(cluster, topic, *replicas):
    """The brokers of each partition, of which the first leads, and two have to be in sync."""
    placed = [[cluster.brokers.index(each) for each in some] for some in replicas]
    config = {"min.insync.replicas": "2"}
    cluster.admin.create(NewTopic(topic, len(placed), replica_assignment=placed, config=config))
    wanted = [(some[0], frozenset(some)) for some in placed]
    for broker in cluster.brokers:
        wait_until(
            lambda by=broker: (
                [each[:2] for _, each in sorted(cluster.partitions(topic, by=by).items())] == wanted
            )
        )


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


def test_t6_partitions_that_are_short_of_replicas_get_their_marker_when_they_can(cluster):
    here = coordinator_of(cluster)
    there, third = (each for each in cluster.brokers if each is not here)
    create(cluster, TOPIC, [here, there], [here, third], [there, here], [there, third])
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


def test_t3_t5_t7_t8_t9_t10_the_next_coordinator_knows_what_is_open_and_what_is_done(cluster):
    done, taken, late, unheard = "done", "taken", "late", "unheard"
    killed = coordinator_of(cluster)
    leading, third = cluster.others(killed)
    # Where the killed one leads, the next leader has to know of a transaction that is open.
    create(cluster, f"by-{taken}", [killed, leading, third])
    for each in (done, late, unheard):
        create(cluster, f"by-{each}", [leading, third])
    with ExitStack() as stack:
        to_be_taken = stack.enter_context(begun(taken, killed, killed))
        to_be_late = stack.enter_context(begun(late, killed, leading, timeout_ms=3_000))
        ended = stack.enter_context(begun(done, killed, leading))
        ended.commit()
        not_heard = stack.enter_context(begun(unheard, killed, leading))
        ask_stable = begin_to_commit(cluster, not_heard, f"by-{unheard}", but=killed)
        not_heard.send_end(committed=True)
        killed.kill()
        assert ask_stable() in ("UNSTABLE_OFFSET_COMMIT", 5)
    after = coordinator(cluster, TRANSACTION, ID, by=leading)
    check_done_once(after, leading, ended, f"by-{done}")
    with again(after, not_heard) as producer:
        assert settled(lambda: producer.ask_end(committed=True)) == "NONE"
        wait_until(lambda: ask_stable() == 5)
    wait_until(lambda: state_of(after.address, late) == "CompleteAbort")
    with again(after, to_be_late) as producer:
        assert settled(lambda: producer.ask_end(committed=True)) == "PRODUCER_FENCED"
    with PartitionClient(leading.address, f"by-{late}") as partition:
        assert settled_values(partition) == []
    check_taken_over(cluster, after, to_be_taken, f"by-{taken}", but=killed)
    killed.start()
    for topic in ("__transaction_state", f"by-{taken}"):
        cluster.wait_until_whole(topic)


def begun(name, coordinating, leading, **options):
    """Whose transaction has a record, which the second broker leads."""
    producer, topic = WireProducer(coordinating.address, name, **options), f"by-{name}"
    producer.init()
    producer.add(topic, 0)
    with WireClient(leading.address) as leader:
        assert settled(lambda: producer.ask_produce(topic, b"value", leader=leader)) == "NONE"
    return producer


def again(coordinating, producer):
    """The same one, with another coordinator."""
    resumed = WireProducer(coordinating.address, producer.transactional_id)
    resumed.id, resumed.epoch = producer.id, producer.epoch
    return resumed


def begin_to_commit(cluster, producer, topic, *, but):
    """An offset of a group that another broker coordinates; how to ask for it, if it is stable."""
    for name in (f"group-{number}" for number in count()):
        groups_at = coordinator(cluster, GROUP, name)
        if groups_at is not but:
            break
    assert settled(lambda: producer.ask_add_offsets(name)) == "NONE"
    with again(groups_at, producer) as there:
        assert settled(lambda: there.ask_commit_offset(name, topic, 5)) == "NONE"

    def ask_stable():
        found = stable_offset(groups_at.address, name, topic)
        assert found in ("UNSTABLE_OFFSET_COMMIT", 5)
        return found

    assert ask_stable() == "UNSTABLE_OFFSET_COMMIT"
    return ask_stable


def check_done_once(after, leading, ended, topic):
    with again(after, ended) as producer, WireClient(leading.address) as leader:
        assert settled(lambda: producer.ask_end(committed=True)) == "NONE"
        assert producer.ask_end(committed=False) == "INVALID_TXN_STATE"
        producer.sequences[topic, 0] = 1
        assert producer.ask_produce(topic, b"late", leader=leader) == "INVALID_TXN_STATE"


def check_taken_over(cluster, after, old, topic, *, but):
    new_leader = wait_for_another_leader(cluster, topic, but, by=after)
    with PartitionClient(new_leader.address, topic) as partition:

        def ends():
            line = partition.fetch(0, isolation_level=READ_COMMITTED)
            return line.error_code, line.last_stable_offset, line.high_watermark

        wait_until(lambda: ends() == (0, 0, 1), or_else=ends)
        with (
            WireProducer(after.address, old.transactional_id) as new,
            again(after, old) as zombie,
        ):
            new.init()
            assert settled(lambda: zombie.ask_end(committed=True)) == "PRODUCER_FENCED"
            assert settled_values(partition) == []
            new.add(topic, 0)
            assert new.ask_produce(topic, b"new", leader=partition.wire) == "NONE"
            new.commit()
        assert settled_values(partition) == [b"new"]
