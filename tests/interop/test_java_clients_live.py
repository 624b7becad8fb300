"""Kafka's own producers and consumers, of two releases, on a broker of ours."""

from collections import defaultdict
from itertools import groupby

import pytest

from odradek.protocol.records.control_records import EndTransactionMarker, build_marker_batch
from tests.support.batches import batch_of
from tests.support.broker_process import broker
from tests.support.client_driver import CODECS, Sent
from tests.support.dumps import dumped_batches
from tests.support.java_clients import Bounds, Found, Intercepted, JavaClients
from tests.support.java_conversation import JavaRefused, jars
from tests.support.new_topics import new_topic

__all__ = ["broker", "jars", "new_topic"]

NOW_MS = 1_700_000_000_000
COUNTING = {"interceptor.classes": "LiveClients$Counting"}
#: What the partitioner of Kafka's producer makes of keys.
MURMUR2 = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}
POSITIVE = 0x7FFFFFFF


@pytest.fixture(scope="module")
def clients(jars, broker):
    with JavaClients(jars, broker.address) as running:
        yield running


def stored_batches(broker, topic):
    return dumped_batches(log_of(broker, topic))


def log_of(broker, topic):
    return broker.data_dir / f"{topic}-0" / f"{0:020}.log"


def contents(records):
    return [(each.key, each.value, each.headers, each.timestamp_ms) for each in records]


@pytest.mark.parametrize("codec", CODECS)
def test_records_come_back_as_they_were_sent(clients, broker, new_topic, codec):
    topic = new_topic()
    values = (None, b"", b"x", b"text " * 200, bytes(range(256)) * 3000)
    sent = [
        Sent(value, key, headers, NOW_MS + 1000 * number)
        for number, (value, key, headers) in enumerate(
            (value, key, headers)
            for value in values
            for key in (None, b"", b"key")
            for headers in ((), (("a", b"1"), ("b", b""), ("a", b"\xff")))
        )
    ]
    with clients.producer({"compression.type": codec, "linger.ms": 20}) as producer:
        landed = producer.send(topic, sent)
    assert [each.offset for each in landed] == list(range(len(sent)))
    assert [each.timestamp_ms for each in landed] == [each.timestamp_ms for each in sent]
    with clients.consumer() as consumer:
        received = consumer.read(topic, {0: 0}, count=len(sent))
    assert contents(received) == contents(sent)
    assert {batch.codec for batch in stored_batches(broker, topic)} == {codec}


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_nothing_is_lost_whatever_acknowledgement_is_waited_for(clients, broker, new_topic, acks):
    topic = new_topic()
    sent = [Sent(b"%d" % number) for number in range(500)]
    with clients.producer({"acks": acks, "batch.size": 500}) as producer:
        landed = producer.send(topic, sent)
    offsets = list(range(len(sent)))
    assert [each.offset for each in landed] == ([-1] * len(sent) if acks == "0" else offsets)
    with clients.consumer() as consumer:
        received = consumer.read(topic, {0: 0}, count=len(sent))
    assert [(each.offset, each.value) for each in received] == [
        (offset, each.value) for offset, each in zip(offsets, sent, strict=True)
    ]


def test_a_producer_is_idempotent_unless_told_otherwise(clients, broker, new_topic):
    topic = new_topic()
    with clients.producer({"batch.size": 100}) as producer:
        producer.send(topic, [Sent(b"%d" % number * 20) for number in range(20)])
    batches = stored_batches(broker, topic)
    (producer_id,) = {batch.producer_id for batch in batches}
    assert producer_id >= 0
    assert len(batches) > 1
    assert [batch.base_sequence for batch in batches] == [batch.base_offset for batch in batches]


