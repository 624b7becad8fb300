"""Records of ``__consumer_offsets``: committed offsets and the metadata of groups.

The version of a key is the type of the record (protocol/internal/coordinator_record.py).  Of other
types than offset commits, only the group, the member and the generation or epoch are decoded.  A
type that only newer brokers know has its number as name.  It is not damage, since older brokers
skip such records.

Owner: none; immutable, any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from odradek.protocol.internal.consumer_group_log import ConsumerGroupMetadataValue
from odradek.protocol.internal.coordinator_record import GROUP_RECORD_TYPES, decode_version_prefixed
from odradek.protocol.internal.group_log import GroupMetadataValue, OffsetCommitValue
from odradek.protocol.schema import Message
from odradek.spark_jobs.internal_topics.record_cells import (
    ParsedKey,
    RecordCells,
    find_record_type,
    key_cells,
    to_microseconds,
    unknown_key,
)

_COLUMN_BY_FIELD = {
    "group": "group",
    "group_id": "group",
    "member_id": "memberId",
    "topic": "topic",
    "partition": "partition",
}


# The same partitions are committed repeatedly.
@lru_cache(maxsize=65_536)
def parse_key(key: bytes) -> ParsedKey:
    """Raise DecodeError if the key is malformed."""
    record_type = find_record_type(key, GROUP_RECORD_TYPES)
    if record_type is None:
        return unknown_key(key)
    decoded = decode_version_prefixed(record_type.key, key)
    fields = [field.name for field in decoded.__schema__.fields if field.name in _COLUMN_BY_FIELD]
    cells = {_COLUMN_BY_FIELD[name]: getattr(decoded, name) for name in fields}
    return ParsedKey(
        key_cells(record_type, **cells),
        record_type.value if record_type.value in _VALUE_PARSERS else None,
    )


def parse_value(value_type: type[Message], value: bytes) -> RecordCells:
    """Raise DecodeError if the value is malformed."""
    return _VALUE_PARSERS[value_type](decode_version_prefixed(value_type, value))


def _offset_commit_cells(value: OffsetCommitValue) -> RecordCells:
    return {
        "offset": value.offset,
        "leaderEpoch": value.leader_epoch if value.leader_epoch >= 0 else None,
        "metadata": value.metadata,
        "commitTimestamp": to_microseconds(value.commit_timestamp),
        "expireTimestamp": to_microseconds(value.expire_timestamp),
    }


def _group_metadata_cells(value: GroupMetadataValue) -> RecordCells:
    return {
        "protocolType": value.protocol_type,
        "generation": value.generation,
        "memberCount": len(value.members),
    }


def _consumer_group_metadata_cells(value: ConsumerGroupMetadataValue) -> RecordCells:
    return {"generation": value.epoch}


_VALUE_PARSERS: Mapping[type[Message], Callable[[Any], RecordCells]] = {
    OffsetCommitValue: _offset_commit_cells,
    GroupMetadataValue: _group_metadata_cells,
    ConsumerGroupMetadataValue: _consumer_group_metadata_cells,
}
