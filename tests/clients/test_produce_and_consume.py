"""What producers send is what consumers read, by every client library."""

import time

import pytest

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.records.batch import batches_in
from tests.support.client_driver import BEGINNING, CODECS, Options, Refused, Sent
from tests.support.wire_client import call

#: Records of long ago would be deleted before they are read.
NOW_MS = int(time.time() * 1000)
DEFAULT_MESSAGE_BYTES_MAX = 1_048_588
#: Of a batch of one record without key and headers: the batch, the record, varints of its sizes.
OVERHEAD_BYTES = 61 + 16


def of_all_kinds(count):
    return [
        Sent(
            b"value-%d" % number * 20,
            key=None if number % 3 == 0 else b"key-%d" % number,
            headers=(("first", b"1"), ("second", b"")) if number % 2 else (),
            timestamp_ms=NOW_MS + number,
        )
        for number in range(count)
    ]


def read_all(driver, broker, topic, count, *, partitions=1):
    with driver.consumer(broker.address) as consumer:
        return consumer.read(topic, dict.fromkeys(range(partitions), BEGINNING), count=count)


def sent_codec(driver, broker, codec):
    """librdkafka takes a broker without FindCoordinator for one that does not know LZ4 either."""
    served = {each.api_key for each in call(broker.address, ApiKey.API_VERSIONS, 0).api_keys}
    if driver.name == "confluent-kafka" and ApiKey.FIND_COORDINATOR not in served:
        return {"lz4": "none"}.get(codec, codec)
    return codec


def stored_codecs(broker, topic):
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    topics = [{"topic": topic, "partitions": [partition]}]
    answer = call(broker.address, ApiKey.FETCH, 11, max_wait_ms=0, min_bytes=1, topics=topics)
    records = memoryview(answer.responses[0].partitions[0].records)
    return {batch.codec.name.lower() for batch in batches_in(records)}


def as_sent(records):
    return [
        Sent(each.value, each.key, each.headers, each.timestamp_ms, each.partition)
        for each in records
    ]


@pytest.mark.parametrize("codec", CODECS)
def test_keys_headers_and_timestamps_come_back_in_every_codec(driver, broker, new_topic, codec):
    topic, sent = new_topic(), of_all_kinds(300)
    with driver.producer(broker.address, Options(codec=codec)) as producer:
        offsets = producer.send(topic, sent)
    received = read_all(driver, broker, topic, len(sent))
    assert offsets == list(range(len(sent)))
    assert [each.offset for each in received] == offsets
    assert as_sent(received) == sent
    assert stored_codecs(broker, topic) == {sent_codec(driver, broker, codec)}


@pytest.mark.parametrize("codec", CODECS)
def test_a_topic_may_recompress_what_it_is_sent(driver, broker, new_topic, codec):
    topic, sent = new_topic(compression_type="uncompressed" if codec == "none" else codec), []
    for number, sent_in in enumerate(CODECS):
        records = [Sent(b"%d" % number * 50, timestamp_ms=NOW_MS) for _ in range(20)]
        with driver.producer(broker.address, Options(codec=sent_in)) as producer:
            producer.send(topic, records)
        sent += records
    assert as_sent(read_all(driver, broker, topic, len(sent))) == sent


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_records_arrive_with_any_acknowledgement(driver, broker, new_topic, acks):
    topic, sent = new_topic(), of_all_kinds(100)
    with driver.producer(broker.address, Options(acks=acks)) as producer:
        offsets = producer.send(topic, sent)
    assert as_sent(read_all(driver, broker, topic, len(sent))) == sent
    # What a client makes of no answer is its own affair.
    assert acks == "0" or offsets == list(range(len(sent)))


@pytest.mark.parametrize("codec", CODECS)
def test_an_idempotent_producer_is_served(driver, broker, new_topic, codec):
    topic, sent = new_topic(), of_all_kinds(200)
    with driver.producer(broker.address, Options(codec=codec, is_idempotent=True)) as producer:
        for begin in range(0, len(sent), 20):
            offsets = producer.send(topic, sent[begin : begin + 20])
            assert offsets == list(range(begin, begin + 20))
    assert as_sent(read_all(driver, broker, topic, len(sent))) == sent


