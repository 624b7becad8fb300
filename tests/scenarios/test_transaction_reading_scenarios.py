"""T2, T3, T13 and T14: what consumers see of transactions that are open, or were aborted."""

import asyncio
import itertools
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import aiokafka
import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.records.record_set import batches_of_any_magic
from tests.support.batches import batch_of
from tests.support.client_driver import TIMEOUT_S
from tests.support.committed_records import committed_values, stable_end
from tests.support.partition_client import LATEST, READ_COMMITTED, PartitionClient
from tests.support.persistent_load import PersistentConsumer
from tests.support.transaction_wire import WireProducer
from tests.support.transactional_clients import CLIENTS
from tests.support.wire_client import WireClient

PRODUCERS, ABORTS = 6, 5
LONGEST_S = 0.5
LAST = b"the only one that counts"
ISOLATIONS = ("read_committed", "read_uncommitted")
EVERY_CLIENT = pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
ENDS = pytest.mark.parametrize("is_committed", [True, False], ids=["committed", "aborted"])


@pytest.fixture
def producer(broker, request):
    with WireProducer(broker.address, request.node.name) as made:
        made.init()
        yield made


def plain(value):
    return batch_of(value)


@EVERY_CLIENT
def test_t2_what_is_aborted_after_any_time_is_seen_by_read_uncommitted_alone(
    broker, new_topic, client
):
    topic = new_topic()
    readers = {
        isolation: PersistentConsumer(
            broker.address, topic, partitions=1, **{"isolation.level": isolation}
        )
        for isolation in ISOLATIONS
    }
    for reader in readers.values():
        reader.start()

    def abort_again_and_again(number):
        values = [f"{number} {n}".encode() for n in range(ABORTS)]
        with client.producer(broker.address, f"{topic}-{number}") as producer:
            for n, value in enumerate(values):
                producer.begin()
                producer.send(topic, [value])
                time.sleep(LONGEST_S * (number * ABORTS + n) / (PRODUCERS * ABORTS))
                producer.abort()
        return values

    with ThreadPoolExecutor(PRODUCERS) as pool:
        aborted = sorted(itertools.chain(*pool.map(abort_again_and_again, range(PRODUCERS))))
    with client.producer(broker.address, f"{topic}-last") as producer:
        producer.begin()
        producer.send(topic, [LAST])
        producer.commit()
    seen = {}
    for isolation, reader in readers.items():
        reader.wait_for(1 if isolation == "read_committed" else len(aborted) + 1)
        reader.stop()
        assert reader.failures == []
        seen[isolation] = [value for _, value in reader.found[0]]
    assert seen["read_committed"] == [LAST]
    assert seen["read_uncommitted"][-1] == LAST
    assert sorted(seen["read_uncommitted"][:-1]) == aborted


def offsets_in(line):
    return [
        each.offset
        for batch in batches_of_any_magic(bytes(line.records or b""))
        for each in batch.records()
    ]


def test_t3_nothing_from_the_first_open_transaction_on_is_read_committed(
    broker, new_topic, producer
):
    topic = new_topic()
    with PartitionClient(broker.address, topic) as partition:
        producer.write(topic, b"a", b"b", b"c")
        producer.commit()
        partition.produce(plain(b"before"))
        opened_at = partition.offset_at(LATEST)
        producer.write(topic, b"d", b"e", timestamp_ms=int(time.time() * 1000) + 1000)
        partition.produce(plain(b"after"))
        assert opened_at == 5
        for offset, expected in ((4, [4]), (5, []), (6, []), (7, []), (8, [])):
            line = partition.fetch(offset, isolation_level=READ_COMMITTED)
            assert (line.error_code, line.last_stable_offset, line.high_watermark) == (0, 5, 8)
            assert offsets_in(line) == expected
        assert (stable_end(partition), partition.offset_at(LATEST)) == (5, 8)
        producer.commit()
        line = partition.fetch(5, isolation_level=READ_COMMITTED)
        assert (line.last_stable_offset, offsets_in(line)) == (9, [5, 6, 7, 8])


def test_t3_a_record_of_an_open_transaction_is_not_found_by_its_time(broker, new_topic, producer):
    topic, later_ms = new_topic(), int(time.time() * 1000) + 60_000
    producer.write(topic, b"a")
    producer.commit()
    producer.write(topic, b"b", timestamp_ms=later_ms)
    with PartitionClient(broker.address, topic) as partition:
        assert partition.offset_at(later_ms) == 2
        assert partition.offset_at(later_ms, isolation_level=READ_COMMITTED) == -1
        producer.commit()
        assert partition.offset_at(later_ms, isolation_level=READ_COMMITTED) == 2


@pytest.mark.parametrize("ending", ["stop", "kill"])
def test_t3_an_open_transaction_is_open_after_a_restart(broker, new_topic, request, ending):
    topic, name = new_topic(), request.node.name
    with WireProducer(broker.address, name) as before:
        before.init()
        before.write(topic, b"a")
    getattr(broker, ending)()
    broker.start()
    with (
        WireProducer(broker.address, name) as after,
        PartitionClient(broker.address, topic) as partition,
    ):
        after.id, after.epoch, after.sequences = before.id, before.epoch, before.sequences
        assert (stable_end(partition), partition.offset_at(LATEST)) == (0, 1)
        after.write(topic, b"b")
        after.commit()
        assert committed_values(partition) == [b"a", b"b"]


