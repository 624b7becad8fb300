"""Records inside a batch: every field survives a round trip, every contradiction is rejected."""

import pytest

from odradek.protocol.errors import CorruptMessage, EncodeError
from odradek.protocol.records.record import (
    BatchContext,
    Header,
    Record,
    read_records,
    size_of_record,
    write_record,
)
from odradek.protocol.varint import varint

BASE_OFFSET = 1000
BASE_TIMESTAMP = 1_700_000_000_000


def batch_context(**changes) -> BatchContext:
    return BatchContext(
        record_count=1,
        base_offset=BASE_OFFSET,
        last_offset_delta=0,
        base_timestamp=BASE_TIMESTAMP,
        append_time=None,
    )._replace(**changes)


def encode_record(**changes) -> bytes:
    """Encode a plain record with the given changes."""
    fields = {"timestamp_delta": 0, "offset_delta": 0, "key": b"k", "value": b"v", "headers": ()}
    out = bytearray()
    write_record(out, **(fields | changes))
    return bytes(out)


def body(*fields: bytes) -> bytes:
    """Build a record from these fields and their total length."""
    joined = b"".join(fields)
    return varint(len(joined)) + joined


ATTRIBUTES = ZERO = NO_HEADERS = b"\0"
NULL = varint(-1)


def read_one(source: bytes, **changes) -> Record:
    [record] = read_records(source, batch_context(**changes))
    return record


def error_message(source: bytes, **changes) -> str:
    with pytest.raises(CorruptMessage) as error:
        list(read_records(source, batch_context(**changes)))
    return str(error.value)


@pytest.mark.parametrize("key", [None, b"", b"k", b"k" * 64, b"k" * 9000])
@pytest.mark.parametrize("value", [None, b"", b"v", b"v" * 64, b"v" * 9000])
def test_null_and_empty_and_long_contents_survive(key, value):
    assert read_one(encode_record(key=key, value=value)) == Record(
        BASE_OFFSET, BASE_TIMESTAMP, key, value
    )


@pytest.mark.parametrize("buffer_type", [bytearray, memoryview])
def test_any_buffer_can_be_written(buffer_type):
    source = encode_record(key=buffer_type(b"key"), value=buffer_type(b""))
    assert source == encode_record(key=b"key", value=b"")


def test_keys_and_values_are_read_as_bytes():
    record = read_one(encode_record())
    assert type(record.key) is bytes
    assert type(record.value) is bytes


@pytest.mark.parametrize("delta", [0, 1, -1, 63, -64, 64, -65, 8191, 8192, -8192, 2**40, -(2**40)])
def test_timestamp_delta_is_relative_to_the_base_timestamp(delta):
    record = read_one(encode_record(timestamp_delta=delta))
    assert record.timestamp == BASE_TIMESTAMP + delta


@pytest.mark.parametrize("delta", [0, 1, 63, 64, 8191, 8192, 2**31 - 1])
def test_offset_delta_is_relative_to_the_base_offset(delta):
    record = read_one(encode_record(offset_delta=delta), last_offset_delta=delta)
    assert record.offset == BASE_OFFSET + delta


@pytest.mark.parametrize("delta", [0, 5, -(2**40)])
def test_append_time_replaces_every_timestamp(delta):
    assert read_one(encode_record(timestamp_delta=delta), append_time=77).timestamp == 77


@pytest.mark.parametrize("base_timestamp", [-1, 0, 2**63 - 1, -(2**63)])
def test_whole_range_of_timestamps_can_be_read(base_timestamp):
    assert read_one(encode_record(), base_timestamp=base_timestamp).timestamp == base_timestamp


@pytest.mark.parametrize(("base_timestamp", "delta"), [(2**63 - 1, 1), (-(2**63), -1)])
def test_timestamp_beyond_64_bits_is_rejected(base_timestamp, delta):
    assert "timestamp" in error_message(
        encode_record(timestamp_delta=delta), base_timestamp=base_timestamp
    )


def test_headers_keep_their_order_and_may_repeat():
    headers = (Header("b", b"1"), Header("a", None), Header("b", b""), Header("", b"x" * 200))
    assert read_one(encode_record(headers=headers)).headers == headers


def test_header_keys_are_utf8():
    assert "naïve".encode() in encode_record(headers=(Header("naïve", b""),))


def test_header_keys_that_are_not_utf8_survive():
    foreign = encode_record(headers=(Header("ab", b"x"),)).replace(b"ab", b"\xff\xfe")
    headers = read_one(foreign).headers
    assert encode_record(headers=headers) == foreign


def test_header_key_that_is_not_valid_text_is_rejected():
    with pytest.raises(EncodeError, match="headers: key"):
        encode_record(headers=(Header("\ud800", b""),))


@pytest.mark.parametrize("headers", [(), (Header("é", None), Header("k", b"v" * 70))])
@pytest.mark.parametrize("size", [0, 1, 63, 64, 9000])
def test_size_is_known_before_writing(headers, size):
    fields = {
        "timestamp_delta": -70,
        "offset_delta": 300,
        "key": None,
        "value": bytes(size),
        "headers": headers,
    }
    assert size_of_record(**fields) == len(encode_record(**fields))


