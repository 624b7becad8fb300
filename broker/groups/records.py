"""Keys and values in ``__consumer_offsets``, both ways, as Kafka writes them.

    key 0, 1   an offset: group, topic, partition; 1 is written
    key 2      a classic group
    key 3-16   groups of the consumer protocol: see APPLIED_TO in shard.py

An offset's value is written in version 3, or 1 if it has a time of expiry of its own; a group's in
version 3: the newest that every Kafka from 2.3 on reads.  Kinds that nobody here knows are passed
over, so that a downgrade finds its way.

Owner: none; immutable, any thread.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from typing import NamedTuple

from odradek.broker.groups.offsets import NEVER, Commit
from odradek.protocol.errors import EncodeError
from odradek.protocol.internal.group_log import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from odradek.protocol.internal.log_record import decode_part, encode_part

OFFSET_KEYS = (0, 1)
GROUP_KEY = 2

_OFFSET_KEY_VERSION = 1
_OFFSET_VALUE_VERSION = 3
_EXPIRING_VALUE_VERSION = 1
_GROUP_VALUE_VERSION = 3

_VALUE_HEAD = Struct(">hqih")
_VALUE_TAIL = Struct(">q")
_LONGEST = 32_767


class OffsetPlace(NamedTuple):
    """What the key of an offset names."""

    group_id: str
    topic: str
    partition: int


# The same partitions are committed again and again.
@lru_cache(maxsize=65_536)
def offset_key(group_id: str, topic: str, partition: int) -> bytes:
    key = OffsetCommitKey(group=group_id, topic=topic, partition=partition)
    return encode_part(key, _OFFSET_KEY_VERSION)


def offset_value(
    offset: int, leader_epoch: int, metadata: str, *, committed_ms: int, expires_ms: int = NEVER
) -> bytes:
    if expires_ms != NEVER:
        return _expiring_value(offset, metadata, committed_ms, expires_ms)
    text = metadata.encode()
    if len(text) > _LONGEST:
        raise EncodeError(f"metadata: {len(text)} bytes")
    head = _VALUE_HEAD.pack(_OFFSET_VALUE_VERSION, offset, leader_epoch, len(text))
    return head + text + _VALUE_TAIL.pack(committed_ms)


def _expiring_value(offset: int, metadata: str, committed_ms: int, expires_ms: int) -> bytes:
    value = OffsetCommitValue(
        offset=offset,
        metadata=metadata,
        commit_timestamp=committed_ms,
        expire_timestamp=expires_ms,
    )
    return encode_part(value, _EXPIRING_VALUE_VERSION)


def read_offset_key(key: bytes) -> OffsetPlace:
    read = decode_part(OffsetCommitKey, key)
    return OffsetPlace(read.group, read.topic, read.partition)


def read_offset_value(value: bytes, record_offset: int) -> Commit:
    read = decode_part(OffsetCommitValue, value)
    return Commit(
        read.offset,
        read.leader_epoch,
        read.metadata,
        read.commit_timestamp,
        read.expire_timestamp,
        record_offset,
    )


def group_key(group_id: str) -> bytes:
    return encode_part(GroupMetadataKey(group=group_id), GROUP_KEY)


def group_value(value: GroupMetadataValue) -> bytes:
    return encode_part(value, _GROUP_VALUE_VERSION)


def read_group_key(key: bytes) -> str:
    return decode_part(GroupMetadataKey, key).group


def read_group_value(value: bytes) -> GroupMetadataValue:
    return decode_part(GroupMetadataValue, value)
