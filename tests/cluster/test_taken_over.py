"""What a broker knows that takes over from one that was killed, of groups, producers, transactions.

One kill serves them all: each story begins before it, ``with`` it, and is judged afterwards.
"""

import time
from contextlib import ExitStack, contextmanager
from itertools import count

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.records.record import Record
from tests.support.batches import batch_of
from tests.support.cluster_coordinators import GROUP, GROUPS, TRANSACTION, coordinator
from tests.support.cluster_faults import wait_for_another_leader
from tests.support.committed_records import committed_values, stable_end
from tests.support.group_members import wait_until
from tests.support.group_wire import WireMember, committed, described, wait_for_state
from tests.support.partition_client import LATEST, READ_COMMITTED, PartitionClient
from tests.support.protocol_consumers import ConsumerFleet
from tests.support.sole_reader import COUNT, write_numbers
from tests.support.transaction_wire import WireProducer, settled
from tests.support.wire_client import WireClient, call

PARTITIONS = 3
#: Of members that say nothing; and of those that are heard of again after the kill.
SHORT_MS, LONG_MS = 2_000, 30_000


class Story:
    """Whom the kill is for, and who is left."""

    def __init__(self, cluster, killed):
        self.cluster = cluster
        self.killed = killed
        self.left = cluster.others(killed)
        self._names = (f"taken-over-{number}" for number in count())

    def group(self):
        """One that the broker coordinates which will be killed."""
        return next(each for each in self._names if self._is_coordinated(each))

    def _is_coordinated(self, group):
        return coordinator(self.cluster, GROUP, group) is self.killed

    def new_coordinator(self, group):
        """Who has loaded the group."""
        found = []

        def is_taken_over():
            found[:] = [each for each in self.left if not described(each.address, group).error_code]
            return found

        wait_until(is_taken_over)
        return found[0]

    def new_leader(self, topic):
        found = wait_for_another_leader(self.cluster, topic, self.killed, by=self.left[0])
        with PartitionClient(found.address, topic) as client:
            wait_until(lambda: not client.fetch(0).error_code)
        return found


def test_g6_g7_g8_g10_p4_p7_t2_t13_t14_who_takes_over_knows_what_was(shared):
    cluster = shared
    killed = cluster.brokers[1]
    wait_until(lambda: cluster.is_whole(GROUPS) or not cluster.partitions(GROUPS))
    story = Story(cluster, killed)
    with (
        members_by_turns(story),
        aborted_transactions(story),
        lost_producer(story),
        static_members(story),
        silent_member(story),
    ):
        killed.kill()
    killed.start()
    cluster.wait_until_whole(GROUPS)


@contextmanager
def members_by_turns(story):
    """By the consumer protocol (KIP-848): nothing is assigned anew, and all is read once."""
    topic, group = "g10", story.group()
    story.cluster.create(topic, PARTITIONS)
    write_numbers(story.cluster.addresses, topic, partitions=PARTITIONS)
    with ConsumerFleet(story.cluster.addresses, group, topic) as fleet:
        members = fleet.add("a"), fleet.add("b")
        fleet.wait_until(lambda: fleet.sizes() == [1, 2] and len(fleet.read()) == COUNT)
        fleet.commit()
        rebalances = [each.rebalances for each in members]
        yield
        after = story.new_coordinator(group)
        write_numbers(story.cluster.addresses, topic, first=COUNT, partitions=PARTITIONS)
        fleet.wait_until(lambda: len(fleet.read()) == 2 * COUNT)
        assert [each.rebalances for each in members] == rebalances
        values = [int(value) for each in members for value in each.values]
        assert sorted(values) == [*range(2 * COUNT)]
        fleet.commit()
        assert sum(committed(after.address, group).values()) == 2 * COUNT
        fleet.add("c")
        fleet.wait_until(lambda: are_reconciled(after, group, fleet))
        assert fleet.sizes() == [1, 1, 1]


def are_reconciled(coordinator, group, fleet):
    """At any moment no partition is in two members' sets."""
    asked = {"group_ids": [group], "include_authorized_operations": False}
    (shown,) = call(coordinator.address, ApiKey.CONSUMER_GROUP_DESCRIBE, 1, **asked).groups
    held = [
        (part.topic_name, number)
        for member in shown.members
        for part in member.assignment.topic_partitions
        for number in part.partitions
    ]
    assert len(held) == len({*held}), held
    is_stable = (shown.group_state, len(shown.members)) == ("Stable", len(fleet.members))
    return is_stable and sorted(held) == fleet.held()


@contextmanager
def aborted_transactions(story):
    """Which overlap, and are not aborted in the order in which they began; markers end the log."""
    topic, names = "t14", ("t14-first", "t14-second", "t14-kept")
    story.cluster.create_on(topic, story.killed, *story.left)
    with ExitStack() as stack, PartitionClient(story.killed.address, topic) as client:
        first, second, kept = (stack.enter_context(producer_of(story, each)) for each in names)
        first.write(topic, b"aborted", leader=client.wire)
        second.write(topic, b"aborted", leader=client.wire)
        second.abort()
        first.abort()
        kept.write(topic, b"kept", leader=client.wire)
        kept.commit()
        first.write(topic, b"aborted", leader=client.wire)
        first.abort()
        aborted = [(first.id, 0), (second.id, 1), (first.id, 6)]
        check_aborted(client, aborted)
    for follower in story.left:
        with PartitionClient(follower.address, topic) as client:
            check_aborted(client, aborted)
    yield
    with PartitionClient(story.new_leader(topic).address, topic) as client:
        check_aborted(client, aborted)
        assert stable_end(client) == client.offset_at(LATEST) == 8