def test_offset_gaps_of_compaction_are_accepted():
    source = b"".join(encode_record(offset_delta=delta) for delta in (2, 3, 70, 9000))
    records = read_records(source, batch_context(record_count=4, last_offset_delta=10_000))
    assert [record.offset - BASE_OFFSET for record in records] == [2, 3, 70, 9000]


@pytest.mark.parametrize("deltas", [(0, 0), (1, 0), (0, 70, 70), (0, 9000, 8999)])
def test_offsets_that_do_not_ascend_are_rejected(deltas):
    source = b"".join(encode_record(offset_delta=delta) for delta in deltas)
    message = error_message(source, record_count=len(deltas), last_offset_delta=10_000)
    assert "offset delta" in message


@pytest.mark.parametrize("delta", [-1, -70, 6, 70, 9000])
def test_offsets_outside_the_batch_are_rejected(delta):
    assert "offset delta" in error_message(encode_record(offset_delta=delta), last_offset_delta=5)


def test_record_count_that_exceeds_the_bytes_is_rejected_immediately():
    with pytest.raises(CorruptMessage, match="2147483647 records in 9 bytes"):
        read_records(encode_record(), batch_context(record_count=2**31 - 1))


def test_negative_count_is_rejected():
    with pytest.raises(CorruptMessage, match="-1 records"):
        read_records(b"", batch_context(record_count=-1))


def test_record_count_above_the_actual_count_is_rejected():
    assert error_message(encode_record(value=b"v" * 30), record_count=2, last_offset_delta=1)


def test_record_count_below_the_actual_count_is_rejected():
    source = encode_record() + encode_record(offset_delta=1)
    assert "9 bytes after the last record" in error_message(source, last_offset_delta=1)


def test_zero_records_have_zero_bytes():
    assert list(read_records(b"", batch_context(record_count=0))) == []
    assert "bytes after" in error_message(b"\0", record_count=0)


@pytest.mark.parametrize("size", [-2, -64, -65, -(2**31)])
def test_negative_length_other_than_null_is_rejected(size):
    assert "key" in error_message(body(ATTRIBUTES, ZERO, ZERO, varint(size), NULL, NO_HEADERS))
    assert "value" in error_message(body(ATTRIBUTES, ZERO, ZERO, NULL, varint(size), NO_HEADERS))


@pytest.mark.parametrize("size", [1, 2, 63, 64, 8191, 8192, 2**31 - 1])
def test_length_past_the_end_is_rejected(size):
    assert error_message(body(ATTRIBUTES, ZERO, ZERO, varint(size), b"k"))
    assert error_message(body(ATTRIBUTES, ZERO, ZERO, NULL, varint(size), b"v"))


@pytest.mark.parametrize("length", [-1, 0, 5, 7, 64, 9000, 2**31 - 1, -(2**31)])
def test_record_length_that_contradicts_its_fields_is_rejected(length):
    fields = ATTRIBUTES + ZERO + ZERO + NULL + NULL + NO_HEADERS
    assert len(fields) == 6
    assert error_message(varint(length) + fields + bytes(9))


@pytest.mark.parametrize(
    "headers",
    [
        varint(-1),
        varint(1),
        varint(2**31 - 1),
        varint(1) + varint(-1) + varint(0),
        varint(1) + varint(0) + varint(-2),
        varint(1) + varint(5) + b"ab",
        varint(1) + varint(0) + varint(5) + b"ab",
    ],
    ids=lambda headers: headers.hex(),
)
def test_invalid_headers_are_rejected(headers):
    assert error_message(body(ATTRIBUTES, ZERO, ZERO, NULL, NULL, headers))


@pytest.mark.parametrize("key", [False, True], ids=["value", "key"])
def test_header_beyond_the_buffer_is_rejected(key):
    lengths = varint(9) if key else varint(0) + varint(9)
    fields = b"".join((ATTRIBUTES, ZERO, ZERO, NULL, NULL, varint(1), lengths))
    whole = varint(len(fields) + 9) + fields
    for present in range(9):
        with pytest.raises(CorruptMessage):
            next(read_records(whole + b"x" * present, batch_context()))


def test_header_lengths_of_several_bytes_are_read():
    headers = (Header("n" * 64, b"v" * 9000), Header("m" * 9000, None))
    assert read_one(encode_record(headers=headers)).headers == headers


def test_headers_are_counted_against_the_bytes_that_remain():
    million = body(ATTRIBUTES, ZERO, ZERO, NULL, NULL, varint(1_000_000), bytes(1000))
    assert "1000000 headers in 1000 bytes" in error_message(million)


def test_every_truncation_is_rejected():
    source = encode_record(
        key=b"key", value=b"v" * 70, headers=(Header("h", b"x"), Header("i", None))
    )
    for end in range(len(source)):
        error_message(source[:end])


def test_varints_longer_than_necessary_are_read():
    plain = body(ATTRIBUTES, ZERO, ZERO, NULL, varint(1), b"v", NO_HEADERS)
    padded = body(
        ATTRIBUTES,
        b"\x80\x80\0",
        b"\x80\0",
        b"\x81\x80\0",
        b"\x82\0",
        b"v",
        b"\x80\0",
    )
    assert read_one(padded) == read_one(plain)


def test_unused_attributes_are_ignored():
    assert read_one(body(b"\xff", ZERO, ZERO, NULL, NULL, NO_HEADERS)).key is None
