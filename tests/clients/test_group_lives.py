"""What becomes of groups when members, or the broker, are killed; and large groups."""

import asyncio
from contextlib import ExitStack

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition

from odradek.protocol.api_keys import ApiKey
from tests.clients.test_groups import PARTITIONS, SETTINGS, is_all_committed, send
from tests.support.broker_process import BrokerProcess
from tests.support.group_members import (
    LIBRARIES,
    Member,
    check_commits,
    check_none_skipped,
    committed,
    described,
    places_of,
    share,
    wait_until,
)
from tests.support.partition_client import create_topic
from tests.support.wire_client import call

GROUPS = 20
NAMES = [f"g{number}" for number in range(GROUPS)]
RECORDS = 200
ENDINGS = pytest.mark.parametrize("ending", ["stop", "kill"])


@pytest.fixture
def broker(tmp_path):
    with BrokerProcess(tmp_path / "logs", *SETTINGS).start() as running:
        yield running
        assert "Traceback" not in running.log_text


@pytest.fixture
def members(broker):
    with ExitStack() as stack:

        def start(library, **options):
            return stack.enter_context(Member(library, broker.address, **options))

        yield start


@ENDINGS
def test_twenty_groups_go_on_at_their_last_commit_when_the_broker_comes_back(broker, ending):
    create_topic(broker.address, "t", partitions=1)
    send(broker.address, "t", RECORDS, partitions=1)
    call(broker.address, ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=["g"])
    asyncio.run(read_through_an_ending(broker, ending))
    for group in NAMES:
        assert committed(broker.address, group) == {("t", 0): RECORDS}


async def read_through_an_ending(broker, ending):
    """Each group commits record by record, and goes on when the broker is there again."""
    acknowledged, have_all_begun, is_midway = {}, asyncio.Event(), asyncio.Event()

    async def consume(group):
        consumer = AIOKafkaConsumer(
            "t",
            bootstrap_servers=broker.address,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        await consumer.start()
        for offset in range(RECORDS):
            record = await consumer.getone()
            assert record.offset == offset, group
            await consumer.commit({TopicPartition("t", 0): offset + 1})
            acknowledged[group] = offset + 1
            if len(acknowledged) == GROUPS:
                have_all_begun.set()
            await have_all_begun.wait()
            if offset == RECORDS // 4:
                is_midway.set()
        await consumer.stop()

    def bounce():
        getattr(broker, ending)()
        before = dict(acknowledged)
        broker.start()
        for group, offset in before.items():
            assert committed(broker.address, group)["t", 0] >= offset, group
        return before

    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        for group in NAMES:
            tasks.create_task(consume(group))
        await is_midway.wait()
        # Not on a thread: with that the broker would end too.
        before = bounce()
        assert max(before.values()) < RECORDS, "nobody was reading any more"


@ENDINGS
def test_members_stay_members_while_the_broker_is_away(broker, members, ending):
    """Whether they are static or not: the group is loaded as it was."""
    create_topic(broker.address, "t", partitions=PARTITIONS)
    options = {"group": "g", "topics": ["t"], "session_ms": 30_000}
    everybody = [
        members("confluent", instance="one", **options),
        members("aiokafka", instance="two", **options),
        members("confluent", **options),
    ]
    places = places_of("t", PARTITIONS)
    wait_until(lambda: share(everybody, places) and all(each.assignment for each in everybody))
    before = [each.rebalances for each in everybody]
    values = send(broker.address, "t", 60)
    wait_until(is_all_committed(broker, "g", 60))
    getattr(broker, ending)()
    broker.start()
    values += send(broker.address, "t", 60, first=60)
    wait_until(is_all_committed(broker, "g", 120))
    assert [each.rebalances for each in everybody] == before
    check_none_skipped(everybody, values)
    check_commits(everybody)


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
