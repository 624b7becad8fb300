"""Control records: the markers that end a transaction. Kafka: EndTransactionMarker.

They are in separate batches with the control flag set, and take an offset like any record.

    key     version int16 0, type int16
    value   version int16 0, coordinator epoch int32     of an abort or commit marker

Later versions may append bytes, which are ignored; records of other types are ignored as well.
"""

from dataclasses import dataclass
from enum import IntEnum
from struct import Struct

from odradek.protocol.errors import CorruptMessage
from odradek.protocol.records.batch import (
    ATTRIBUTES_POSITION,
    CHECKSUM_POSITION,
    CONTROL_FLAG,
    HEADER,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    NO_SEQUENCE,
    TRANSACTIONAL_FLAG,
)
from odradek.protocol.records.crc32c import crc32c
from odradek.protocol.records.record import Record, write_record

_KEY = Struct(">hh")
_VALUE = Struct(">hi")
_VERSION = 0
_CHECKSUM = Struct(">I")


class ControlRecordType(IntEnum):
    """The type of a control record; types from 2 on are used only in KRaft's metadata log."""

    UNKNOWN = -1
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


@dataclass(frozen=True, slots=True)
class EndTransactionMarker:
    """The end of a producer's transaction, as decided by the coordinator of that epoch."""

    is_commit: bool
    coordinator_epoch: int


def parse_control_record_type(record: Record) -> ControlRecordType:
    """Return the type in the key of a record of a control batch."""
    key = record.key or b""
    if len(key) < _KEY.size:
        raise CorruptMessage(f"a control record with a key of {len(key)} bytes, which is too short")
    version, number = _KEY.unpack_from(key)
    if version < 0:
        raise CorruptMessage(f"a control record with a key of negative version {version}")
    try:
        return ControlRecordType(number)
    except ValueError:
        return ControlRecordType.UNKNOWN


def parse_end_transaction_marker(record: Record) -> EndTransactionMarker | None:
    """Parse a record of a control batch; returns None if it is not a transaction marker."""
    record_type = parse_control_record_type(record)
    if record_type not in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
        return None
    value = record.value or b""
    if len(value) < _VALUE.size:
        raise CorruptMessage(
            f"a transaction marker with a value of {len(value)} bytes, which is too short"
        )
    version, coordinator_epoch = _VALUE.unpack_from(value)
    if version < 0:
        raise CorruptMessage(f"a transaction marker with a value of negative version {version}")
    return EndTransactionMarker(record_type is ControlRecordType.COMMIT, coordinator_epoch)


def build_marker_batch(
    marker: EndTransactionMarker,
    *,
    timestamp: int,
    producer_id: int,
    producer_epoch: int,
    base_offset: int = 0,
    partition_leader_epoch: int = -1,
) -> bytearray:
    """Build the batch that ends a transaction of this producer in a partition."""
    record_type = ControlRecordType.COMMIT if marker.is_commit else ControlRecordType.ABORT
    buffer = bytearray(HEADER_BYTES)
    write_record(
        buffer,
        timestamp_delta=0,
        offset_delta=0,
        key=_KEY.pack(_VERSION, record_type),
        value=_VALUE.pack(_VERSION, marker.coordinator_epoch),
        headers=(),
    )
    HEADER.pack_into(
        buffer,
        0,
        base_offset,
        len(buffer) - LOG_OVERHEAD_BYTES,
        partition_leader_epoch,
        MAGIC,
        0,
        TRANSACTIONAL_FLAG | CONTROL_FLAG,
        0,
        timestamp,
        timestamp,
        producer_id,
        producer_epoch,
        NO_SEQUENCE,
        1,
    )
    checksum = crc32c(memoryview(buffer)[ATTRIBUTES_POSITION:])
    _CHECKSUM.pack_into(buffer, CHECKSUM_POSITION, checksum)
    return buffer