def producer_of(story, name):
    producer = WireProducer(coordinator(story.cluster, TRANSACTION, name).address, name)
    producer.init()
    return producer


def check_aborted(client, aborted):
    """By a leader, or by a follower that consumers read from (KIP-392), when it knows the end."""
    wait_until(lambda: client.fetch(0).high_watermark == 8)
    line = client.fetch(0, isolation_level=READ_COMMITTED)
    told = [(each.producer_id, each.first_offset) for each in line.aborted_transactions]
    assert (told, line.last_stable_offset) == (aborted, 8)
    assert client.fetch(0).aborted_transactions is None
    assert committed_values(client) == [b"kept"]


@contextmanager
def lost_producer(story):
    """Of whose batches one got lost, and one of which nothing is known (KIP-360)."""
    topic, leader = "p7", story.killed
    story.cluster.create_on(topic, leader, *story.left)
    known, unknown = new_producer(leader), new_producer(leader)
    with PartitionClient(leader.address, topic) as client:
        assert told(client, known, 0, b"0") == 0
        assert told(client, known, 1, b"1") == 1
    yield
    leader = story.new_leader(topic)
    with PartitionClient(leader.address, topic) as client:
        assert told(client, unknown, 7, b"2") == 2
        assert told(client, unknown, 8, b"3") == 3
        assert told(client, known, 3, b"lost") == "OUT_OF_ORDER_SEQUENCE_NUMBER"
        id_, epoch = known
        assert told(client, (id_, epoch + 1), 2, b"lost") == "OUT_OF_ORDER_SEQUENCE_NUMBER"
        recovered = new_producer(leader, producer_id=id_, producer_epoch=epoch)
        assert recovered != known
        assert [told(client, recovered, 0, b"4") for _ in range(2)] == [4, 4]
        assert [each.value for each in client.records()] == [b"%d" % each for each in range(5)]


def new_producer(broker, **before):
    """Its id and epoch."""
    wanted = {"transactional_id": None, "transaction_timeout_ms": 60_000}
    answer = call(broker.address, ApiKey.INIT_PRODUCER_ID, 4, **wanted, **before)
    assert not answer.error_code, answer
    return answer.producer_id, answer.producer_epoch


def told(client, producer, sequence, value):
    """Where it went, or what is amiss."""
    now_ms = time.time_ns() // 10**6
    id_, epoch = producer
    sent = {"producer_id": id_, "producer_epoch": epoch, "base_sequence": sequence}
    line = client.produce(batch_of(Record(0, now_ms, None, value, ()), **sent))
    return ErrorCode.for_code(line.error_code).name if line.error_code else line.base_offset


@contextmanager
def static_members(story):
    """One of them restarts meanwhile: nothing is assigned anew, and its former self is fenced."""
    group, topic = story.group(), "g10"
    with ExitStack() as stack:
        old, other = (
            stack.enter_context(WireMember(story.killed.address, group, instance=each))
            for each in ("restarted", "other")
        )
        parts = gathered(old, other)
    yield
    after = story.new_coordinator(group)
    with (
        WireMember(after.address, group, instance="restarted") as new,
        WireClient(after.address) as client,
    ):
        old.client = other.client = client
        assert settled(new.join) == "NONE"
        assert new.generation == old.generation
        assert new.sync() == ("NONE", parts[0])
        assert other.heartbeat() == "NONE"
        assert other.sync() == ("NONE", parts[1])
        assert old.heartbeat() == "FENCED_INSTANCE_ID"
        assert old.commit(topic, 99) == "FENCED_INSTANCE_ID"
        assert old.join() == "FENCED_INSTANCE_ID"
        assert new.commit(topic, 5) == "NONE"


def gathered(first, second, *, second_ms=LONG_MS):
    """What each is given, in a generation that both are in; how long the second may be silent."""
    assert (settled(lambda: first.join(session_ms=LONG_MS)), first.sync()[0]) == ("NONE", "NONE")
    second.ask_to_join(session_ms=second_ms)
    wait_for_state(first.address, first.group, "PreparingRebalance")
    assert (first.join(session_ms=LONG_MS), second.joined()) == ("NONE", "NONE")
    synced = first.sync(), second.sync()
    assert [each for each, _ in synced] == ["NONE", "NONE"]
    return [part for _, part in synced]


@contextmanager
def silent_member(story):
    """Paused, as it were, past its session, which begins anew with its coordinator."""
    group, topic = story.group(), "g10"
    with (
        WireMember(story.killed.address, group) as heard,
        WireMember(story.killed.address, group) as silent,
    ):
        gathered(heard, silent, second_ms=SHORT_MS)
        assert silent.commit(topic, 3) == "NONE"
    yield
    after = story.new_coordinator(group)
    with WireClient(after.address) as heard.client:
        silent.client = heard.client
        wait_until(lambda: heard.heartbeat() == "REBALANCE_IN_PROGRESS")
        assert silent.commit(topic, 9) == "UNKNOWN_MEMBER_ID"
        generation = heard.generation
        assert heard.join() == "NONE"
        assert (heard.members, heard.generation) == ([heard.id], generation + 1)
    assert committed(after.address, group) == {(topic, 0): 3}
