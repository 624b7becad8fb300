"""Legacy formats and conversions work for any records, and any bytes raise only decode errors."""

from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from odradek.protocol.errors import DecodeError, KafkaError
from odradek.protocol.records.builder import BatchFields
from odradek.protocol.records.compression import Codec
from odradek.protocol.records.conversion import down_convert, rebuild_for_append
from odradek.protocol.records.legacy_batch import LegacyBatch
from odradek.protocol.records.legacy_builder import LegacyFormat, build_legacy_set
from odradek.protocol.records.record import Header, Record
from odradek.protocol.records.record_set import batches_of_any_magic
from tests.support.batches import batch_of, with_checksum
from tests.support.legacy_messages import FORMATS, message, message_around, wrapper

OLD_CODECS = [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4]
MAX_BYTES = 100_000

contents = st.none() | st.binary(max_size=200)
timestamps = st.integers(-1, 2**63 - 2)
no_headers = st.just(())
headers = st.lists(st.builds(Header, st.text(max_size=5), contents), max_size=3).map(tuple)
legacy_formats = st.builds(
    lambda legacy_format, append_time: LegacyFormat(
        magic=legacy_format[0], codec=legacy_format[1], append_time_ms=append_time
    ),
    st.sampled_from(FORMATS),
    st.none() | st.integers(0, 2**63 - 2),
)


@st.composite
def record_lists(draw, record_headers=no_headers):
    offset = draw(st.integers(0, 2**62))
    records = []
    for _ in range(draw(st.integers(1, 8))):
        records.append(
            Record(offset, draw(timestamps), draw(contents), draw(contents), draw(record_headers))
        )
        offset += draw(st.integers(1, 1000))
    return records


@given(record_lists(), legacy_formats)
def test_record_set_survives_a_round_trip(records, legacy_format):
    encoded = build_legacy_set(records, legacy_format)
    assert read(encoded) == [as_stored(record, legacy_format) for record in records]
    for batch in batches_of_any_magic(encoded):
        batch.check_crc()
        assert batch.base_offset <= batch.last_offset
        assert batch.count == len(list(batch))


@given(record_lists(headers), st.sampled_from(OLD_CODECS), st.sampled_from([0, 1]))
def test_down_conversion_keeps_everything_that_the_format_supports(records, codec, magic):
    batch = batch_of(*records, base_offset=records[0].offset, codec=codec)
    parts = list(down_convert(batch, magic=magic, first_offset=0))
    legacy_format = LegacyFormat(magic=magic)
    assert read(joined(parts)) == [as_stored(record, legacy_format) for record in records]
    assert sum(part.converted_count for part in parts) == len(records)


@given(record_lists(headers), st.integers(0, 2**62 + 8000))
def test_down_converted_uncompressed_batch_starts_at_the_fetch_offset(records, first_offset):
    batch = batch_of(*records, base_offset=records[0].offset)
    parts = list(down_convert(batch, magic=1, first_offset=first_offset))
    expected = [record.offset for record in records if record.offset >= first_offset]
    assert [record.offset for record in read(joined(parts))] == expected


@given(record_lists(), legacy_formats, st.sampled_from(list(Codec)), st.integers(0, 2**62))
def test_append_in_a_legacy_format_keeps_everything_but_offsets(
    records, legacy_format, codec, next_offset
):
    batches = list(batches_of_any_magic(build_legacy_set(records, legacy_format)))
    fields = BatchFields(base_offset=next_offset, codec=codec)
    rebuilt = rebuild_for_append(batches, fields)
    assert read(rebuilt.buffer) == [
        as_stored(record, legacy_format)._replace(offset=next_offset + number)
        for number, record in enumerate(records)
    ]


@given(st.lists(st.tuples(st.sampled_from([0, 1, 2]), st.binary(max_size=20))), st.data())
def test_mixed_record_set_is_read_up_to_its_last_whole_batch(messages, data):
    source = b"".join(
        batch_of(value) if magic == 2 else message(magic, value) for magic, value in messages
    )
    cut = data.draw(st.integers(0, len(source)))
    batches = batches_of_any_magic(source[:cut])
    assert b"".join(bytes(batch.view) for batch in batches) == source[: batches.position]
    assert batches.position + batches.partial_bytes == cut


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_rejected(source):
    read_or_reject(source)


@given(st.sampled_from([0, 1]), st.binary(max_size=200), st.integers(-128, 127))
def test_any_message_with_a_valid_checksum_is_read_or_rejected(magic, rest, attributes):
    read_or_reject(message_around(magic, rest, attributes))


@given(record_lists(), legacy_formats, st.data())
def test_wrapper_around_damaged_messages_is_read_or_rejected(records, legacy_format, data):
    plain = LegacyFormat(magic=legacy_format.magic, append_time_ms=legacy_format.append_time_ms)
    inner = build_legacy_set(records, plain)
    for _ in range(data.draw(st.integers(1, 3))):
        inner[data.draw(st.integers(0, len(inner) - 1))] = data.draw(st.integers(0, 255))
    codec = legacy_format.codec or Codec.GZIP
    offset = data.draw(st.integers(-(2**63), 2**63 - 1))
    read_or_reject(wrapper(legacy_format.magic, inner, codec=codec, offset=offset))


@given(record_lists(headers), st.sampled_from(list(Codec)), st.data())
def test_damaged_batch_of_magic_2_is_converted_or_rejected(records, codec, data):
    damaged = batch_of(*records, base_offset=records[0].offset, codec=codec)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    read_or_reject(with_checksum(damaged))


def read(buffer):
    return [record for batch in batches_of_any_magic(buffer) for record in batch]


def as_stored(record, legacy_format):
    timestamp = (
        record.timestamp if legacy_format.append_time_ms is None else legacy_format.append_time_ms
    )
    return Record(record.offset, timestamp if legacy_format.magic else -1, record.key, record.value)


def joined(parts):
    return b"".join(part.buffer for part in parts)


def read_or_reject(source):
    """Read ``source`` in every way: each ends within bounds and raises only a decode error."""
    for attempt in (read_deeply, down_to_0, down_to_1, appended):
        with suppress(DecodeError, KafkaError):
            attempt(source)


def read_deeply(source):
    for batch in batches_of_any_magic(source):
        for record in batch.records(max_bytes=MAX_BYTES):
            assert len(record.key or b"") + len(record.value or b"") <= MAX_BYTES
        if isinstance(batch, LegacyBatch):
            assert batch.count >= 1


def down_to_0(source):
    for _ in down_convert(source, magic=0, first_offset=0, max_bytes=MAX_BYTES):
        continue


def down_to_1(source):
    for _ in down_convert(source, magic=1, first_offset=0, max_bytes=MAX_BYTES):
        continue


def appended(source):
    batches = [batch for batch in batches_of_any_magic(source) if not batch.is_control]
    rebuild_for_append(batches, BatchFields(base_offset=7), max_bytes=MAX_BYTES)
