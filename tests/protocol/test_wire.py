"""The uncommon cases that compiled functions call for: lengths, tags, tables of functions."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.protocol.errors import DecodeError, EncodeError
from odradek.protocol.varint import unsigned_varint
from odradek.protocol.wire import (
    ARRAY_COUNT_MAX,
    KEPT_FUNCTIONS,
    STRING_BYTES_MAX,
    TAG_COUNT_MAX,
    TAG_MAX,
    Packers,
    Unpackers,
    check_count,
    check_tag_count,
    read_tag,
    read_unknown_tags,
    rest_of_long_length,
    rest_of_string_length,
    rest_of_uvarint,
    string_length,
    tag_section,
    undeclared_tags,
)

INT32_MAX = 0x7FFFFFFF


def read_long_uvarint(encoded):
    return rest_of_uvarint(encoded, 1, encoded[0])


class TestLengths:
    @given(st.integers(128, INT32_MAX))
    def test_read_as_written(self, value):
        encoded = unsigned_varint(value)
        assert read_long_uvarint(encoded + b"tail") == (value, len(encoded))

    @given(st.integers(2**21, INT32_MAX))
    def test_the_end_of_a_long_one_is_read_as_written(self, value):
        encoded = unsigned_varint(value)
        first_three = sum((encoded[place] - (place > 0)) << 7 * place for place in range(3))
        assert rest_of_long_length(encoded + b"tail", 3, first_three) == (value, len(encoded))

    def test_the_end_of_a_long_one_may_not_be_longer(self):
        with pytest.raises(DecodeError, match="more than five bytes"):
            rest_of_long_length(b"\x81\x80\x80\x80\x80\x00", 3, 0x200001)
        with pytest.raises(DecodeError, match="exceeds 32 bits"):
            rest_of_long_length(b"\xff\xff\xff\xff\x08", 3, 0x3FFFFF)

    def test_more_bytes_than_needed_are_accepted_up_to_five(self):
        assert read_long_uvarint(b"\x81\x80\x80\x80\x00") == (1, 5)

    def test_six_bytes_are_refused(self):
        with pytest.raises(DecodeError, match="more than five bytes"):
            read_long_uvarint(b"\x81\x80\x80\x80\x80\x00")

    def test_more_than_31_bits_are_refused(self):
        with pytest.raises(DecodeError, match="exceeds"):
            read_long_uvarint(b"\xff\xff\xff\xff\x08")

    @pytest.mark.parametrize("size", range(1, 5))
    def test_an_end_in_the_middle_is_an_index_error_for_the_codec_to_translate(self, size):
        with pytest.raises(IndexError):
            read_long_uvarint(b"\xff" * size)

    def test_a_string_may_have_32767_bytes(self):
        encoded = unsigned_varint(STRING_BYTES_MAX + 1)
        assert rest_of_string_length(encoded, 1, encoded[0]) == (32768, 3)
        assert string_length(STRING_BYTES_MAX + 1) == encoded

    def test_a_count_is_refused_by_the_rule_that_it_breaks(self):
        check_count("numbers", 3, 4, 12)
        with pytest.raises(DecodeError, match="numbers: 3 claimed, but only 11 bytes remain"):
            check_count("numbers", 3, 4, 11)
        check_count("numbers", ARRAY_COUNT_MAX, 1, 2 * ARRAY_COUNT_MAX)
        with pytest.raises(DecodeError, match="numbers: 1000001 elements exceed 1000000"):
            check_count("numbers", ARRAY_COUNT_MAX + 1, 1, 2 * ARRAY_COUNT_MAX)

    def test_a_longer_string_is_refused_both_ways(self):
        encoded = unsigned_varint(STRING_BYTES_MAX + 2)
        with pytest.raises(DecodeError, match="a string of 32768 bytes"):
            rest_of_string_length(encoded, 1, encoded[0])
        with pytest.raises(ValueError, match="32768 bytes exceed 32767"):
            string_length(STRING_BYTES_MAX + 2)


class TestTags:
    def test_a_section_has_its_tags_in_ascending_order(self):
        section = tag_section([(300, b"xy"), (1, b"")])
        assert section == b"\x02" + b"\x01\x00" + b"\xac\x02\x02xy"

    def test_a_section_is_read_as_written(self):
        tags = [(0, b"a"), (127, b""), (128, b"x" * 200), (TAG_MAX, b"z")]
        section = tag_section(list(tags))
        assert read_unknown_tags(section, 1, section[0]) == (tuple(tags), len(section))

    def test_more_tags_than_one_byte_can_count(self):
        tags = [(number, b"") for number in range(500)]
        section = tag_section(list(tags))
        assert read_unknown_tags(section, 1, section[0]) == (tuple(tags), len(section))

    @pytest.mark.parametrize("tag", [-1, TAG_MAX + 1])
    def test_a_tag_out_of_range_is_not_written(self, tag):
        with pytest.raises(EncodeError, match=f"tag {tag}"):
            tag_section([(tag, b"")])

    def test_a_tag_is_written_once(self):
        with pytest.raises(EncodeError, match="tag 3 is given twice"):
            tag_section([(3, b"a"), (4, b""), (3, b"b")])

    @pytest.mark.parametrize("value", ["text", memoryview(b"abcd").cast("h")])
    def test_what_is_not_bytes_is_not_written(self, value):
        with pytest.raises(EncodeError, match=r"tag 3: .* is not bytes"):
            tag_section([(3, value)])

    def test_a_declared_tag_is_not_unknown(self):
        assert undeclared_tags(((3, b""),), {0, 1}) == [(3, b"")]
        with pytest.raises(EncodeError, match="tag 1 is declared"):
            undeclared_tags(((1, b""),), {0, 1})

    def test_a_count_is_held_against_the_bytes_that_remain(self):
        assert check_tag_count(b"\x02....", 1, 2) == (2, 1)
        with pytest.raises(DecodeError, match="3 tagged fields in 4 bytes"):
            check_tag_count(b"\x03....", 1, 3)

    def test_ten_thousand_tags_and_no_more(self):
        at_most = unsigned_varint(TAG_COUNT_MAX) + bytes(2 * TAG_COUNT_MAX)
        assert check_tag_count(at_most, 1, at_most[0]) == (10_000, 2)
        too_many = unsigned_varint(TAG_COUNT_MAX + 1) + bytes(2 * TAG_COUNT_MAX + 2)
        with pytest.raises(DecodeError, match="10001 tagged fields exceed 10000"):
            check_tag_count(too_many, 1, too_many[0])

    def test_a_tag_says_where_its_value_lies(self):
        assert read_tag(b"..\x05\x03abc", 2) == (5, 4, 7)
        assert read_tag(unsigned_varint(300) + unsigned_varint(200) + bytes(200), 0) == (
            300,
            4,
            204,
        )

    def test_a_tag_cannot_be_larger_than_what_remains(self):
        with pytest.raises(DecodeError, match="tag 5: 4 bytes claimed, 3 remain"):
            read_tag(b"\x05\x04abc", 0)


class TestTables:
    def test_each_count_has_its_function(self):
        unpackers = Unpackers("h")
        assert unpackers[3](b"\0\1\0\2\0\3", 0) == (1, 2, 3)
        assert unpackers[0](b"", 0) == ()
        assert unpackers[3] is unpackers[3]

    def test_a_layout_may_have_several_counts(self):
        packers = Packers("B{}hB{}i")
        expected = struct.pack(">BhhBi", 2, 7, 8, 1, 9)
        assert packers[2, 1](2, 7, 8, 1, 9) == expected
        assert Packers("{}i")[2](7, 8) == struct.pack(">ii", 7, 8)

    def test_a_peer_that_tries_every_count_does_not_fill_the_memory(self):
        unpackers, packers = Unpackers("b"), Packers("{}b")
        for count in range(2 * KEPT_FUNCTIONS):
            assert unpackers[count](bytes(count), 0) == (0,) * count
            assert packers[count](*bytes(count)) == bytes(count)
        assert len(unpackers) == len(packers) == KEPT_FUNCTIONS
