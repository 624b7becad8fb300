"""What becomes of groups when members, or the broker, are killed; and large groups."""

import asyncio
from contextlib import ExitStack

import pytest
from aiokafka import AIOKafkaConsumer

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
    send(broker.address, "t", GROUPS, partitions=1)
    call(broker.address, ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=["g"])
    acknowledged = asyncio.run(commit_in_many_groups(broker.address))
    getattr(broker, ending)()
    broker.start()
    for number, offset in acknowledged.items():
        assert committed(broker.address, f"g{number}") == {("t", 0): offset}


async def commit_in_many_groups(address):
    """Each consumer reads and commits as many records as its number says."""
    consumers = [
        AIOKafkaConsumer(
            "t",
            bootstrap_servers=address,
            group_id=f"g{number}",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        for number in range(1, GROUPS)
    ]
    acknowledged = {}

    async def consume(number, consumer):
        await consumer.start()
        count = 0
        while count < number:
            await consumer.getone()
            count += 1
        await consumer.commit()
        acknowledged[number] = count
        await consumer.stop()

    async with asyncio.TaskGroup() as group:
        for number, consumer in enumerate(consumers, start=1):
            group.create_task(consume(number, consumer))
    return acknowledged


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
    owned = {place for consumer in consumers for place in consumer.assignment()}
    assert len(owned) == partitions
    async with asyncio.TaskGroup() as group:
        for consumer in consumers:
            group.create_task(consumer.stop())
