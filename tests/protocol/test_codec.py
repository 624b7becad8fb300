"""Decoding rejects bad input with one exception and allocates no memory for it."""

import struct

import pytest

from odradek.protocol.api.produce import ProduceRequest
from odradek.protocol.codec import decode, decode_prefix, encode, encode_bytes
from odradek.protocol.errors import DecodeError
from odradek.protocol.schema import (
    Message,
    Struct,
    array,
    boolean,
    byte_string,
    int8,
    int32,
    record_batches,
    string,
)
from odradek.protocol.schema import struct as nested
from odradek.protocol.varint import unsigned_varint
from tests.support.memory import peak_bytes

PLAIN, COMPACT = 0, 1
#: The memory of an exception and its traceback, independent of the lengths in the frame.
ERROR_BYTES_MAX = 8_000


class Text(Message, versions="0-1", flexible="1+"):
    text: str = string()


class NullableText(Message, versions="0-1", flexible="1+"):
    text: str | None = string(nullable="0+")


class Blob(Message, versions="0-1", flexible="1+"):
    blob: bytes = byte_string()


class Records(Message, versions="0-1", flexible="1+"):
    records: bytes | None = record_batches(nullable="0+")


class Numbers(Message, versions="0-1", flexible="1+"):
    numbers: list[int] = array(int32)


class Bytes(Message, versions="0-1", flexible="1+"):
    numbers: list[int] = array(int8)


class Texts(Message, versions="0-1", flexible="1+"):
    texts: list[str] = array(string)


class NullableNumbers(Message, versions="0-1", flexible="1+"):
    numbers: list[int] | None = array(int32, nullable="0+")


class Items(Message, versions="0-1", flexible="1+"):
    class Item(Struct):
        class Part(Struct):
            flag: bool = boolean()

        parts: list[Part] = array(Part)

    items: list[Item] = array(Item)


class Holder(Message, versions="0-1", flexible="1+"):
    class Inner(Struct):
        number: int = int32()

    inner: Inner | None = nested(Inner, nullable="0+")


class Tagged(Message, versions="0-1", flexible="1+"):
    number: int = int32("1+", tag=0, default=7)
    text: str | None = string("1+", nullable="1+", tag=1, default=None)


def int16(value):
    return struct.pack(">h", value)


def int32_(value):
    return struct.pack(">i", value)


def decode_error(message, version, frame):
    with pytest.raises(DecodeError) as caught:
        decode(message, version, frame)
    return str(caught.value)


