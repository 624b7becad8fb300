"""Fields of every size at which the encoded length takes one more byte, and a few beyond."""

import pytest

from odradek.protocol.codec import decode, encode_bytes
from odradek.protocol.schema import (
    Message,
    Struct,
    array,
    byte_string,
    int8,
    int64,
    record_batches,
    string,
)

PLAIN, COMPACT = 0, 1

# A compact length is the size plus one: 127 needs a second byte, 16383 a third.
SIZES = (0, 1, 126, 127, 128, 129, 255, 256, 16382, 16383, 16384)
STRING_SIZES = (*SIZES, 32766, 32767)
LARGE_SIZES = (*SIZES, 32768, 65536, 2**21 - 2, 2**21 - 1, 2**21, 3 * 2**20)


class Sized(Message, versions="0-1", flexible="1+"):
    class Item(Struct):
        number: int = int8()

    text: str = string(default="")
    nullable_text: str | None = string(nullable="0+", default="")
    blob: bytes = byte_string(default=b"")
    nullable_blob: bytes | None = byte_string(nullable="0+", default=b"")
    small_numbers: list[int] = array(int8, default=[])
    large_numbers: list[int] | None = array(int64, nullable="0+", default=[])
    texts: list[str] = array(string, default=[])
    items: list[Item] = array(Item, default=[])
    last: str = string(default="last")


class SizedRecords(Message, versions="0-1", flexible="1+"):
    before: bytes = byte_string(default=b"")
    records: bytes | None = record_batches(nullable="0+", default=None)
    text: str = string(default="last")


def check_round_trip(message):
    for version in (PLAIN, COMPACT):
        frame = encode_bytes(message, version)
        assert decode(type(message), version, frame) == message
        assert encode_bytes(decode(type(message), version, frame), version) == frame


@pytest.mark.parametrize("size", STRING_SIZES)
def test_strings_of_every_size_survive_a_round_trip(size):
    check_round_trip(Sized(text="x" * size))
    check_round_trip(Sized(nullable_text="é" * (size // 2)))


@pytest.mark.parametrize("size", LARGE_SIZES)
def test_bytes_of_every_size_survive_a_round_trip(size):
    check_round_trip(Sized(blob=bytes(size)))
    check_round_trip(Sized(nullable_blob=b"x" * size))


@pytest.mark.parametrize("size", LARGE_SIZES)
def test_record_data_of_every_size_survives_a_round_trip(size):
    check_round_trip(SizedRecords(records=bytes(size)))
    check_round_trip(SizedRecords(before=bytes(size), records=b"x"))


@pytest.mark.parametrize("count", [*SIZES, 65536])
def test_arrays_of_every_size_survive_a_round_trip(count):
    check_round_trip(Sized(small_numbers=[1] * count))
    check_round_trip(Sized(large_numbers=[-1] * count))
    check_round_trip(Sized(texts=[""] * count))
    check_round_trip(Sized(items=[Sized.Item(number=3)] * count))


@pytest.mark.parametrize("size", [0, 1, 127, 128, 16383, 16384, 100_000])
def test_unknown_tags_of_every_size_survive_a_round_trip(size):
    tags = ((5, bytes(size)), (130, b"x"))
    for message in (Sized(unknown_tags=tags), SizedRecords(unknown_tags=tags, records=b"r")):
        frame = encode_bytes(message, COMPACT)
        assert decode(type(message), COMPACT, frame) == message


@pytest.mark.parametrize("count", [127, 128, 129, 10_000])
def test_many_unknown_tags_survive_a_round_trip(count):
    message = Sized(unknown_tags=tuple((10 + number, b"") for number in range(count)))
    assert decode(Sized, COMPACT, encode_bytes(message, COMPACT)) == message
