"""Coordinators of groups and transactions follow the leaders of their partitions.

All tests share three brokers, which are whole again after each.
"""

import signal
from itertools import count

import pytest
from confluent_kafka.admin import NewTopic

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.internal.key_partition import partition_for
from tests.support.cluster import Cluster
from tests.support.cluster_coordinators import (
    GROUP,
    GROUPS,
    TRANSACTION,
    TRANSACTIONS,
    coordinator,
)
from tests.support.committed_records import settled_values
from tests.support.copiers import CopierOptions, Crew
from tests.support.copy_run import CopyRun, wait_until_copying
from tests.support.group_members import wait_until
from tests.support.group_readers import commit
from tests.support.group_wire import WireMember, committed_line, name_of
from tests.support.old_consumer import OldConsumer
from tests.support.partition_client import PartitionClient
from tests.support.sole_reader import COUNT, SoleReader, write_numbers
from tests.support.transaction_wire import PASSING, WireProducer, settled, state_of
from tests.support.transactional_clients import ConfluentTransactions
from tests.support.wire_client import WireClient, call

#: Replicated, as everything here is; and leaders move when brokers are killed, not before.
SETTINGS = (
    "auto.leader.rebalance.enable=false",
    "offsets.topic.replication.factor=3",
    "transaction.state.log.replication.factor=3",
    "transaction.state.log.min.isr=2",
)
#: Of the internal topics, too.
PARTITIONS = 3
NUMBERS = count()


@pytest.fixture(scope="module")
def cluster(zookeeper, tmp_path_factory):
    directory = tmp_path_factory.mktemp("coordinators")
    with Cluster(directory, zookeeper, *SETTINGS).running() as running:
        yield running


@pytest.fixture
def topic(cluster):
    """Each broker leads one of its partitions."""
    return created(cluster, f"events-{next(NUMBERS)}")


def created(cluster, topic, assignment=([0, 1, 2], [1, 2, 0], [2, 0, 1])):
    """By whoever is the controller."""
    configs = {"min.insync.replicas": "1" if len(assignment[0]) == 1 else "2"}
    new = NewTopic(topic, len(assignment), replica_assignment=[*assignment], config=configs)
    cluster.admin.create(new)
    wanted = [(each[0], frozenset(each)) for each in assignment]
    wait_until(lambda: all(led(cluster, topic, by=each) == wanted for each in cluster.brokers))
    return topic


def led(cluster, topic, *, by):
    """Leader and in-sync replicas of each partition, as a broker knows them."""
    return [each[:2] for _, each in sorted(cluster.partitions(topic, by=by).items())]


def names_beside(name, prefix):
    """Others whose coordinator is the same."""
    names, wanted = (f"{prefix}-{number}" for number in count()), partition_for(name, PARTITIONS)
    return (each for each in names if partition_for(each, PARTITIONS) == wanted)


def back(cluster, broker, *topics):
    broker.start()
    for topic in topics:
        wait_until(lambda topic=topic: cluster.is_whole(topic))


