"""What the records mean that brokers write for themselves.

    control batches       how a transaction ended; in KRaft's own log also its leaders and voters
    __consumer_offsets    committed offsets and groups; a classic group's members are themselves a
                          message in a message, by the protocol of consumers
    __transaction_state   transactional ids

A kind or version of record that is not known was written by a newer broker: it stays bytes.

Owner: none; holds no state, any thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from odradek.protocol.codec import decode_prefix
from odradek.protocol.errors import DecodeError
from odradek.protocol.field import BYTES, RECORDS, UUID, Array, Nested, WireType
from odradek.protocol.internal.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from odradek.protocol.internal.group_log import GroupMetadataValue
from odradek.protocol.internal.log_record import (
    GROUP_LOG,
    TRANSACTION_LOG,
    VERSION,
    Kind,
    decode_part,
    part_version,
)
from odradek.protocol.internal.quorum_records import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from odradek.protocol.internal.transaction_log import STATUSES, TransactionLogValue
from odradek.protocol.records.control import ControlType, control_type_of, marker_of
from odradek.protocol.records.record import Record
from odradek.protocol.schema import Message, Struct
from odradek.storage.dump.facts import Decoding, shown
from odradek.storage.paths import directory_named

Kinds = Mapping[int, Kind]

_BY_TOPIC: Mapping[str, Kinds] = {
    "__consumer_offsets": GROUP_LOG,
    "__transaction_state": TRANSACTION_LOG,
}
_QUORUM_VALUES: Mapping[ControlType, type[Message]] = {
    ControlType.LEADER_CHANGE: LeaderChangeMessage,
    ControlType.SNAPSHOT_HEADER: SnapshotHeaderRecord,
    ControlType.SNAPSHOT_FOOTER: SnapshotFooterRecord,
    ControlType.KRAFT_VERSION: KRaftVersionRecord,
    ControlType.KRAFT_VOTERS: VotersRecord,
}


def kinds_for(path: Path, decoding: Decoding) -> Kinds | None:
    """What kinds of records are in this segment; None if they are anybody's."""
    if decoding is Decoding.OFFSETS:
        return GROUP_LOG
    if decoding is Decoding.TRANSACTIONS:
        return TRANSACTION_LOG
    directory = directory_named(path.absolute().parent.name)
    if decoding is Decoding.NONE or directory is None:
        return None
    return _BY_TOPIC.get(directory.partition.topic)


def control(record: Record) -> dict[str, Any]:
    """A record of a control batch."""
    kind = control_type_of(record)
    marker = marker_of(record)
    told: dict[str, Any] = {"type": kind.name.lower()}
    if marker is not None:
        told["coordinator_epoch"] = marker.coordinator_epoch
    elif kind in _QUORUM_VALUES:
        told["value"] = _quorum_value(_QUORUM_VALUES[kind], record.value or b"")
    return told


def decoded(record: Record, kinds: Kinds) -> dict[str, Any] | None:
    """A record of an internal topic; None if its kind is unknown.  A null value deletes."""
    number = part_version(record.key or b"")
    kind = kinds.get(number)
    if kind is None:
        return None
    return {
        "key": _part(kind.key, record.key or b""),
        "value": None if record.value is None else _part(kind.value, record.value),
    }


def _part(message: type[Message], stored: bytes) -> dict[str, Any]:
    version = part_version(stored)
    told: dict[str, Any] = {"type": message.__name__, "version": version}
    if version in message.__schema__.versions:
        told["fields"] = _fields(decode_part(message, stored), version)
    else:
        told["bytes"] = shown(stored)
    return told


def _quorum_value(message: type[Message], stored: bytes) -> dict[str, Any] | None:
    """None for a version that is unknown: the value begins with it, and it is part of the value."""
    version = part_version(stored)
    if version not in message.__schema__.versions:
        return None
    value, _ = decode_prefix(message, version, stored)
    return _fields(value, version)


def _fields(value: Struct, version: int) -> dict[str, Any]:
    """The fields that travel in this version."""
    told = {
        field.name: _told(field.type, getattr(value, field.name), version)
        for field in value.__schema__.fields
        if version in field.versions
    }
    if isinstance(value, GroupMetadataValue) and value.protocol_type == "consumer":
        for member, fields in zip(value.members, told["members"], strict=True):
            fields["subscription"] = _of_consumer(ConsumerProtocolSubscription, member.subscription)
            fields["assignment"] = _of_consumer(ConsumerProtocolAssignment, member.assignment)
    if isinstance(value, TransactionLogValue):
        told["transaction_status"] = STATUSES.get(
            value.transaction_status, value.transaction_status
        )
    return told


def _told(kind: WireType, value: Any, version: int) -> Any:
    if value is None:
        return None
    if isinstance(kind, Array):
        return [_told(kind.element, element, version) for element in value]
    if isinstance(kind, Nested):
        return _fields(value, version)
    if kind in (BYTES, RECORDS):
        return shown(bytes(value))
    return str(value) if kind == UUID else value


def _of_consumer(message: type[Message], stored: bytes) -> Any:
    """What clients tell each other; brokers do not look, so that anything may stand there."""
    try:
        version = part_version(stored)
        if version < 0:
            return shown(stored)
        readable = min(version, message.__schema__.versions.high)
        value, _ = decode_prefix(message, readable, stored, VERSION.size)
        return {"version": version, **_fields(value, readable)}
    except DecodeError:
        return shown(stored)
