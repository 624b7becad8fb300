"""What the recorded segments show, shown anew by running clients and brokers; and the way back.

Segments are recorded as tests/vectors was and must read as those did.  Batches that our builders
made are sent to a broker as they are, and the Java consumer must return what we had put in.
"""

import uuid

import pytest

from odradek.protocol.records.builder import BatchBuilder, BatchFields
from odradek.protocol.records.compression import Codec
from odradek.protocol.records.legacy_builder import LegacyFormat, build_legacy_set
from odradek.protocol.records.record import Header, Record
from tests.interop.record_segments import KEEP_TOGETHER, record, record_old_formats
from tests.interop.segment_recipes import BATCHES, OLD_BATCHES, old_format_recipes, recipes
from tests.support.java_client import JavaClient, SentRecord
from tests.support.raw_request import produce
from tests.support.recorded_segments import SEGMENTS, RecordedSegment
from tests.support.segment_reading import (
    batches_in_segment,
    can_be_rebuilt_alike,
    rebuilt,
    seen_records,
    stored_batches,
)

NAMES = [recipe.name for recipe in recipes()]
OLD_NAMES = [*(recipe.name for recipe in old_format_recipes()), "java-mixed-magic"]
#: Those in which nothing depends on the clock, on other producers or on a compressor.
SAME_EVERY_TIME = ["java-none", "librdkafka-none", "java-magic-0-none", "java-magic-1-none"]

SENT = [record for batch in BATCHES for record in batch]
OLD_SENT = [record for batch in OLD_BATCHES for record in batch]
PRODUCE_OF_MAGIC = {0: 1, 1: 2}  # the version in which clients of the time sent it


@pytest.fixture(scope="session")
def new_segments(kafka_39):
    return {segment.name: segment for segment in record(kafka_39)}


@pytest.fixture(scope="session")
def new_old_format_segments(kafka_39_with_old_formats):
    return {segment.name: segment for segment in record_old_formats(kafka_39_with_old_formats)}


@pytest.fixture(params=NAMES + OLD_NAMES)
def segment(request):
    is_old = request.param in OLD_NAMES
    recorded = request.getfixturevalue("new_old_format_segments" if is_old else "new_segments")
    return recorded[request.param]


@pytest.fixture(scope="session")
def old_format_java_client(kafka_39_with_old_formats, kafka_39_jars):
    with JavaClient(kafka_39_jars, kafka_39_with_old_formats.bootstrap) as client:
        yield client


@pytest.fixture
def topic():
    return f"from-odradek-{uuid.uuid4().hex}"


def test_batches_are_as_kafkas_own_tool_prints_them(segment):
    assert stored_batches(segment.log) == segment.batches


def test_records_are_as_the_java_consumer_returns_them(segment):
    assert seen_records(segment.log) == segment.records


def test_uncompressed_batches_are_rebuilt_byte_for_byte(segment):
    batches = [batch for batch in batches_in_segment(segment.log) if can_be_rebuilt_alike(batch)]
    assert [rebuilt(batch) for batch in batches] == [bytes(batch.view) for batch in batches]


@pytest.mark.parametrize("segment", SAME_EVERY_TIME, indirect=True)
def test_clients_still_send_what_was_recorded(segment):
    assert segment.log == RecordedSegment.load(SEGMENTS, segment.name).log


@pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.name)
def test_the_java_consumer_reads_our_batches(codec, topic, kafka_39, java_client):
    java_client.create_topic(topic, KEEP_TOGETHER)
    for batch in BATCHES:
        produce(kafka_39.port, topic, built(batch, codec))
    assert as_sent(java_client.consume(topic)) == SENT


def test_kafka_stores_our_batches_as_the_java_client_would_have_sent_them(
    topic, kafka_39, java_client
):
    java_client.create_topic(topic, KEEP_TOGETHER)
    for batch in BATCHES:
        produce(kafka_39.port, topic, built(batch, Codec.NONE))
    stored = kafka_39.segment(topic).read_bytes()
    assert stored == RecordedSegment.load(SEGMENTS, "java-none").log


@pytest.mark.parametrize("codec", list(Codec)[:-1], ids=lambda codec: codec.name)
@pytest.mark.parametrize("magic", [0, 1])
def test_kafka_converts_our_old_messages(magic, codec, topic, kafka_39, java_client):
    java_client.create_topic(topic, KEEP_TOGETHER)
    for batch in OLD_BATCHES:
        old = old_set(batch, magic, codec)
        produce(kafka_39.port, topic, old, version=PRODUCE_OF_MAGIC[magic])
    assert keys_and_values(java_client.consume(topic)) == keys_and_values(OLD_SENT)


@pytest.mark.parametrize("codec", list(Codec)[:-1], ids=lambda codec: codec.name)
def test_the_java_consumer_reads_our_old_messages(
    codec, topic, kafka_39_with_old_formats, old_format_java_client
):
    client = old_format_java_client
    client.create_topic(topic, {**KEEP_TOGETHER, "message.format.version": "0.10.0"})
    for batch in OLD_BATCHES:
        old = old_set(batch, 1, codec)
        produce(kafka_39_with_old_formats.port, topic, old, version=PRODUCE_OF_MAGIC[1])
    assert as_sent(client.consume(topic)) == OLD_SENT


def built(batch, codec):
    builder = BatchBuilder(BatchFields(codec=codec))
    for sent in batch:
        builder.append(
            timestamp=sent.timestamp,
            key=sent.key,
            value=sent.value,
            headers=[Header(name, value) for name, value in sent.headers],
        )
    return bytes(builder.build())


def old_set(batch, magic, codec):
    records = [
        Record(offset, sent.timestamp, sent.key, sent.value) for offset, sent in enumerate(batch)
    ]
    return bytes(build_legacy_set(records, LegacyFormat(magic=magic, codec=codec)))


def as_sent(records):
    return [SentRecord(each.timestamp, each.key, each.value, each.headers) for each in records]


def keys_and_values(records):
    return [(each.key, each.value) for each in records]
