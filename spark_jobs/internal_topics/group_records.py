"""The records of ``__consumer_offsets``: committed offsets, and what coordinators keep of groups.

A key's version tells what kind of record it is (protocol/internal/log_record.py).  Of kinds that
are not offsets, little is told: whose they are, and the generation or epoch of the group.  Kinds
that only a newer broker knows are told by their number, since such records are no damage: older
brokers pass them over.

Owner: none; immutable, any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from odradek.protocol.internal.consumer_group_log import ConsumerGroupMetadataValue
from odradek.protocol.internal.group_log import GroupMetadataValue, OffsetCommitValue
from odradek.protocol.internal.log_record import GROUP_LOG, decode_part
from odradek.protocol.schema import Message
from odradek.spark_jobs.contents.cells import Cells, ReadKey, kind_of, microseconds, named, unknown

_COLUMN_OF_FIELD = {
    "group": "group",
    "group_id": "group",
    "member_id": "memberId",
    "topic": "topic",
    "partition": "partition",
}


# The same partitions are committed again and again.
@lru_cache(maxsize=65_536)
def read_key(key: bytes) -> ReadKey:
    """Raises DecodeError."""
    kind = kind_of(key, GROUP_LOG)
    if kind is None:
        return unknown(key)
    read = decode_part(kind.key, key)
    fields = [field.name for field in read.__schema__.fields if field.name in _COLUMN_OF_FIELD]
    told = {_COLUMN_OF_FIELD[name]: getattr(read, name) for name in fields}
    return ReadKey(named(kind, **told), kind.value if kind.value in _TOLD else None)


def value_cells(kind: type[Message], value: bytes) -> Cells:
    """Raises DecodeError."""
    return _TOLD[kind](decode_part(kind, value))


def _offset(value: OffsetCommitValue) -> Cells:
    return {
        "offset": value.offset,
        "leaderEpoch": value.leader_epoch if value.leader_epoch >= 0 else None,
        "metadata": value.metadata,
        "commitTimestamp": microseconds(value.commit_timestamp),
        "expireTimestamp": microseconds(value.expire_timestamp),
    }


def _classic_group(value: GroupMetadataValue) -> Cells:
    return {
        "protocolType": value.protocol_type,
        "generation": value.generation,
        "memberCount": len(value.members),
    }


def _consumer_group(value: ConsumerGroupMetadataValue) -> Cells:
    return {"generation": value.epoch}


_TOLD: Mapping[type[Message], Callable[[Any], Cells]] = {
    OffsetCommitValue: _offset,
    GroupMetadataValue: _classic_group,
    ConsumerGroupMetadataValue: _consumer_group,
}