def test_keys_choose_partitions_as_they_do_in_kafka(clients, new_topic):
    topic = new_topic(partitions=7)
    expected = {key: (number & POSITIVE) % 7 for key, number in MURMUR2.items()}
    with clients.producer() as producer:
        landed = producer.send_anywhere(topic, [Sent(b"value", key) for key in MURMUR2])
    assert [each.partition for each in landed] == list(expected.values())
    with clients.consumer() as consumer:
        received = consumer.read(topic, dict.fromkeys(range(7), 0), count=len(MURMUR2))
    assert {each.key: each.partition for each in received} == expected


def test_records_without_keys_stick_to_a_partition_for_a_while(clients, new_topic):
    topic = new_topic(partitions=4)
    sent = [Sent(b"%06d" % number * 10) for number in range(3000)]
    with clients.producer({"batch.size": 4000}) as producer:
        landed = producer.send_anywhere(topic, sent)
    runs = [partition for partition, _ in groupby(each.partition for each in landed)]
    assert 1 < len(set(runs)) <= 4
    assert len(runs) < len(sent) / 10
    expected = defaultdict(list)
    for each, record in zip(landed, sent, strict=True):
        assert each.offset == len(expected[each.partition])
        expected[each.partition].append(record.value)
    with clients.consumer() as consumer:
        received = consumer.read(topic, dict.fromkeys(range(4), 0), count=len(sent))
    found = defaultdict(list)
    for each in received:
        assert each.offset == len(found[each.partition])
        found[each.partition].append(each.value)
    assert found == expected


def test_interceptors_see_every_record_and_what_became_of_it(clients, new_topic):
    topic = new_topic(max_message_bytes=1000)
    sizes = (1, 2000, 10, 3000, 20)
    with clients.producer({"batch.size": 0, **COUNTING}) as producer:
        landed = producer.send(topic, [Sent(b"x" * size) for size in sizes])
        assert producer.intercepted() == Intercepted(sent=5, acknowledged=3, failed=2)
    assert [each if isinstance(each, str) else each.offset for each in landed] == [
        *(0, "RecordTooLargeException", 1, "RecordTooLargeException", 2)
    ]
    with clients.consumer() as consumer:
        received = consumer.read(topic, {0: 0}, count=3)
    assert [(len(each.value), each.headers) for each in received] == [
        *((1, (("number", b"0"),)), (10, (("number", b"2"),)), (20, (("number", b"4"),)))
    ]


def test_a_consumer_goes_wherever_it_is_sent(clients, new_topic):
    topic = new_topic(partitions=3)
    sent = [
        Sent(b"%d" % number, timestamp_ms=NOW_MS + 10 * number, partition=partition)
        for partition, count in ((0, 30), (1, 50))
        for number in range(count)
    ]
    with clients.producer({"batch.size": 200}) as producer:
        producer.send(topic, sent)
    with clients.consumer() as consumer:
        assert consumer.bounds(topic, [0, 1, 2]) == {
            0: Bounds(0, 30),
            1: Bounds(0, 50),
            2: Bounds(0, 0),
        }
        assert consumer.seek(topic, [0, 1, 2], to="end") == {0: 30, 1: 50, 2: 0}
        assert consumer.seek(topic, [0, 1, 2], to="beginning") == {0: 0, 1: 0, 2: 0}
        times = {0: NOW_MS + 101, 1: NOW_MS + 490, 2: NOW_MS}
        assert consumer.offsets_at(topic, times) == {
            0: Found(11, NOW_MS + 110),
            1: Found(49, NOW_MS + 490),
            2: None,
        }
        assert consumer.offsets_at(topic, {0: 0, 1: NOW_MS + 491}) == {
            0: Found(0, NOW_MS),
            1: None,
        }
        for start in (29, 0, 7):
            received = consumer.read(topic, {0: start}, count=30 - start)
            assert [each.offset for each in received] == list(range(start, 30))
        received = consumer.read(topic, {0: 25, 1: 48}, count=7)
        assert {(each.partition, each.value) for each in received} == {
            *((0, b"%d" % number) for number in range(25, 30)),
            *((1, b"48"), (1, b"49")),
        }