@ENDS
def test_t13_a_marker_at_the_end_of_the_log_leaves_no_lag(
    broker, new_topic, producer, is_committed
):
    topic = new_topic()
    producer.write(topic, b"a")
    (producer.commit if is_committed else producer.abort)()
    with PartitionClient(broker.address, topic) as partition:
        end = partition.offset_at(LATEST)
        assert (end, stable_end(partition)) == (2, 2)
    assert end_seen_by_confluent(broker.address, topic) == end
    assert asyncio.run(end_seen_by_aiokafka(broker.address, topic)) == (end, end)


def end_seen_by_confluent(address, topic):
    """Where it says that there is no more."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "never-asked-for",
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    deadline = time.monotonic() + TIMEOUT_S
    try:
        while time.monotonic() < deadline:
            message = consumer.poll(1)
            if message is not None and message.error() is not None:
                assert message.error().code() == KafkaError._PARTITION_EOF
                return message.offset()
    finally:
        consumer.close()
    return None


async def end_seen_by_aiokafka(address, topic):
    """Its position when there is no more, and the last stable offset."""
    place = aiokafka.TopicPartition(topic, 0)
    consumer = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=address, isolation_level="read_committed", auto_offset_reset="earliest"
    )
    await consumer.start()
    try:
        consumer.assign([place])
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            await consumer.getmany(timeout_ms=100)
            found = await consumer.position(place), consumer.last_stable_offset(place)
            if found[0] == found[1] or time.monotonic() > deadline:
                return found
    finally:
        await consumer.stop()


@ENDS
def test_t13_a_reader_at_the_end_waits_and_is_woken_by_what_is_stable(
    broker, new_topic, producer, is_committed
):
    topic = new_topic()
    producer.write(topic, b"a")
    producer.commit()
    with (
        PartitionClient(broker.address, topic) as partition,
        WireClient(broker.address) as reader,
    ):
        end = partition.offset_at(LATEST)
        ask_for_more(reader, topic, end)
        producer.write(topic, b"b")
        # It was read after that: whoever answers at once, or to what is open, has done so by now.
        assert partition.offset_at(LATEST) == end + 1
        assert not reader.is_answered()
        (producer.commit if is_committed else producer.abort)()
        line = reader.answer(ApiKey.FETCH, 11).responses[0].partitions[0]
        assert offsets_in(line) == [end, end + 1]
        assert line.last_stable_offset == line.high_watermark == end + 2


def ask_for_more(reader, topic, offset):
    partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
    reader.send(
        ApiKey.FETCH,
        11,
        max_wait_ms=TIMEOUT_S * 1000,
        min_bytes=1,
        max_bytes=1 << 20,
        session_epoch=-1,
        isolation_level=READ_COMMITTED,
        topics=[{"topic": topic, "partitions": [partition]}],
    )


@pytest.mark.parametrize("segment_bytes", [100, 1 << 20], ids=["many-segments", "one-segment"])
def test_t14_the_aborted_are_sorted_for_read_committed_and_null_for_others(
    broker, new_topic, request, segment_bytes
):
    topic = new_topic(segment_bytes=segment_bytes)
    aborted = {}
    with PartitionClient(broker.address, topic) as partition, ExitStack() as stack:
        for turn in range(3):
            names = [f"{request.node.name}-{turn}-{number}" for number in range(4)]
            producers = [stack.enter_context(WireProducer(broker.address, name)) for name in names]
            for producer in producers:
                producer.init()
                aborted[producer.id] = partition.offset_at(LATEST), None
                producer.write(topic, b"1")
            for number in (2, 0, 3, 1):
                producer = producers[number]
                producer.write(topic, b"2")
                first = aborted.pop(producer.id)[0]
                producer.commit() if number == 3 else producer.abort()
                if number != 3:
                    aborted[producer.id] = first, partition.offset_at(LATEST) - 1
        assert len(aborted) == 9
        end = partition.offset_at(LATEST)
        for offset, max_bytes in itertools.product(range(end), (1, 300, 1 << 20)):
            check_aborted(partition, aborted, offset, max_bytes)
        assert committed_values(partition) == [b"1", b"2"] * 3
        assert len(partition.records()) == 24


def check_aborted(partition, aborted, offset, max_bytes):
    line = partition.fetch(offset, max_bytes=max_bytes, isolation_level=READ_COMMITTED)
    told = {each.producer_id: each.first_offset for each in line.aborted_transactions}
    assert len(told) == len(line.aborted_transactions)
    assert list(told.values()) == sorted(told.values())
    assert told.items() <= {(id_, first) for id_, (first, _) in aborted.items()}
    last = offsets_in(line)[-1]
    reaching_in = {
        id_ for id_, (first, marker) in aborted.items() if first <= last and marker >= offset
    }
    assert reaching_in <= told.keys()
    assert partition.fetch(offset, max_bytes=max_bytes).aborted_transactions is None
