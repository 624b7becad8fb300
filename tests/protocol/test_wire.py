"""The uncommon cases that compiled functions delegate: long lengths, tags, function tables."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.protocol.errors import DecodeError, EncodeError
from odradek.protocol.varint import unsigned_varint
from odradek.protocol.wire import (
    ARRAY_COUNT_MAX,
    CACHED_FUNCTIONS_MAX,
    STRING_BYTES_MAX,
    TAG_COUNT_MAX,
    TAG_MAX,
    Packers,
    Unpackers,
    check_count,
    copy_unknown_tags,
    encode_string_length,
    read_tag,
    read_tag_count,
    read_unknown_tags,
    rest_of_long_length,
    rest_of_string_length,
    rest_of_uvarint,
    tag_section,
)

INT32_MAX = 0x7FFFFFFF


def read_long_uvarint(encoded):
    return rest_of_uvarint(encoded, 1, encoded[0])


class TestLengths:
    @given(st.integers(128, INT32_MAX))
    def test_length_survives_a_round_trip(self, value):
        encoded = unsigned_varint(value)
        assert read_long_uvarint(encoded + b"tail") == (value, len(encoded))

    @given(st.integers(2**21, INT32_MAX))
    def test_end_of_a_long_length_survives_a_round_trip(self, value):
        encoded = unsigned_varint(value)
        first_three = sum((encoded[index] - (index > 0)) << 7 * index for index in range(3))
        assert rest_of_long_length(encoded + b"tail", 3, first_three) == (value, len(encoded))

    def test_end_of_a_length_that_is_too_long_is_rejected(self):
        with pytest.raises(DecodeError, match="more than five bytes"):
            rest_of_long_length(b"\x81\x80\x80\x80\x80\x00", 3, 0x200001)
        with pytest.raises(DecodeError, match="exceeds 32 bits"):
            rest_of_long_length(b"\xff\xff\xff\xff\x08", 3, 0x3FFFFF)

    def test_more_bytes_than_needed_are_accepted_up_to_five(self):
        assert read_long_uvarint(b"\x81\x80\x80\x80\x00") == (1, 5)

    def test_six_bytes_are_rejected(self):
        with pytest.raises(DecodeError, match="more than five bytes"):
            read_long_uvarint(b"\x81\x80\x80\x80\x80\x00")

    def test_more_than_31_bits_are_rejected(self):
        with pytest.raises(DecodeError, match="exceeds"):
            read_long_uvarint(b"\xff\xff\xff\xff\x08")

    @pytest.mark.parametrize("size", range(1, 5))
    def test_truncated_length_is_an_index_error_that_the_codec_translates(self, size):
        with pytest.raises(IndexError):
            read_long_uvarint(b"\xff" * size)

    def test_string_can_have_32767_bytes(self):
        encoded = unsigned_varint(STRING_BYTES_MAX + 1)
        assert rest_of_string_length(encoded, 1, encoded[0]) == (32768, 3)
        assert encode_string_length(STRING_BYTES_MAX + 1) == encoded

    def test_invalid_count_is_rejected_with_the_violated_rule(self):
        check_count("numbers", 3, 4, 12)
        with pytest.raises(DecodeError, match="numbers: 3 claimed, but only 11 bytes remain"):
            check_count("numbers", 3, 4, 11)
        check_count("numbers", ARRAY_COUNT_MAX, 1, 2 * ARRAY_COUNT_MAX)
        with pytest.raises(DecodeError, match="numbers: 1000001 elements exceed 1000000"):
            check_count("numbers", ARRAY_COUNT_MAX + 1, 1, 2 * ARRAY_COUNT_MAX)

    def test_longer_string_is_rejected_when_decoded_and_when_encoded(self):
        encoded = unsigned_varint(STRING_BYTES_MAX + 2)
        with pytest.raises(DecodeError, match="a string of 32768 bytes"):
            rest_of_string_length(encoded, 1, encoded[0])
        with pytest.raises(ValueError, match="32768 bytes exceed 32767"):
            encode_string_length(STRING_BYTES_MAX + 2)


class TestTags:
    def test_section_has_its_tags_in_ascending_order(self):
        section = tag_section([(300, b"xy"), (1, b"")])
        assert section == b"\x02" + b"\x01\x00" + b"\xac\x02\x02xy"

    def test_tag_section_survives_a_round_trip(self):
        tags = [(0, b"a"), (127, b""), (128, b"x" * 200), (TAG_MAX, b"z")]
        section = tag_section(list(tags))
        assert read_unknown_tags(section, 1, section[0]) == (tuple(tags), len(section))

    def test_tag_count_can_take_two_bytes(self):
        tags = [(number, b"") for number in range(500)]
        section = tag_section(list(tags))
        assert read_unknown_tags(section, 1, section[0]) == (tuple(tags), len(section))

    @pytest.mark.parametrize("tag", [-1, TAG_MAX + 1])
    def test_tag_out_of_range_is_rejected(self, tag):
        with pytest.raises(EncodeError, match=f"tag {tag}"):
            tag_section([(tag, b"")])

    def test_duplicate_tag_is_rejected(self):
        with pytest.raises(EncodeError, match="tag 3 is given twice"):
            tag_section([(3, b"a"), (4, b""), (3, b"b")])

    @pytest.mark.parametrize("value", ["text", memoryview(b"abcd").cast("h")])
    def test_tag_value_that_is_not_bytes_is_rejected(self, value):
        with pytest.raises(EncodeError, match=r"tag 3: .* is not bytes"):
            tag_section([(3, value)])

    def test_known_tag_among_unknown_tags_is_rejected(self):
        assert copy_unknown_tags(((3, b""),), {0, 1}) == [(3, b"")]
        with pytest.raises(EncodeError, match="tag 1 is declared"):
            copy_unknown_tags(((1, b""),), {0, 1})

    def test_tag_count_is_checked_against_the_remaining_bytes(self):
        assert read_tag_count(b"\x02....", 1, 2) == (2, 1)
        with pytest.raises(DecodeError, match="3 tagged fields in 4 bytes"):
            read_tag_count(b"\x03....", 1, 3)

    def test_section_has_at_most_ten_thousand_tags(self):
        at_most = unsigned_varint(TAG_COUNT_MAX) + bytes(2 * TAG_COUNT_MAX)
        assert read_tag_count(at_most, 1, at_most[0]) == (10_000, 2)
        too_many = unsigned_varint(TAG_COUNT_MAX + 1) + bytes(2 * TAG_COUNT_MAX + 2)
        with pytest.raises(DecodeError, match="10001 tagged fields exceed 10000"):
            read_tag_count(too_many, 1, too_many[0])

    def test_read_tag_returns_the_bounds_of_the_value(self):
        assert read_tag(b"..\x05\x03abc", 2) == (5, 4, 7)
        assert read_tag(unsigned_varint(300) + unsigned_varint(200) + bytes(200), 0) == (
            300,
            4,
            204,
        )

    def test_tag_that_exceeds_the_remaining_bytes_is_rejected(self):
        with pytest.raises(DecodeError, match="tag 5: 4 bytes claimed, 3 remain"):
            read_tag(b"\x05\x04abc", 0)


class TestTables:
    def test_table_has_one_function_per_count(self):
        unpackers = Unpackers("h")
        assert unpackers[3](b"\0\1\0\2\0\3", 0) == (1, 2, 3)
        assert unpackers[0](b"", 0) == ()
        assert unpackers[3] is unpackers[3]

    def test_layout_can_have_several_counts(self):
        packers = Packers("B{}hB{}i")
        expected = struct.pack(">BhhBi", 2, 7, 8, 1, 9)
        assert packers[2, 1](2, 7, 8, 1, 9) == expected
        assert Packers("{}i")[2](7, 8) == struct.pack(">ii", 7, 8)

    def test_function_table_has_a_bounded_size(self):
        unpackers, packers = Unpackers("b"), Packers("{}b")
        for count in range(2 * CACHED_FUNCTIONS_MAX):
            assert unpackers[count](bytes(count), 0) == (0,) * count
            assert packers[count](*bytes(count)) == bytes(count)
        assert len(unpackers) == len(packers) == CACHED_FUNCTIONS_MAX