def test_a_consumer_beyond_the_end_is_told(clients, new_topic):
    topic = new_topic()
    with clients.consumer() as consumer:
        with pytest.raises(JavaRefused) as refused:
            consumer.read(topic, {0: 5}, count=1)
        assert refused.value.kind == "OffsetOutOfRangeException"


def test_a_consumer_of_what_is_committed_sees_neither_open_nor_aborted_records(
    clients, broker, new_topic
):
    topic = new_topic()
    with clients.producer() as producer:
        producer.send(topic, [Sent(b"before")])
        # There is no coordinator, so a broker that crashed must have left the transactions.
        broker.kill()
        with log_of(broker, topic).open("ab") as log:
            log.writelines(
                [
                    in_transaction(b"aborted", producer_id=5001, offset=1),
                    in_transaction(b"committed", producer_id=5002, offset=2),
                    end_of_transaction(producer_id=5001, offset=3, is_commit=False),
                    end_of_transaction(producer_id=5002, offset=4, is_commit=True),
                    in_transaction(b"open", producer_id=5003, offset=5),
                ]
            )
        broker.start()
        assert [each.offset for each in producer.send(topic, [Sent(b"after")])] == [6]
    with clients.consumer({"isolation.level": "read_committed"}) as consumer:
        assert consumer.bounds(topic, [0]) == {0: Bounds(0, 5)}
        received = consumer.read(topic, {0: 0}, count=2)
        assert [(each.offset, each.value) for each in received] == [
            (0, b"before"),
            (2, b"committed"),
        ]
    with clients.consumer() as consumer:
        assert consumer.bounds(topic, [0]) == {0: Bounds(0, 7)}
        received = consumer.read(topic, {0: 0}, count=5)
        assert [each.value for each in received] == [
            *(b"before", b"aborted", b"committed", b"open", b"after")
        ]


def in_transaction(value, *, producer_id, offset):
    return batch_of(
        value,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
        base_offset=offset,
        partition_leader_epoch=0,
    )


def end_of_transaction(*, producer_id, offset, is_commit):
    return build_marker_batch(
        EndTransactionMarker(is_commit, coordinator_epoch=0),
        timestamp=NOW_MS,
        producer_id=producer_id,
        producer_epoch=0,
        base_offset=offset,
        partition_leader_epoch=0,
    )


@pytest.mark.parametrize("ending", ["stop", "kill"])
def test_clients_outlive_their_broker(clients, broker, new_topic, ending):
    topic = new_topic(partitions=2)
    values = [b"%d" % number for number in range(60)]
    with clients.producer(COUNTING) as producer, clients.consumer() as consumer:
        for begin in range(0, len(values), 20):
            chunk = values[begin : begin + 20]
            sent = [Sent(value, partition=partition) for value in chunk for partition in (0, 1)]
            landed = producer.send(topic, sent)
            assert [each.offset for each in landed[::2]] == list(range(begin, begin + 20))
            getattr(broker, ending)()
            broker.start()
            received = consumer.read(topic, {0: begin, 1: begin}, count=40)
            for partition in (0, 1):
                assert [each.value for each in received if each.partition == partition] == chunk
        assert consumer.bounds(topic, [0, 1]) == {0: Bounds(0, 60), 1: Bounds(0, 60)}
        assert producer.intercepted() == Intercepted(sent=120, acknowledged=120, failed=0)
    assert "Traceback" not in broker.log_text


def test_what_is_sent_while_there_is_no_broker_arrives_once_there_is(clients, broker, new_topic):
    topic = new_topic()
    with clients.producer() as producer:
        producer.send(topic, [Sent(b"before")])
        broker.kill()
        broker.launch()
        landed = producer.send(topic, [Sent(b"%d" % number) for number in range(50)])
        broker.wait_until_ready()
    assert [each.offset for each in landed] == list(range(1, 51))
    with clients.consumer() as consumer:
        received = consumer.read(topic, {0: 0}, count=51)
    assert [each.value for each in received] == [
        b"before",
        *(b"%d" % number for number in range(50)),
    ]
