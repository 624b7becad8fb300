"""Offsets committed in transactions, while the group's coordinator moves from broker to broker.

    killed    the coordinator dies; another leads, and has nothing but the log
    elected   its replicas are put in another order, and the first of them is elected

After each move the answers are those from before it, and the offsets are those that a model of
all commits expects.  All tests share three brokers, which are whole again after each move.
"""

from contextlib import ExitStack
from copy import copy
from random import Random

import pytest
from confluent_kafka import TopicPartition as Place

from odradek.protocol.api_keys import ApiKey
from tests.support.cluster import Cluster
from tests.support.cluster_coordinators import GROUP, GROUPS, TOPICS, coordinator
from tests.support.cluster_faults import wait_for_another_leader
from tests.support.group_members import wait_until
from tests.support.group_wire import WireMember, commit_briefly, committed, group_of_two
from tests.support.spread_producer import SpreadProducer
from tests.support.transaction_wire import settled, stable_offset
from tests.support.wire_client import call

SETTINGS = (
    "auto.leader.rebalance.enable=false",
    "offsets.topic.num.partitions=1",
    "offsets.topic.replication.factor=3",
    "offsets.retention.check.interval.ms=50",
    "transaction.state.log.num.partitions=1",
    "transaction.state.log.replication.factor=3",
    "transaction.state.log.min.isr=2",
)
#: Members are silent while the coordinator moves.
SESSION_MS = 60_000
PRODUCERS, PLACES, STEPS = 3, 3, 40
BOTH_WAYS = pytest.mark.parametrize(
    "moves", [("killed", "elected"), ("elected", "killed")], ids="-then-".join
)


@pytest.fixture(scope="module")
def cluster(zookeeper, tmp_path_factory):
    directory = tmp_path_factory.mktemp("group-offsets")
    with Cluster(directory, zookeeper, *SETTINGS).running() as running:
        for kind, internal in enumerate(TOPICS):
            coordinator(running, kind, "any")
            running.wait_until_whole(internal)
        yield running


@pytest.fixture
def name(request):
    """Of whatever is this test's own."""
    return "".join(each if each.isalnum() else "-" for each in request.node.name)


@pytest.fixture
def producer(cluster, name):
    made = SpreadProducer(cluster, name)
    made.init()
    return made


def topics_of(cluster, name, count):
    names = [f"{name}-{number}" for number in range(count)]
    for each in names:
        cluster.create(each)
    return names


def groups_at(cluster):
    """The broker that coordinates all groups."""
    return coordinator(cluster, GROUP, "any")


def move(cluster, how):
    """To another broker; all are there, and know it, when this returns."""
    before = cluster.leader(GROUPS)
    if how == "killed":
        before.kill()
        wait_for_another_leader(cluster, GROUPS, before, by=cluster.others(before)[0])
        before.start()
    else:
        elect_next(cluster, before)
    for internal in TOPICS:
        cluster.wait_until_whole(internal)
    wait_until(
        lambda: len({cluster.partitions(GROUPS, by=each)[0] for each in cluster.brokers}) == 1
    )
    assert cluster.leader(GROUPS) is not before


def elect_next(cluster, before):
    first = (cluster.brokers.index(before) + 1) % len(cluster.brokers)
    order = [(first + step) % len(cluster.brokers) for step in range(len(cluster.brokers))]
    asked = [{"name": GROUPS, "partitions": [{"partition_index": 0, "replicas": order}]}]

    def is_elected():
        address = cluster.brokers[cluster.controller()].address
        answer = call(
            address, ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, timeout_ms=10_000, topics=asked
        )
        assert not answer.error_code, answer
        cluster.admin.elect_preferred([Place(GROUPS, 0)])
        return cluster.partitions(GROUPS)[0].leader == first

    wait_until(is_elected)


# T11


@BOTH_WAYS
def test_t11_a_zombie_is_refused_alike_by_every_coordinator(cluster, producer, name, moves):
    (topic,) = topics_of(cluster, name, 1)
    address = groups_at(cluster).address
    with ExitStack() as stack:
        first, second, old_generation = group_of_two(address, name, session_ms=SESSION_MS)
        evicted, static = (WireMember(address, f"{name}-static", instance="one") for _ in range(2))
        for each in (first, second, evicted, static):
            stack.enter_context(each)
        for each in (evicted, static):
            assert (each.join(session_ms=SESSION_MS), each.sync()[0]) == ("NONE", "NONE")
    zombie, stranger = changed(first, generation=old_generation), changed(first, id="stranger")
    expected = {
        zombie: "ILLEGAL_GENERATION",
        stranger: "UNKNOWN_MEMBER_ID",
        evicted: "FENCED_INSTANCE_ID",
    }
    for group in (name, static.group):
        producer.add_offsets(group)
    assert {
        each: producer.ask_commit_offset(topic, 99, member=each) for each in expected
    } == expected
    for offset, member in ((6, first), (7, static)):
        assert producer.ask_commit_offset(topic, offset, member=member) == "NONE"
    producer.end(committed=True)
    for number, how in enumerate(moves):
        for group in (name, static.group):
            producer.add_offsets(group)
        move(cluster, how)
        told = {each: producer.ask_commit_offset(topic, 99, member=each) for each in expected}
        assert told == expected
        # Who is a member is one still, in the same generation.
        assert producer.ask_commit_offset(topic, 10 + number, member=first) == "NONE"
        producer.end(committed=False)
        at = groups_at(cluster).address
        offsets = [committed(at, group)[topic, 0] for group in (name, static.group)]
        assert offsets == [6, 7]