@pytest.mark.parametrize("partitions", [1, 2, 10, 100])
def test_every_partition_keeps_its_own_order(driver, broker, new_topic, partitions):
    topic = new_topic(partitions=partitions)
    sent = [
        Sent(b"%d" % number, partition=number % partitions, timestamp_ms=NOW_MS)
        for number in range(partitions * 5)
    ]
    with driver.producer(broker.address) as producer:
        offsets = producer.send(topic, sent)
    assert offsets == [number // partitions for number in range(len(sent))]
    received = read_all(driver, broker, topic, len(sent), partitions=partitions)
    for partition in range(partitions):
        found = [each for each in received if each.partition == partition]
        assert [each.offset for each in found] == list(range(5))
        assert as_sent(found) == [each for each in sent if each.partition == partition]


def test_values_of_any_size_come_back(driver, broker, new_topic):
    largest = DEFAULT_MESSAGE_BYTES_MAX - OVERHEAD_BYTES
    sizes = [0, 1, 100, 4_096, 65_535, 65_536, 500_000, largest]
    topic, sent = new_topic(), [Sent(bytes([size % 251]) * size) for size in sizes]
    sent.append(Sent(None, key=b"a tombstone"))
    with driver.producer(broker.address, Options(request_bytes_max=2 << 20)) as producer:
        for record in sent:
            producer.send(topic, [record])
    received = read_all(driver, broker, topic, len(sent))
    assert [(each.key, each.value) for each in received] == [
        (each.key, each.value) for each in sent
    ]


def test_a_value_beyond_the_largest_is_refused_and_the_next_one_is_not(driver, broker, new_topic):
    topic = new_topic()
    with driver.producer(broker.address, Options(request_bytes_max=4 << 20)) as producer:
        with pytest.raises(Refused, match=r"(MSG_SIZE|MESSAGE)_TOO_LARGE|MessageSizeTooLarge"):
            producer.send(topic, [Sent(bytes(DEFAULT_MESSAGE_BYTES_MAX))])
        assert producer.send(topic, [Sent(b"small")]) == [0]
    assert [each.value for each in read_all(driver, broker, topic, 1)] == [b"small"]


def test_a_topic_may_take_larger_values_than_others(driver, broker, new_topic):
    topic, value = new_topic(max_message_bytes=6 << 20), bytes(range(256)) * (20 << 10)
    with driver.producer(broker.address, Options(request_bytes_max=8 << 20)) as producer:
        assert producer.send(topic, [Sent(value)]) == [0]
    assert [each.value for each in read_all(driver, broker, topic, 1)] == [value]


def test_reading_begins_at_an_offset_or_a_timestamp(driver, broker, new_topic):
    topic, sent = new_topic(segment_bytes=4_000), of_all_kinds(100)
    with driver.producer(broker.address) as producer:
        for begin in range(0, 100, 5):
            producer.send(topic, sent[begin : begin + 5])
    with driver.consumer(broker.address) as consumer:
        assert as_sent(consumer.read(topic, {0: 73}, count=27)) == sent[73:]
        assert consumer.offset_at(topic, 0, NOW_MS + 42) == 42
        assert consumer.offset_at(topic, 0, NOW_MS - 10) == 0
        assert consumer.offset_at(topic, 0, NOW_MS + 1_000) is None
        assert as_sent(consumer.read(topic, {0: 42}, count=5)) == sent[42:47]


def test_the_broker_gives_the_time_where_it_is_asked_to(driver, broker, new_topic):
    topic, before_ms = new_topic(message_timestamp_type="LogAppendTime"), time.time() * 1000
    with driver.producer(broker.address) as producer:
        producer.send(topic, of_all_kinds(10))
    after_ms = time.time() * 1000
    for each in read_all(driver, broker, topic, 10):
        assert before_ms - 1 <= each.timestamp_ms <= after_ms


def test_a_topic_is_made_for_whoever_writes_to_it(driver, broker):
    topic = f"made-for-{driver.name}"
    with driver.producer(broker.address) as producer:
        assert producer.send(topic, [Sent(b"first")]) == [0]
    assert [each.value for each in read_all(driver, broker, topic, 1)] == [b"first"]


def test_a_reader_that_waits_is_told_of_what_comes(driver, broker, new_topic):
    topic = new_topic()
    with driver.producer(broker.address) as producer, driver.consumer(broker.address) as consumer:
        for number in range(5):
            producer.send(topic, [Sent(b"%d" % number)])
            (record,) = consumer.read(topic, {0: number}, count=1)
            assert record.value == b"%d" % number
