"""Decodes the records that brokers write for themselves.

    control batches       end transaction markers; in a KRaft log also leader changes and voters
    __consumer_offsets    committed offsets and group metadata; the members of a classic group
                          contain nested messages of the consumer protocol
    __transaction_state   transactional ids

A record type or version that is unknown was written by a newer broker: its bytes are shown.

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
from odradek.protocol.internal.coordinator_record import (
    GROUP_RECORD_TYPES,
    TRANSACTION_RECORD_TYPES,
    VERSION,
    CoordinatorRecordType,
    decode_version_prefixed,
    read_version_prefix,
)
from odradek.protocol.internal.group_log import GroupMetadataValue
from odradek.protocol.internal.quorum_records import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from odradek.protocol.internal.transaction_log import TRANSACTION_STATE_NAMES, TransactionLogValue
from odradek.protocol.records.control_records import (
    ControlRecordType,
    parse_control_record_type,
    parse_end_transaction_marker,
)
from odradek.protocol.records.record import Record
from odradek.protocol.schema import Message, Struct
from odradek.storage.dump.items import Decoding, printable
from odradek.storage.paths import parse_directory_name

RecordTypes = Mapping[int, CoordinatorRecordType]

_RECORD_TYPES_BY_TOPIC: Mapping[str, RecordTypes] = {
    "__consumer_offsets": GROUP_RECORD_TYPES,
    "__transaction_state": TRANSACTION_RECORD_TYPES,
}
_QUORUM_VALUES: Mapping[ControlRecordType, type[Message]] = {
    ControlRecordType.LEADER_CHANGE: LeaderChangeMessage,
    ControlRecordType.SNAPSHOT_HEADER: SnapshotHeaderRecord,
    ControlRecordType.SNAPSHOT_FOOTER: SnapshotFooterRecord,
    ControlRecordType.KRAFT_VERSION: KRaftVersionRecord,
    ControlRecordType.KRAFT_VOTERS: VotersRecord,
}


def record_types_for(path: Path, decoding: Decoding) -> RecordTypes | None:
    """Return the record types of this segment; None if it is not of an internal topic."""
    if decoding is Decoding.OFFSETS:
        return GROUP_RECORD_TYPES
    if decoding is Decoding.TRANSACTIONS:
        return TRANSACTION_RECORD_TYPES
    directory = parse_directory_name(path.absolute().parent.name)
    if decoding is Decoding.NONE or directory is None:
        return None
    return _RECORD_TYPES_BY_TOPIC.get(directory.partition.topic)


def decode_control_record(record: Record) -> dict[str, Any]:
    """Decode a record of a control batch."""
    kind = parse_control_record_type(record)
    marker = parse_end_transaction_marker(record)
    decoded: dict[str, Any] = {"type": kind.name.lower()}
    if marker is not None:
        decoded["coordinator_epoch"] = marker.coordinator_epoch
    elif kind in _QUORUM_VALUES:
        decoded["value"] = _decode_quorum_value(_QUORUM_VALUES[kind], record.value or b"")
    return decoded


def decode_internal_record(record: Record, record_types: RecordTypes) -> dict[str, Any] | None:
    """Decode a record of an internal topic; None if its type is unknown.  A null value deletes."""
    number = read_version_prefix(record.key or b"")
    kind = record_types.get(number)
    if kind is None:
        return None
    return {
        "key": _decode_part(kind.key, record.key or b""),
        "value": None if record.value is None else _decode_part(kind.value, record.value),
    }


def _decode_part(message: type[Message], data: bytes) -> dict[str, Any]:
    version = read_version_prefix(data)
    decoded: dict[str, Any] = {"type": message.__name__, "version": version}
    if version in message.__schema__.versions:
        decoded["fields"] = _field_values(decode_version_prefixed(message, data), version)
    else:
        decoded["bytes"] = printable(data)
    return decoded


def _decode_quorum_value(message: type[Message], data: bytes) -> dict[str, Any] | None:
    """Return None for an unknown version.  The version prefix is a field of the value itself."""
    version = read_version_prefix(data)
    if version not in message.__schema__.versions:
        return None
    value, _ = decode_prefix(message, version, data)
    return _field_values(value, version)


def _field_values(value: Struct, version: int) -> dict[str, Any]:
    """Return the fields of this version."""
    values = {
        field.name: _to_json_value(field.type, getattr(value, field.name), version)
        for field in value.__schema__.fields
        if version in field.versions
    }
    if isinstance(value, GroupMetadataValue) and value.protocol_type == "consumer":
        for member, fields in zip(value.members, values["members"], strict=True):
            fields["subscription"] = _decode_consumer_protocol(
                ConsumerProtocolSubscription, member.subscription
            )
            fields["assignment"] = _decode_consumer_protocol(
                ConsumerProtocolAssignment, member.assignment
            )
    if isinstance(value, TransactionLogValue):
        values["transaction_status"] = TRANSACTION_STATE_NAMES.get(
            value.transaction_status, value.transaction_status
        )
    return values


def _to_json_value(wire_type: WireType, value: Any, version: int) -> Any:
    if value is None:
        return None
    if isinstance(wire_type, Array):
        return [_to_json_value(wire_type.element, element, version) for element in value]
    if isinstance(wire_type, Nested):
        return _field_values(value, version)
    if wire_type in (BYTES, RECORDS):
        return printable(bytes(value))
    return str(value) if wire_type == UUID else value


def _decode_consumer_protocol(message: type[Message], data: bytes) -> Any:
    """Decode client data.  Brokers do not read it, so it may be anything; then show its bytes."""
    try:
        version = read_version_prefix(data)
        if version < 0:
            return printable(data)
        readable = min(version, message.__schema__.versions.high)
        value, _ = decode_prefix(message, readable, data, VERSION.size)
        return {"version": version, **_field_values(value, readable)}
    except DecodeError:
        return printable(data)
