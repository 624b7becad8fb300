"""Kafka's own consumers in groups, of two releases and both protocols, on a broker of ours."""

import itertools

import pytest

from tests.interop.polled_members import (
    ALL,
    EACH,
    RECORDS,
    broker,
    poll_until,
    send_more,
    share,
    topic,
)
from tests.support.java_conversation import JavaConversation, jars
from tests.support.new_topics import new_topic

__all__ = ["broker", "jars", "new_topic", "topic"]

RANGE = {"partition.assignment.strategy": "org.apache.kafka.clients.consumer.RangeAssignor"}
COOPERATIVE = {
    "partition.assignment.strategy": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
}
QUICK = {"heartbeat.interval.ms": 200, "session.timeout.ms": 6000}
CONSUMER = {"group.protocol": "consumer"}
KINDS = {
    "range": {**RANGE, **QUICK},
    "cooperative": {**COOPERATIVE, **QUICK},
    "consumer": CONSUMER,
}


@pytest.fixture(scope="module")
def program(jars, broker):
    with JavaConversation(jars, "LiveGroups.java", broker.address) as running:
        yield running


@pytest.fixture(params=KINDS)
def kind(request):
    return KINDS[request.param]


class JavaMember:
    numbers = itertools.count()

    def __init__(self, program, topic, configs):
        self._program = program
        self.name = f"member-{next(self.numbers)}"
        self.records = []
        self.told = {"assigned": [], "events": [], "acknowledged": 0, "failed": 0}
        texts = {key: str(each) for key, each in configs.items()}
        self.ask("open", topic=topic, configs=texts)

    def ask(self, command, **fields):
        return self._program.ask(command, name=self.name, **fields)

    def poll(self):
        self.told = self.ask("poll")
        self.records += [tuple(each) for each in self.told["records"]]

    @property
    def assigned(self):
        return self.told["assigned"]

    def events(self, what):
        """With partitions, if they were of this kind."""
        return [each[1:] for each in self.told["events"] if each[0] == what and each[1:]]

    def committed(self, *partitions):
        found = self.ask("committed", partitions=partitions)["offsets"]
        return {int(partition): each for partition, each in found.items()}

    def commit(self, **fields):
        self.ask("commit", **{"sync": True, **fields})


@pytest.fixture
def member(program, topic, kind):
    opened = []

    def open_one(**configs):
        made = JavaMember(program, topic, {"group.id": f"group-of-{topic}", **kind, **configs})
        opened.append(made)
        return made

    yield open_one
    for each in opened:
        if each.name is not None:
            each.ask("close")


def closed(member):
    member.ask("close")
    member.name = None


def has_read(member, count=RECORDS):
    return lambda: len(member.records) >= count


def test_what_was_committed_is_where_the_next_one_begins(member, broker, topic):
    first = member()
    poll_until(has_read(first), first)
    first.commit()
    assert first.committed(*ALL) == {each: [EACH, ""] for each in ALL}
    first.commit(partition=1, offset=3, metadata="three")
    assert first.committed(1) == {1: [3, "three"]}
    closed(first)
    second = member()
    poll_until(has_read(second, EACH - 3), second)
    assert [each[:2] for each in second.records] == [(1, offset) for offset in range(3, EACH)]


def test_commits_that_are_not_waited_for_are_acknowledged(member):
    only = member()
    poll_until(has_read(only), only)
    for _ in range(5):
        only.commit(sync=False)
    poll_until(lambda: only.told["acknowledged"] == 5, only)
    assert only.told["failed"] == 0
    assert only.committed(*ALL) == {each: [EACH, ""] for each in ALL}


def test_a_paused_partition_is_read_when_it_is_resumed(member, broker, topic):
    only = member()
    poll_until(has_read(only), only)
    only.ask("pause", partitions=[0, 1])
    send_more(broker, topic)
    poll_until(has_read(only, RECORDS * 3 // 2), only)
    only.poll()
    assert {each[0] for each in only.records[RECORDS:]} == {2, 3}
    only.ask("resume", partitions=[0, 1])
    poll_until(has_read(only, RECORDS * 2), only)


def test_seeking_reads_again(member):
    only = member()
    poll_until(has_read(only), only)
    only.ask("seek", partition=2, offset=4)
    poll_until(has_read(only, RECORDS + EACH - 4), only)
    assert [each[:2] for each in only.records[RECORDS:]] == [(2, at) for at in range(4, EACH)]


def test_two_share_and_each_hears_of_it(member, kind):
    first = member()
    poll_until(lambda: first.assigned == ALL, first)
    second = member()
    poll_until(lambda: share(first, second), first, second)
    given_up = {each for event in first.events("revoked") for each in event}
    assert given_up >= set(second.assigned)
    # Only the assignor that revokes eagerly takes away what the member then has again.
    is_eager = kind is KINDS["range"]
    assert (given_up == set(ALL)) == is_eager
    assert not first.events("lost")
    closed(second)
    poll_until(lambda: first.assigned == ALL, first)


def test_a_static_member_that_is_restarted_disturbs_nobody(member):
    first, second = member(**{"group.instance.id": "i1"}), member(**{"group.instance.id": "i2"})
    poll_until(lambda: share(first, second), first, second)
    before, had = first.told["events"], second.assigned
    closed(second)
    second = member(**{"group.instance.id": "i2"})
    poll_until(lambda: second.assigned == had, first, second)
    for _ in range(5):
        first.poll()
    assert first.told["events"] == before
