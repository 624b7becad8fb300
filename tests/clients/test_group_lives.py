"""What becomes of groups when members, or the broker, are killed; and large groups."""

import asyncio
from collections import Counter
from functools import partial

import pytest
from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition

from tests.support.broker_process import BrokerProcess
from tests.support.group_members import (
    PARTITIONS,
    SETTINGS,
    check_commits,
    check_none_skipped,
    is_all_committed,
    members,
    places_of,
    send,
    share,
    wait_until,
)
from tests.support.group_wire import WireMember, committed, described, find_coordinator
from tests.support.member_consumer import LIBRARIES
from tests.support.partition_client import create_topic

__all__ = ["members"]

GROUPS = 20
NAMES = [f"g{number}" for number in range(GROUPS)]
INSTANCES = {name: f"only-of-{name}" if number % 2 else None for number, name in enumerate(NAMES)}
NAMES_ONCE = Counter(NAMES)
FIRST_GENERATION = 1
POLLED_MAX = 5
RECORDS = 200
ENDINGS = pytest.mark.parametrize("ending", ["stop", "kill"])


@pytest.fixture
def broker(tmp_path):
    with BrokerProcess(tmp_path / "logs", *SETTINGS).start() as running:
        yield running
        assert "Traceback" not in running.log_text


@ENDINGS
def test_twenty_groups_go_on_at_their_last_commit_when_the_broker_comes_back(broker, ending):
    create_topic(broker.address, "t", partitions=1)
    send(broker.address, "t", RECORDS, partitions=1)
    find_coordinator(broker.address)
    asyncio.run(read_through_an_ending(broker, ending))
    for group in NAMES:
        assert committed(broker.address, group) == {("t", 0): RECORDS}


async def read_through_an_ending(broker, ending):
    """The member of every other group is static.  None of them is assigned anything anew."""
    reading = Reading(broker)
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        for group in NAMES:
            tasks.create_task(reading.consume(group))
        await reading.is_midway.wait()
        members = [the_member(broker.address, group) for group in NAMES]
        # Not on a thread: with that the broker would end too.
        before = reading.bounce(ending)
        assert max(before.values()) < RECORDS, "nobody was reading any more"
        await reading.have_all_ended.wait()
        assert [the_member(broker.address, group) for group in NAMES] == members
        assert reading.assigned == NAMES_ONCE
        await reading.have_all_ended.wait()


class Reading:
    """By one member of each group, all in this loop."""

    def __init__(self, broker):
        self._broker = broker
        self._acknowledged = {}
        self._have_all_begun = asyncio.Event()
        self.is_midway = asyncio.Event()
        #: Waited at twice: they are members until they have been looked at.
        self.have_all_ended = asyncio.Barrier(GROUPS + 1)
        self.assigned = Counter()

    async def consume(self, group):
        """Commits record by record, and goes on when the broker is there again."""
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self._broker.address,
            group_id=group,
            group_instance_id=INSTANCES[group],
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        consumer.subscribe(["t"], listener=Counting(self.assigned, group))
        await consumer.start()
        for offset in range(RECORDS):
            record = await consumer.getone()
            assert record.offset == offset, group
            await consumer.commit({TopicPartition("t", 0): offset + 1})
            await self._acknowledge(group, offset + 1)
        await self.have_all_ended.wait()
        await self.have_all_ended.wait()
        await consumer.stop()

    async def _acknowledge(self, group, offset):
        self._acknowledged[group] = offset
        if len(self._acknowledged) == GROUPS:
            self._have_all_begun.set()
        await self._have_all_begun.wait()
        if offset > RECORDS // 4:
            self.is_midway.set()

    def bounce(self, ending):
        """What was acknowledged before, and is there after."""
        getattr(self._broker, ending)()
        before = dict(self._acknowledged)
        self._broker.start()
        for group, offset in before.items():
            assert committed(self._broker.address, group)["t", 0] >= offset, group
        return before


class Counting(ConsumerRebalanceListener):
    def __init__(self, assigned, group):
        self._assigned = assigned
        self._group = group

    def on_partitions_assigned(self, assigned):
        self._assigned[self._group] += 1

    def on_partitions_revoked(self, revoked):
        """Whoever has something revoked is assigned something after that."""


def the_member(address, group):
    """The id and the instance of the only one; that it is still in its first generation."""
    (shown,) = described(address, group).members
    with WireMember(address, group, instance=shown.group_instance_id) as same:
        same.id, same.generation = shown.member_id, FIRST_GENERATION
        assert same.heartbeat() == "NONE", group
    assert shown.group_instance_id == INSTANCES[group]
    return shown.member_id


def test_commits_that_nobody_waits_for_are_where_the_next_library_begins(broker, members):
    """And no kill of the broker takes those away that were acknowledged."""
    create_topic(broker.address, "t", partitions=PARTITIONS)
    for number, library in enumerate(LIBRARIES):
        values = send(broker.address, "t", 60, first=60 * number)
        polled = {"is_commit_awaited": False, "polled_max": POLLED_MAX}
        member = members(library, group="g", topics=["t"], **polled)
        member.wait_until(partial(has_committed, member, 60))
        assert not member.happened("refused")
        assert len(member.happened("committed")) >= 60 // POLLED_MAX
        assert sorted(value for _, _, value in member.records) == sorted(values)
        member.close()
        broker.kill()
        broker.start()
        each = 60 * (number + 1) // PARTITIONS
        assert committed(broker.address, "g") == dict.fromkeys(places_of("t", PARTITIONS), each)


def has_committed(member, count):
    """So many records at least; and has heard of every commit."""
    heard = len(member.happened("committed")) + len(member.happened("refused"))
    return len(member.records) >= count and heard == len(member.happened("records"))


@pytest.mark.parametrize("library", LIBRARIES)
def test_the_others_take_over_what_a_killed_member_had(broker, members, library):
    create_topic(broker.address, "t", partitions=PARTITIONS)
    options = {"group": "g", "topics": ["t"]}
    killed, left = members(library, **options), members("confluent", **options)
    places = places_of("t", PARTITIONS)
    wait_until(lambda: share([killed, left], places) and killed.assignment and left.assignment)
    values = send(broker.address, "t", 60)
    wait_until(is_all_committed(broker, "g", 60))
    killed.kill()
    values += send(broker.address, "t", 60, first=60)
    left.wait_until(lambda: share([left], places))
    wait_until(is_all_committed(broker, "g", 120))
    check_none_skipped([killed, left], values)
    check_commits([killed, left])


def test_fifty_members_share_a_hundred_partitions(broker):
    create_topic(broker.address, "t", partitions=100)
    asyncio.run(share_among(broker.address, 50, 100))
    assert described(broker.address, "g").group_state == "Empty"


async def share_among(address, members, partitions):
    consumers = [
        AIOKafkaConsumer("t", bootstrap_servers=address, group_id="g", heartbeat_interval_ms=500)
        for _ in range(members)
    ]
    async with asyncio.TaskGroup() as group:
        for consumer in consumers:
            group.create_task(consumer.start())
    shares = [partitions // members] * members
    for _ in range(600):
        if [len(consumer.assignment()) for consumer in consumers] == shares:
            break
        await asyncio.sleep(0.1)
    assert [len(consumer.assignment()) for consumer in consumers] == shares
    owned = {place for consumer in consumers for place in consumer.assignment()}
    assert len(owned) == partitions
    async with asyncio.TaskGroup() as group:
        for consumer in consumers:
            group.create_task(consumer.stop())
