"""Keys and values of the internal topics."""

import pytest

from odradek.protocol.errors import DecodeError
from odradek.protocol.internal.group_log import OffsetCommitKey, OffsetCommitValue
from odradek.protocol.internal.log_record import (
    GROUP_LOG,
    TRANSACTION_LOG,
    decode_part,
    encode_part,
    part_version,
)

KEY = OffsetCommitKey(group="g", topic="t", partition=3)


def test_a_key_begins_with_its_version():
    assert encode_part(KEY, 1) == bytes.fromhex("0001 0001 67 0001 74 00000003")


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_a_value_reads_back_in_every_version(version):
    value = OffsetCommitValue(offset=5, metadata="m", commit_timestamp=7)
    assert decode_part(OffsetCommitValue, encode_part(value, version)) == value


@pytest.mark.parametrize("stored", [b"", b"\x00", b"\x00\x63", b"\xff\xff", b"\x00\x01\x00"])
def test_anything_else_is_a_decode_error(stored):
    with pytest.raises(DecodeError):
        decode_part(OffsetCommitKey, stored)


@pytest.mark.parametrize("table", [GROUP_LOG, TRANSACTION_LOG])
def test_each_kind_of_key_has_its_number_among_its_versions(table):
    for number, kind in table.items():
        assert number in kind.key.__schema__.versions
        assert kind.key.__schema__.name.removesuffix("Key") == (
            kind.value.__schema__.name.removesuffix("Value")
        )


def test_the_version_of_a_key_tells_its_kind():
    assert GROUP_LOG[part_version(encode_part(KEY, 1))].key is OffsetCommitKey
