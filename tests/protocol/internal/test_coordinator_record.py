"""Keys and values of the records in the internal topics."""

import pytest

from odradek.protocol.errors import DecodeError
from odradek.protocol.internal.coordinator_record import (
    GROUP_RECORD_TYPES,
    TRANSACTION_RECORD_TYPES,
    decode_version_prefixed,
    encode_version_prefixed,
    read_version_prefix,
)
from odradek.protocol.internal.group_log import OffsetCommitKey, OffsetCommitValue

KEY = OffsetCommitKey(group="g", topic="t", partition=3)


def test_key_begins_with_its_version():
    assert encode_version_prefixed(KEY, 1) == bytes.fromhex("0001 0001 67 0001 74 00000003")


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_value_survives_a_round_trip_in_every_version(version):
    value = OffsetCommitValue(offset=5, metadata="m", commit_timestamp=7)
    assert (
        decode_version_prefixed(OffsetCommitValue, encode_version_prefixed(value, version)) == value
    )


@pytest.mark.parametrize("content", [b"", b"\x00", b"\x00\x63", b"\xff\xff", b"\x00\x01\x00"])
def test_malformed_bytes_are_a_decode_error(content):
    with pytest.raises(DecodeError):
        decode_version_prefixed(OffsetCommitKey, content)


@pytest.mark.parametrize("table", [GROUP_RECORD_TYPES, TRANSACTION_RECORD_TYPES])
def test_each_record_type_number_is_a_version_of_its_key(table):
    for number, record_type in table.items():
        assert number in record_type.key.__schema__.versions
        assert record_type.key.__schema__.name.removesuffix("Key") == (
            record_type.value.__schema__.name.removesuffix("Value")
        )


def test_key_version_identifies_the_record_type():
    assert (
        GROUP_RECORD_TYPES[read_version_prefix(encode_version_prefixed(KEY, 1))].key
        is OffsetCommitKey
    )
