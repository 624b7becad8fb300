"""Keys and values of group records, as Kafka writes them.

The expected bytes were assembled by hand from the schemas of group_log.py.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.broker.groups import records
from odradek.broker.groups.offsets import NO_EXPIRE_TIMESTAMP, OffsetAndMetadata
from odradek.protocol.errors import DecodeError, EncodeError
from odradek.protocol.internal.coordinator_record import encode_version_prefixed
from odradek.protocol.internal.group_log import GroupMetadataValue, OffsetCommitValue

int64 = st.integers(-(2**63), 2**63 - 1)
texts = st.text(st.characters(codec="utf-8"), max_size=100)


def test_offset_key_names_group_topic_and_partition():
    key = records.offset_key("g", "topic", 7)
    assert key == b"\0\1\0\1g\0\5topic\0\0\0\7"
    assert records.read_offset_key(key) == ("g", "topic", 7)


def test_offset_is_written_in_version_3():
    value = records.offset_value(258, 4, "half", commit_timestamp_ms=5)
    assert value == b"\0\3" + (258).to_bytes(8) + (4).to_bytes(4) + b"\0\4half" + (5).to_bytes(8)


def test_offset_with_an_expiration_time_is_written_in_version_1():
    value = records.offset_value(258, 4, "half", commit_timestamp_ms=5, expire_timestamp_ms=6)
    assert value[:2] == b"\0\1"
    assert records.read_offset_value(value, 9) == OffsetAndMetadata(258, -1, "half", 5, 6, 9)


@given(int64, st.integers(-1, 2**31 - 1), texts, int64)
def test_fast_offset_encoding_equals_the_schema_encoding(offset, epoch, metadata, time_ms):
    value = OffsetCommitValue(
        offset=offset, leader_epoch=epoch, metadata=metadata, commit_timestamp=time_ms
    )
    encoded = records.offset_value(offset, epoch, metadata, commit_timestamp_ms=time_ms)
    assert encoded == encode_version_prefixed(value, 3)
    assert records.read_offset_value(encoded, 1) == OffsetAndMetadata(
        offset, epoch, metadata, time_ms, NO_EXPIRE_TIMESTAMP, 1
    )


@pytest.mark.parametrize("version", range(5))
def test_all_offset_versions_are_read(version):
    value = OffsetCommitValue(offset=7, metadata="m", commit_timestamp=5)
    read = records.read_offset_value(encode_version_prefixed(value, version), 3)
    assert (read.offset, read.metadata, read.record_offset) == (7, "m", 3)


def test_oversized_metadata_is_rejected():
    with pytest.raises(EncodeError):
        records.offset_value(1, 1, "x" * 40_000, commit_timestamp_ms=1)


def test_unknown_version_is_rejected():
    with pytest.raises(DecodeError):
        records.read_offset_value(b"\0\x09" + bytes(30), 0)


def test_group_is_written_in_version_3():
    value = GroupMetadataValue(
        protocol_type="consumer", generation=1, protocol=None, leader=None, members=[]
    )
    stored = records.group_value(value)
    assert stored[:2] == b"\0\3"
    assert records.read_group_value(stored) == value
    assert records.read_group_key(records.group_key("g")) == "g"
    assert records.group_key("g") == b"\0\2\0\1g"
