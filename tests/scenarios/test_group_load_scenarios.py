"""Y1: a thousand members send heartbeats while others read all there is."""

import asyncio
import sys
from collections import Counter

import pytest
from confluent_kafka import Producer

from odradek.protocol.api_keys import ApiKey
from tests.support.broker_process import BrokerProcess
from tests.support.group_wire import find_coordinator
from tests.support.loop_watch import LoopWatch
from tests.support.many_members import LoopMember
from tests.support.partition_client import create_topic
from tests.support.wire_client import WireClient

MEMBERS, GROUPS = 1000, 20
SESSION_MS = 6_000
READ_BYTES = 100 << 20
RECORD = b"r" * 900_000
READS = 12
HELD_MAX_S = 0.1
#: Heartbeats: the loop is watched, not a queue that grows while the members have no processor.
AT_ONCE = 100


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    settings = (
        "group.initial.rebalance.delay.ms=2000",
        "offsets.topic.num.partitions=5",
        f"fetch.max.bytes={READ_BYTES}",
    )
    data_dir = tmp_path_factory.mktemp("load") / "logs"
    with BrokerProcess(data_dir, *settings).start() as running:
        find_coordinator(running.address)
        yield running


def fill(address):
    create_topic(address, "t", partitions=1)
    producer = Producer({"bootstrap.servers": address, "message.max.bytes": 1_000_000})
    for _ in range(READ_BYTES // len(RECORD)):
        producer.produce("t", RECORD, partition=0)
    assert producer.flush(60) == 0


def read_all(address):
    """In one answer."""
    with WireClient(address, timeout_s=60) as client:
        partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": READ_BYTES}
        client.send(
            ApiKey.FETCH,
            11,
            max_wait_ms=1,
            min_bytes=1,
            max_bytes=READ_BYTES,
            session_epoch=-1,
            topics=[{"topic": "t", "partitions": [partition]}],
        )
        return len(client.answer_bytes())


def test_y1_nobody_times_out_and_the_loop_is_not_held_while_100_mb_are_fetched_at_once(broker):
    fill(broker.address)
    with LoopWatch(broker.address, broker.pid) as watch:
        told = asyncio.run(heartbeats_while_reading(broker.address, watch))
    assert set(told) == {"NONE"}, told
    assert told["NONE"] > 2 * MEMBERS
    assert watch.requests > READS
    # Elsewhere nobody keeps account of who had no processor.
    assert watch.held_s < HELD_MAX_S or sys.platform != "linux"


async def heartbeats_while_reading(address, watch):
    members = [
        LoopMember(address, f"g{number % GROUPS}", session_ms=SESSION_MS)
        for number in range(MEMBERS)
    ]
    told, is_over, at_once = Counter(), asyncio.Event(), asyncio.Semaphore(AT_ONCE)
    try:
        async with asyncio.TaskGroup() as joining:
            for member in members:
                joining.create_task(member.join())
        async with asyncio.TaskGroup() as beating:
            for member in members:
                beating.create_task(member.beat(is_over, told, at_once))
            watch.begin()
            for _ in range(READS):
                assert await asyncio.to_thread(read_all, address) > 0.9 * READ_BYTES
            watch.end()
            # Nobody was missed while that went on, if nobody is missed a session later.
            await asyncio.sleep(SESSION_MS / 1000)
            is_over.set()
    finally:
        for member in members:
            member.close()
    return told