def test_g4_g5_groups_go_on_at_their_last_commit_when_their_coordinator_is_killed(cluster, topic):
    group = "readers"
    killed = coordinator(cluster, GROUP, group)
    wait_until(lambda: cluster.is_whole(GROUPS))
    write_numbers(cluster.addresses, topic)
    with WireMember(killed.address, next(names_beside(group, "raw"))) as member:
        assert (settled(member.join), member.sync()[0]) == ("NONE", "NONE")
        assert settled(lambda: member.commit(topic, 7, metadata="said", epoch=3)) == "NONE"
        reader = SoleReader(cluster.addresses, group, topic)
        reader.read(COUNT // 2)
        killed.kill()
    others = [each for each in cluster.brokers if each is not killed]
    check_takes_over(cluster, member, others, topic)
    reader.read(COUNT // 2)
    reader.close()
    assert reader.offsets == list(range(COUNT))
    assert reader.assignments == 1
    next_one = SoleReader(cluster.addresses, group, topic)
    write_numbers(cluster.addresses, topic)
    next_one.read(1)
    next_one.close()
    assert next_one.offsets == [COUNT]
    back(cluster, killed, GROUPS, topic)


def check_takes_over(cluster, member, others, topic):
    """Until somebody coordinates, nothing is said of commits; then it is the last one.

    Who was a member is one, in the same generation.  (Heartbeats are no sign: they are answered
    while groups are loaded, too, as by Kafka.)
    """
    said = {}

    def is_taken_over():
        for broker in others:
            said[broker.address] = last_commit(member, broker, topic)
            assert said[broker.address] in PASSING | {7}, said
        return 7 in said.values()

    wait_until(is_taken_over, or_else=lambda: said)
    after = coordinator(cluster, GROUP, member.group, by=others[0])
    (bystander,) = [each for each in others if each is not after]
    assert said == {after.address: 7, bystander.address: "NOT_COORDINATOR"}
    assert (heartbeat(member, after), heartbeat(member, bystander)) == ("NONE", "NOT_COORDINATOR")
    assert committed_line(after.address, member.group, topic) == (7, "said", 3)
    with WireClient(after.address) as member.client:
        member.generation -= 1
        assert settled(lambda: member.commit(topic, 9)) == "ILLEGAL_GENERATION"
        member.generation += 1
        assert last_commit(member, after, topic) == 7
        assert settled(lambda: member.commit(topic, 8)) == "NONE"
    assert last_commit(member, after, topic) == 8


def last_commit(member, broker, topic):
    """Or the name of the error."""
    asked = [{"name": topic, "partition_indexes": [0]}]
    answer = call(broker.address, ApiKey.OFFSET_FETCH, 5, group_id=member.group, topics=asked)
    if answer.error_code:
        return name_of(answer.error_code)
    return answer.topics[0].partitions[0].committed_offset


def heartbeat(member, broker):
    with WireClient(broker.address) as member.client:
        return member.heartbeat()


def test_transactions_end_in_partitions_that_others_lead(cluster, topic):
    with ConfluentTransactions().producer(cluster.addresses, "everywhere") as producer:
        for value, end in ((b"kept", producer.commit), (b"gone", producer.abort)):
            producer.begin()
            for partition in range(PARTITIONS):
                producer.send(topic, [value], partition=partition)
            end()
    for partition in range(PARTITIONS):
        assert committed_values(cluster, topic, partition) == [b"kept"]


def committed_values(cluster, topic, partition=0, *, by=None):
    leader = cluster.partitions(topic, by=by)[partition][0]
    with PartitionClient(cluster.brokers[leader].address, topic, partition) as client:
        return settled_values(client)


def test_t6_what_was_about_to_end_is_ended_by_the_next_coordinator(cluster):
    """No marker can be written before the coordinator is killed: who leads there is paused."""
    name = "kept"
    names = {name: True, next(names_beside(name, "gone")): False}
    killed = coordinator(cluster, TRANSACTION, name)
    wait_until(lambda: cluster.is_whole(TRANSACTIONS))
    # If this is the first test there are no groups yet.
    internal = [each for each in (TRANSACTIONS, GROUPS) if cluster.partitions(each)]
    paused, other = bystanders(cluster, killed)
    for each in names:
        created(cluster, f"by-{each}", [[cluster.brokers.index(paused)]])
    producers = {each: begun(each, killed, paused) for each in names}
    paused.send(signal.SIGSTOP)
    try:
        index = partition_for(name, PARTITIONS)
        wait_until(lambda: len(cluster.partitions(TRANSACTIONS, by=killed)[index][1]) == 2)
        for each, is_commit in names.items():
            with producers[each] as producer:
                assert producer.ask_end(committed=is_commit) == "NONE"
            assert state_of(killed.address, each).startswith("Prepare")
        killed.kill()
    finally:
        paused.send(signal.SIGCONT)
    for each, is_commit in names.items():
        complete = "CompleteCommit" if is_commit else "CompleteAbort"
        after = coordinator(cluster, TRANSACTION, each, by=other)
        wait_until_in_state(after, each, complete)
        expected = [b"value"] if is_commit else []
        assert committed_values(cluster, f"by-{each}", by=other) == expected
    back(cluster, killed, *internal)


def wait_until_in_state(broker, name, state):
    wait_until(lambda: state_of(broker.address, name) == state)


def bystanders(cluster, coordinating):
    """The first can be spared: it is not the controller."""
    known = call(coordinating.address, ApiKey.METADATA, 7, topics=[]).controller_id
    first, second = (each for each in cluster.brokers if each is not coordinating)
    return (second, first) if first is cluster.brokers[known] else (first, second)


def begun(name, coordinating, leading):
    """Whose transaction has a record, which the second broker leads."""
    producer, topic = WireProducer(coordinating.address, name), f"by-{name}"
    producer.init()
    producer.add(topic, 0)
    with WireProducer(leading.address, name) as there:
        there.id, there.epoch = producer.id, producer.epoch
        assert settled(lambda: there.ask_produce(topic, b"value")) == "NONE"
    return producer


def test_t1_what_is_copied_is_the_source_though_coordinators_are_killed(cluster):
    """By aiokafka: librdkafka waits for group coordinators that are gone (its issue 5511)."""
    source, target, group = "source", "target", "copiers"
    for topic in (source, target):
        created(cluster, topic)
    commit(cluster.addresses, group, {(source, number): 0 for number in range(PARTITIONS)})
    posts = [
        CopierOptions(
            group=group,
            source=source,
            target=target,
            transactional_id=f"copier-{number}",
            abort_share=0.2,
            partitions=[number],
        )
        for number in range(PARTITIONS)
    ]
    wait_until_spread(cluster, [each.transactional_id for each in posts])
    crew = Crew("aiokafka", cluster.addresses, posts)
    with CopyRun(cluster.addresses, [crew], partitions=PARTITIONS) as run:
        wait_until_copying([run])
        killed = coordinator(cluster, GROUP, group)  # and of one of the transactions
        killed.kill()
        wait_until_copying([run])
        back(cluster, killed, source, target, GROUPS, TRANSACTIONS)
        wait_until_copying([run])
        run.finish()
        run.check()
    assert crew.count("aborted") > 0


def wait_until_spread(cluster, names):
    """Each broker coordinates a transaction of these, as when its topic was new."""

    def is_spread():
        cluster.admin.elect_preferred()
        found = [coordinator(cluster, TRANSACTION, each) for each in names]
        return all(each in found for each in cluster.brokers)

    wait_until(is_spread)


def test_consumers_that_know_no_coordinator_share_a_topic_by_the_tree_alone(cluster, topic):
    tree, group = cluster.brokers[0].setting("zookeeper.connect"), "ancients"
    with OldConsumer(tree, group, topic, name="b") as second:
        with OldConsumer(tree, group, topic, name="a") as first:
            both = (first, second)
            write_numbers(cluster.addresses, topic, partitions=PARTITIONS)
            wait_until_read(COUNT, by=both, among=both)
            assert sorted([*first.owned, *second.owned]) == [0, 1, 2]
            killed = cluster.leader(topic)
            killed.kill()
            write_numbers(cluster.addresses, topic, first=COUNT, partitions=PARTITIONS)
            wait_until_read(2 * COUNT, by=both, among=both)
        back(cluster, killed, topic)
        write_numbers(cluster.addresses, topic, first=2 * COUNT, partitions=PARTITIONS)
        wait_until_read(3 * COUNT, by=[second], among=both)
        assert second.owned == {0, 1, 2}
    asked = [{"name": topic, "partition_indexes": [0, 1, 2]}]
    answer = call(killed.address, ApiKey.OFFSET_FETCH, 0, group_id=group, topics=asked)
    offsets = [each.committed_offset for each in answer.topics[0].partitions]
    assert sum(offsets) == 3 * COUNT


def wait_until_read(count, *, by, among):
    """All numbers before ``count``, each once."""

    def is_read():
        for each in by:
            each.poll()
        return sum(len(each.values) for each in among) >= count

    wait_until(is_read, or_else=lambda: [each.values for each in among])
    values = [value for each in among for value in each.values]
    assert sorted(map(int, values)) == list(range(count))