class TestLengths:
    @pytest.mark.parametrize(
        ("message", "length"),
        [
            (Text, int16(-2)),
            (Text, int16(-32768)),
            (NullableText, int16(-2)),
            (Blob, int32_(-2)),
            (Blob, int32_(-(2**31))),
            (Records, int32_(-2)),
            (Numbers, int32_(-2)),
            (NullableNumbers, int32_(-2)),
            (Items, int32_(-5)),
            (Texts, int32_(-5)),
        ],
    )
    def test_negative_length_is_rejected_immediately(self, message, length):
        assert "negative length" in decode_error(message, PLAIN, length + bytes(100))

    @pytest.mark.parametrize(
        ("message", "version", "null"),
        [
            (Text, PLAIN, int16(-1)),
            (Blob, PLAIN, int32_(-1)),
            (Numbers, PLAIN, int32_(-1)),
            (Items, PLAIN, int32_(-1)),
            (Texts, PLAIN, int32_(1) + int16(-1)),
            (Text, COMPACT, b"\0"),
            (Blob, COMPACT, b"\0"),
            (Numbers, COMPACT, b"\0"),
            (Items, COMPACT, b"\0"),
            (Texts, COMPACT, b"\2\0"),
        ],
    )
    def test_null_is_rejected_in_a_required_field(self, message, version, null):
        assert "null, but must have a value" in decode_error(message, version, null + bytes(100))

    @pytest.mark.parametrize(
        ("message", "version", "frame"),
        [
            (Text, PLAIN, int16(4) + b"abc"),
            (Text, COMPACT, b"\x05abc"),
            (Text, COMPACT, b"\xff\x01abc"),
            (Blob, PLAIN, int32_(2**31 - 1) + b"abc"),
            (Blob, COMPACT, b"\xff\xff\xff\xff\x07abc"),
            (Records, PLAIN, int32_(4) + b"abc"),
            (Records, COMPACT, b"\x05abc"),
        ],
    )
    def test_length_beyond_the_frame_is_rejected(self, message, version, frame):
        assert "bytes remain" in decode_error(message, version, frame)

    def test_length_that_includes_the_tag_section_is_rejected(self):
        decode_error(Text, COMPACT, b"\x04abc")

    @pytest.mark.parametrize("message", [Text, NullableText, Blob, Records, Numbers, Items, Tagged])
    @pytest.mark.parametrize(
        "length",
        [b"\xff" * 5 + b"\1", b"\xff\xff\xff\xff\x7f", b"\x81" + b"\x80" * 4 + b"\0", b"\x80" * 9],
    )
    def test_overlong_varints_are_rejected(self, message, length):
        decode_error(message, COMPACT, length + bytes(100))

    def test_string_has_at_most_32767_bytes(self):
        longest = encode_bytes(Text(text="x" * 32767), COMPACT)
        assert len(decode(Text, COMPACT, longest).text) == 32767
        too_long = unsigned_varint(32769) + b"x" * 32768 + b"\0"
        assert "a string of 32768 bytes" in decode_error(Text, COMPACT, too_long)

    @pytest.mark.parametrize(
        "text", [b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80"]
    )
    @pytest.mark.parametrize("message", [Text, NullableText])
    def test_text_that_is_not_utf8_is_rejected(self, message, text):
        assert "utf-8" in decode_error(message, PLAIN, int16(len(text)) + text)
        assert "utf-8" in decode_error(message, COMPACT, bytes([len(text) + 1]) + text + b"\0")

    def test_text_in_a_message_with_records_is_checked(self):
        frame = encode_bytes(produce(b"abc"), 3)
        assert "utf-8" in decode_error(ProduceRequest, 3, frame.replace(b"id", b"\xff\xff"))


class TestCounts:
    @pytest.mark.parametrize(
        ("message", "version", "frame"),
        [
            (Numbers, PLAIN, int32_(3) + bytes(11)),
            (Numbers, COMPACT, b"\x04" + bytes(11)),
            (Texts, PLAIN, int32_(6) + bytes(11)),
            (Texts, COMPACT, b"\x0d" + bytes(11)),
            (Items, PLAIN, int32_(3) + bytes(11)),
            (Items, COMPACT, b"\x07" + bytes(11)),
        ],
    )
    def test_element_count_that_exceeds_the_bytes_is_rejected(self, message, version, frame):
        decode_error(message, version, frame)

    @pytest.mark.parametrize("message", [Numbers, Texts, Items])
    @pytest.mark.parametrize("count", [128, 500, 65_536])
    def test_large_count_is_checked_against_the_remaining_bytes(self, message, count):
        assert f"{count} claimed" in decode_error(message, PLAIN, int32_(count) + b"\1" * 127)
        assert f"{count} claimed" in decode_error(
            message, COMPACT, unsigned_varint(count + 1) + b"\1" * 127
        )

    @pytest.mark.parametrize("version", [PLAIN, COMPACT])
    def test_array_has_at_most_a_million_elements(self, version):
        def frame(count):
            length = int32_(count) if version == PLAIN else unsigned_varint(count + 1)
            return length + bytes(count) + b"\0" * version

        assert decode(Bytes, version, frame(1_000_000)).numbers == [0] * 1_000_000
        error = decode_error(Bytes, version, frame(1_000_001))
        assert error.endswith("numbers: 1000001 elements exceed 1000000")

    @pytest.mark.parametrize("message", [Numbers, Texts, Items, NullableNumbers])
    @pytest.mark.parametrize("count", [1000, 1_000_000, 2**31 - 2])
    def test_claimed_count_allocates_nothing(self, message, count):
        for version, length in ((PLAIN, int32_(count)), (COMPACT, unsigned_varint(count + 1))):
            frame = length + bytes(100)
            decode_error(message, version, frame)
            assert peak_bytes(lambda: decode_error(message, version, frame)) < ERROR_BYTES_MAX  # noqa: B023

    def test_nested_array_count_is_checked_against_the_remaining_bytes(self):
        inner = int32_(1_000_000)
        frame = int32_(2) + int32_(0) + inner + bytes(40)
        decode_error(Items, PLAIN, frame)
        assert peak_bytes(lambda: decode_error(Items, PLAIN, frame)) < ERROR_BYTES_MAX

    @pytest.mark.parametrize("message", [Blob, Records, Text])
    def test_claimed_length_allocates_nothing(self, message):
        frame = unsigned_varint(2**31 - 1) + bytes(100)
        decode_error(message, COMPACT, frame)
        assert peak_bytes(lambda: decode_error(message, COMPACT, frame)) < ERROR_BYTES_MAX

    def test_memory_of_many_small_arrays_is_proportional_to_the_frame(self):
        frame = unsigned_varint(100_001) + b"\x01\x00" * 100_000 + b"\0"
        assert len(decode(Items, COMPACT, frame).items) == 100_000
        assert peak_bytes(lambda: decode(Items, COMPACT, frame)) < 100 * len(frame)


class TestTags:
    def test_struct_has_at_most_ten_thousand_tags(self):
        def frame(count):
            return b"\x01" + unsigned_varint(count) + b"\x05\x00" * count

        assert len(decode(Text, COMPACT, frame(10_000)).unknown_tags) == 10_000
        error = decode_error(Text, COMPACT, frame(10_001))
        assert error.endswith("10001 tagged fields exceed 10000")

    @pytest.mark.parametrize("message", [Text, Tagged])
    def test_more_tags_than_bytes_are_rejected(self, message):
        frame = (b"\x01" if message is Text else b"") + unsigned_varint(5_000) + bytes(100)
        assert "5000 tagged fields" in decode_error(message, COMPACT, frame)
        assert peak_bytes(lambda: decode_error(message, COMPACT, frame)) < ERROR_BYTES_MAX

    @pytest.mark.parametrize("size", [0, 3, 5, 8])
    def test_known_tag_with_a_wrong_size_is_rejected(self, size):
        frame = b"\x01" + b"\x00" + bytes([size]) + bytes(size)
        decode_error(Tagged, COMPACT, frame)
        decode_error(Tagged, COMPACT, frame + bytes(10))

    def test_unknown_tag_beyond_the_frame_is_rejected(self):
        assert "tag 9: 4 bytes claimed" in decode_error(Tagged, COMPACT, b"\x01\x09\x04abc")

    def test_tagged_null_is_read(self):
        assert decode(Tagged, COMPACT, b"\x01\x01\x01\x00").text is None

    def test_truncated_tag_section_is_rejected(self):
        whole = encode_bytes(Tagged(number=1, text="x", unknown_tags=((9, b"abc"),)), COMPACT)
        for size in range(len(whole)):
            decode_error(Tagged, COMPACT, whole[:size])


class TestFrames:
    @pytest.mark.parametrize("version", [PLAIN, COMPACT])
    def test_trailing_bytes_are_rejected(self, version):
        frame = encode_bytes(Text(text="x"), version)
        assert decode_error(Text, version, frame + b"??") == f"Text v{version}: 2 bytes left over"

    def test_empty_frame_is_rejected(self):
        decode_error(Text, PLAIN, b"")
        decode_error(Records, COMPACT, b"")

    def test_position_beyond_the_frame_is_rejected(self):
        with pytest.raises(DecodeError):
            decode(Text, PLAIN, b"", 5)

    @pytest.mark.parametrize("message", [Text, Records])
    @pytest.mark.parametrize("frame", [10**9, "text", [0, 0], None])
    def test_value_that_is_not_a_buffer_raises_type_error(self, message, frame):
        with pytest.raises(TypeError):
            decode(message, PLAIN, frame)

    def test_decode_prefix_returns_the_end_position(self):
        frame = b"..." + encode_bytes(Text(text="abc"), PLAIN) + b"rest"
        assert decode_prefix(Text, PLAIN, frame, 3) == (Text(text="abc"), 8)

    def test_bytes_after_a_prefix_are_not_copied(self):
        frame = memoryview(bytearray(encode_bytes(Text(text="abc"), PLAIN) + bytes(1_000_000)))
        assert decode_prefix(Text, PLAIN, frame) == (Text(text="abc"), 5)
        assert peak_bytes(lambda: decode_prefix(Text, PLAIN, frame)) < ERROR_BYTES_MAX

    def test_error_names_the_message_the_version_and_the_field(self):
        text = decode_error(ProduceRequest, 3, encode_bytes(produce(b"abc"), 3)[:-1])
        assert text == (
            "ProduceRequest v3: topic_data.partition_data.records: "
            "3 claimed, but only 2 bytes remain"
        )

    @pytest.mark.parametrize("version", [-1, 2])
    def test_version_without_a_schema_raises_value_error(self, version):
        with pytest.raises(ValueError, match="Text has versions 0-1"):
            decode(Text, version, b"")
        with pytest.raises(ValueError, match="Text has versions 0-1"):
            encode(Text(text=""), version)

    def test_any_nonzero_byte_is_true(self):
        frame = int32_(1) + int32_(3) + b"\x00\x01\xff"
        parts = decode(Items, PLAIN, frame).items[0].parts
        assert [part.flag for part in parts] == [False, True, True]

    @pytest.mark.parametrize("version", [PLAIN, COMPACT])
    def test_negative_byte_is_a_null_struct(self, version):
        end = b"\0" * version
        assert decode(Holder, version, b"\xff" + end).inner is None
        assert decode(Holder, version, b"\x80" + end).inner is None
        assert decode(Holder, version, b"\x01" + int32_(5) + end + end).inner.number == 5


def produce(records):
    return ProduceRequest(
        transactional_id="id",
        acks=1,
        timeout_ms=5,
        topic_data=[
            ProduceRequest.Topic(
                name="t",
                partition_data=[ProduceRequest.Topic.Partition(index=0, records=records)],
            )
        ],
    )
