"""Variable-length integers have exactly Kafka's limits."""

import pytest
from hypothesis import given
from hypothesis.strategies import binary, integers

from odradek.protocol.errors import DecodeError
from odradek.protocol.varint import (
    read_unsigned_varint,
    read_varint,
    read_varlong,
    size_of_varint,
    size_of_varlong,
    unsigned_varint,
    varint,
    varlong,
)

READERS = [read_unsigned_varint, read_varint, read_varlong]


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        (-65, "8101"),
        (8191, "fe7f"),
        (-8192, "ff7f"),
        (8192, "808001"),
        (2**31 - 1, "feffffff0f"),
        (-(2**31), "ffffffff0f"),
    ],
)
def test_small_magnitudes_take_few_bytes(value, encoded):
    assert varint(value).hex() == encoded
    assert read_varint(bytes.fromhex(encoded), 0) == (value, len(encoded) // 2)


@pytest.mark.parametrize(
    ("value", "encoded"),
    [(2**63 - 1, "feffffffffffffffff01"), (-(2**63), "ffffffffffffffffff01")],
)
def test_varlong_has_up_to_ten_bytes(value, encoded):
    assert varlong(value).hex() == encoded
    assert read_varlong(bytes.fromhex(encoded), 0) == (value, 10)


@pytest.mark.parametrize(
    ("value", "encoded"), [(0, "00"), (127, "7f"), (128, "8001"), (2**32 - 1, "ffffffff0f")]
)
def test_unsigned_varint_is_not_zigzag_encoded(value, encoded):
    assert unsigned_varint(value).hex() == encoded
    assert read_unsigned_varint(bytes.fromhex(encoded), 0) == (value, len(encoded) // 2)


@given(integers(-(2**31), 2**31 - 1))
def test_every_int32_survives_a_round_trip(value):
    encoded = varint(value)
    assert read_varint(encoded, 0) == (value, len(encoded))
    assert size_of_varint(value) == len(encoded) <= 5


@given(integers(-(2**63), 2**63 - 1))
def test_every_int64_survives_a_round_trip(value):
    encoded = varlong(value)
    assert read_varlong(encoded, 0) == (value, len(encoded))
    assert size_of_varlong(value) == len(encoded) <= 10


@given(integers(0, 2**32 - 1))
def test_every_uint32_survives_a_round_trip(value):
    encoded = unsigned_varint(value)
    assert read_unsigned_varint(encoded, 0) == (value, len(encoded))


@pytest.mark.parametrize("buffer_type", [bytes, bytearray, memoryview])
def test_reading_begins_at_the_given_position(buffer_type):
    assert read_varint(buffer_type(b"\xff\xff\x80\x01\xff"), 2) == (64, 4)


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("source", [b"", b"\x80", b"\x80\x80\x80\x80"])
def test_truncated_varint_is_rejected(read, source):
    with pytest.raises(DecodeError, match="truncated varint"):
        read(source, 0)


@pytest.mark.parametrize(
    ("read", "limit"), [(read_unsigned_varint, 5), (read_varint, 5), (read_varlong, 10)]
)
def test_one_byte_beyond_the_limit_is_rejected(read, limit):
    assert read(b"\x80" * (limit - 1) + b"\0", 0) == (0, limit)
    with pytest.raises(DecodeError, match=f"more than {limit} bytes"):
        read(b"\x80" * limit + b"\0", 0)


def test_bits_beyond_the_type_are_dropped_as_in_kafka():
    assert read_unsigned_varint(b"\xff\xff\xff\xff\x7f", 0) == (2**32 - 1, 5)
    assert read_varint(b"\xff\xff\xff\xff\x7f", 0) == (-(2**31), 5)
    assert read_varlong(b"\xff" * 9 + b"\x7f", 0) == (-(2**63), 10)


@given(binary(max_size=12), integers(0, 12))
def test_any_bytes_are_read_or_rejected(source, position):
    for read in READERS:
        try:
            _, end = read(source, position)
        except DecodeError:
            continue
        assert position < end <= len(source)