def changed(member, **changes):
    made = copy(member)
    vars(made).update(changes)
    return made


# T12


@BOTH_WAYS
def test_t12_offsets_committed_both_ways_are_those_of_the_log_at_every_coordinator(
    cluster, name, moves
):
    random, topics = Random(7), topics_of(cluster, name, PLACES)
    producers = [SpreadProducer(cluster, f"{name}-{number}") for number in range(PRODUCERS)]
    for each in producers:
        each.init()
    race = Race(cluster, name, topics, producers)
    for how in moves:
        for _ in range(STEPS):
            race.step(random)
        assert any(race.pending), "or nothing is open when the coordinator moves"
        race.check()
        move(cluster, how)
        race.check()
    for number in range(PRODUCERS):
        race.end(number, committed=number % 2 == 0)
    race.check()
    move(cluster, "elected")
    race.check()


class Race:
    """Commits of one group, and what they should come to."""

    def __init__(self, cluster, group, topics, producers):
        self._cluster, self._group, self._topics = cluster, group, topics
        self._producers = producers
        self._offset = 0
        self.expected = {}
        self.pending = [{} for _ in producers]

    def step(self, random):
        self._offset += 1
        topic, number = random.choice(self._topics), random.randrange(len(self._producers))
        what = random.choice(["plain", "transactional", "transactional", "commit", "abort"])
        if what == "plain":
            self._commit_plainly(topic)
        elif what == "transactional":
            self._producers[number].add_offsets(self._group)
            answer = self._producers[number].ask_commit_offset(topic, self._offset, self._group)
            assert answer == "NONE"
            self.pending[number][topic, 0] = self._offset
        else:
            self.end(number, committed=what == "commit")

    def _commit_plainly(self, topic):
        def ask():
            with WireMember(groups_at(self._cluster).address, self._group) as plain:
                return plain.commit(topic, self._offset)

        assert settled(ask) == "NONE"
        self.expected[topic, 0] = self._offset

    def end(self, number, *, committed):
        """Of two commits the one that was written last counts, whenever its transaction ends."""
        if not self.pending[number]:
            return
        self._producers[number].end(committed=committed)
        for place, offset in self.pending[number].items():
            if committed:
                self.expected[place] = max(offset, self.expected.get(place, -1))
        self.pending[number] = {}

    def check(self):
        """What the coordinator of now says."""
        address = groups_at(self._cluster).address
        assert committed(address, self._group) == self.expected
        is_open = {place for each in self.pending for place in each}
        for topic in self._topics:
            stable = self.expected.get((topic, 0), -1)
            expected = "UNSTABLE_OFFSET_COMMIT" if (topic, 0) in is_open else stable
            assert stable_offset(address, self._group, topic) == expected


@pytest.mark.parametrize(
    ("is_committed", "moves"),
    [(True, ("killed", "elected")), (False, ("elected", "killed"))],
    ids=["committed", "aborted"],
)
def test_t12_an_offset_that_expires_in_an_open_transaction_does_so_at_every_coordinator(
    cluster, producer, name, is_committed, moves
):
    topic, witness = topics_of(cluster, name, 2)
    producer.add_offsets(name)
    assert producer.ask_commit_offset(topic, 2, name) == "NONE"
    commit_briefly(groups_at(cluster).address, name, topic, 1)
    assert producer.ask_commit_offset(topic, 3, name) == "NONE"
    first, second = moves
    kept = check_same_after(cluster, first, name, topic, witness)
    assert kept == ({(topic, 0): 1}, "UNSTABLE_OFFSET_COMMIT")
    producer.end(committed=is_committed)
    # What was committed for a moment only has been for long.
    expected = {(topic, 0): 3} if is_committed else {}
    wait_until(lambda: committed(groups_at(cluster).address, name) == expected)
    assert check_same_after(cluster, second, name, topic, witness)[0] == expected


def check_same_after(cluster, how, group, topic, witness):
    """When each of them has looked for what has expired."""

    def looked():
        address = groups_at(cluster).address
        commit_briefly(address, group, witness, 1)
        wait_until(lambda: (witness, 0) not in committed(address, group))
        return committed(address, group), stable_offset(address, group, topic)

    before = looked()
    move(cluster, how)
    assert looked() == before
    return before
