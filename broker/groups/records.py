"""Keys and values of offsets and classic groups in ``__consumer_offsets``, in Kafka's format.

    key 0, 1   an offset: group, topic, partition; 1 is written
    key 2      a classic group
    key 3-16   consumer groups: see RECORD_HANDLERS in shard.py

The value of an offset is written in version 3, or in version 1 if it has an expire timestamp.  The
value of a group is written in version 3.  These are the newest versions that every Kafka from 2.3
on reads.  Loading ignores unknown key versions, so a downgraded broker can load the partition.

Owner: none; immutable, any thread.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from typing import NamedTuple

from odradek.broker.groups.offsets import NO_EXPIRE_TIMESTAMP, OffsetAndMetadata
from odradek.protocol.errors import EncodeError
from odradek.protocol.internal.coordinator_record import (
    decode_version_prefixed,
    encode_version_prefixed,
)
from odradek.protocol.internal.group_log import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)

OFFSET_KEY_VERSIONS = (0, 1)
GROUP_KEY_VERSION = 2

_OFFSET_KEY_VERSION = 1
_OFFSET_VALUE_VERSION = 3
_EXPIRING_VALUE_VERSION = 1
_GROUP_VALUE_VERSION = 3

_VALUE_HEAD = Struct(">hqih")
_VALUE_TAIL = Struct(">q")
_MAX_STRING_BYTES = 32_767


class OffsetRecordKey(NamedTuple):
    """The decoded key of an offset."""

    group_id: str
    topic: str
    partition: int


# Cached: clients commit the same partitions again and again.
@lru_cache(maxsize=65_536)
def offset_key(group_id: str, topic: str, partition: int) -> bytes:
    key = OffsetCommitKey(group=group_id, topic=topic, partition=partition)
    return encode_version_prefixed(key, _OFFSET_KEY_VERSION)


def offset_value(
    offset: int,
    leader_epoch: int,
    metadata: str,
    *,
    commit_timestamp_ms: int,
    expire_timestamp_ms: int = NO_EXPIRE_TIMESTAMP,
) -> bytes:
    if expire_timestamp_ms != NO_EXPIRE_TIMESTAMP:
        return _expiring_value(offset, metadata, commit_timestamp_ms, expire_timestamp_ms)
    encoded_metadata = metadata.encode()
    if len(encoded_metadata) > _MAX_STRING_BYTES:
        raise EncodeError(f"metadata: {len(encoded_metadata)} bytes, at most 32767 are allowed")
    head = _VALUE_HEAD.pack(_OFFSET_VALUE_VERSION, offset, leader_epoch, len(encoded_metadata))
    return head + encoded_metadata + _VALUE_TAIL.pack(commit_timestamp_ms)


def _expiring_value(
    offset: int, metadata: str, commit_timestamp_ms: int, expire_timestamp_ms: int
) -> bytes:
    value = OffsetCommitValue(
        offset=offset,
        metadata=metadata,
        commit_timestamp=commit_timestamp_ms,
        expire_timestamp=expire_timestamp_ms,
    )
    return encode_version_prefixed(value, _EXPIRING_VALUE_VERSION)


def read_offset_key(key: bytes) -> OffsetRecordKey:
    decoded = decode_version_prefixed(OffsetCommitKey, key)
    return OffsetRecordKey(decoded.group, decoded.topic, decoded.partition)


def read_offset_value(value: bytes, record_offset: int) -> OffsetAndMetadata:
    decoded = decode_version_prefixed(OffsetCommitValue, value)
    return OffsetAndMetadata(
        decoded.offset,
        decoded.leader_epoch,
        decoded.metadata,
        decoded.commit_timestamp,
        decoded.expire_timestamp,
        record_offset,
    )


def group_key(group_id: str) -> bytes:
    return encode_version_prefixed(GroupMetadataKey(group=group_id), GROUP_KEY_VERSION)


def group_value(value: GroupMetadataValue) -> bytes:
    return encode_version_prefixed(value, _GROUP_VALUE_VERSION)


def read_group_key(key: bytes) -> str:
    return decode_version_prefixed(GroupMetadataKey, key).group


def read_group_value(value: bytes) -> GroupMetadataValue:
    return decode_version_prefixed(GroupMetadataValue, value)
