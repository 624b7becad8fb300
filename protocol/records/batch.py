"""A view of one batch of magic 2: its header, its checksum, its records. Kafka: DefaultRecordBatch.

     0  base offset             int64    assigned by the broker; not covered by the checksum
     8  length                  int32    bytes after this field
    12  partition leader epoch  int32    assigned by the broker; not covered by the checksum
    16  magic                   int8     2
    17  checksum                uint32   CRC-32C of all following bytes
    21  attributes              int16    bits 0-2 codec, 3 timestamp type (set: log append time),
                                         4 transactional, 5 control, 6 delete horizon
    23  last offset delta       int32    compaction keeps it even if it removes the last records
    27  base timestamp          int64    of the first record, or the delete horizon if bit 6 is set
    35  max timestamp           int64
    43  producer id             int64    -1 for none
    51  producer epoch          int16    -1 for none
    53  base sequence           int32    -1 for none
    57  record count            int32
    61  records                          one compressed block, if a codec is set

The header is unpacked once, by one call. The methods that change it update the buffer and the view.

Invariant: a view is within its buffer, and its count and its last offset delta are not negative.
Owner: the owner of the buffer.
"""

import struct
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from odradek.protocol.errors import CorruptMessage
from odradek.protocol.records.compression import (
    DECOMPRESSED_BYTES_MAX,
    Codec,
    codec_of,
    decompress,
)
from odradek.protocol.records.crc32c import crc32c
from odradek.protocol.records.record import BatchContext, Record, TimestampType, read_records
from odradek.protocol.varint import Buffer

MAGIC = 2
HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES = HEADER.size
CHECKSUM_POSITION = 17
ATTRIBUTES_POSITION = 21

LOG_APPEND_TIME_FLAG = 0x08
TRANSACTIONAL_FLAG = 0x10
CONTROL_FLAG = 0x20
DELETE_HORIZON_FLAG = 0x40

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
SEQUENCE_MAX = 2**31 - 1
NO_PARTITION_LEADER_EPOCH = -1

# Every magic begins with an offset and the length of the rest.
LOG_OVERHEAD_BYTES = 12
MAGIC_POSITION = 16
_LENGTH = struct.Struct(">8xi")
_LENGTH_MIN = 14  # the length of the smallest message, of magic 0
_MAGIC_MAX = 2

_OFFSET_LENGTH_EPOCH = struct.Struct(">qii")
_CHECKSUM = struct.Struct(">I")
_ATTRIBUTES = struct.Struct(">h")
_MAX_TIMESTAMP_POSITION = 35
_MAX_TIMESTAMP = struct.Struct(">q")


class RecordBatch:
    """A batch at a position of a buffer, which may hold other data before and after it."""

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "buffer",
        "checksum",
        "count",
        "last_offset_delta",
        "max_timestamp",
        "partition_leader_epoch",
        "position",
        "producer_epoch",
        "producer_id",
        "size_bytes",
    )
    attributes: int
    base_offset: int
    base_sequence: int
    base_timestamp: int
    checksum: int
    count: int
    last_offset_delta: int
    max_timestamp: int
    partition_leader_epoch: int
    producer_epoch: int
    producer_id: int

    def __init__(self, buffer: Buffer, position: int = 0) -> None:
        """Raises CorruptMessage unless a whole batch of magic 2 is there; reads the header only."""
        try:
            (
                self.base_offset,
                length,
                self.partition_leader_epoch,
                magic,
                self.checksum,
                self.attributes,
                self.last_offset_delta,
                self.base_timestamp,
                self.max_timestamp,
                self.producer_id,
                self.producer_epoch,
                self.base_sequence,
                self.count,
            ) = HEADER.unpack_from(buffer, position)
        except struct.error as error:
            raise CorruptMessage(
                f"incomplete batch header at position {position} of {len(buffer)} bytes"
            ) from error
        self.buffer = buffer
        self.position = position
        self.size_bytes = size_bytes = length + LOG_OVERHEAD_BYTES
        if magic != MAGIC or not HEADER_BYTES <= size_bytes <= len(buffer) - position:
            raise CorruptMessage(
                f"invalid batch: magic {magic}, {size_bytes} bytes at position {position} "
                f"of {len(buffer)}"
            )
        if self.count < 0 or self.last_offset_delta < 0:
            raise CorruptMessage(
                f"invalid batch: {self.count} records, last offset delta {self.last_offset_delta}"
            )

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> Codec:
        return codec_of(self.attributes)

    @property
    def timestamp_type(self) -> TimestampType:
        if self.attributes & LOG_APPEND_TIME_FLAG:
            return TimestampType.LOG_APPEND_TIME
        return TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_FLAG != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_FLAG != 0

    @property
    def delete_horizon_ms(self) -> int | None:
        """The time from which compaction may remove tombstones and markers; None if not set."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_FLAG else None

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID

    @property
    def last_sequence(self) -> int:
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return increment_sequence(self.base_sequence, self.last_offset_delta)

    @property
    def view(self) -> memoryview:
        """The bytes of the whole batch, not copied."""
        return memoryview(self.buffer)[self.position : self.position + self.size_bytes]

    def is_valid(self) -> bool:
        """Return whether the checksum matches the bytes."""
        return self.checksum == self._compute_checksum()

    def check_crc(self) -> None:
        """Raise CorruptMessage if the checksum does not match the bytes."""
        computed = self._compute_checksum()
        if self.checksum != computed:
            raise CorruptMessage(f"checksum {self.checksum:08x}, but the bytes have {computed:08x}")

    def _compute_checksum(self) -> int:
        buffer, position = self.buffer, self.position
        # Slicing a memoryview does not copy. A buffer that is one already need not be wrapped.
        whole = buffer if type(buffer) is memoryview else memoryview(buffer)
        return crc32c(whole[position + ATTRIBUTES_POSITION : position + self.size_bytes])

    def __iter__(self) -> Iterator[Record]:
        return self.records()

    def records(self, *, max_bytes: int = DECOMPRESSED_BYTES_MAX) -> Iterator[Record]:
        """Iterate over the records, which may have at most ``max_bytes`` when decompressed."""
        start = self.position + HEADER_BYTES
        packed = memoryview(self.buffer)[start : self.position + self.size_bytes]
        is_append_time = self.attributes & LOG_APPEND_TIME_FLAG
        context = BatchContext(
            record_count=self.count,
            base_offset=self.base_offset,
            last_offset_delta=self.last_offset_delta,
            base_timestamp=self.base_timestamp,
            append_time=self.max_timestamp if is_append_time else None,
        )
        return read_records(decompress(self.codec, packed, max_bytes=max_bytes), context)

    def assign_offsets(
        self, base_offset: int, leader_epoch: int = NO_PARTITION_LEADER_EPOCH
    ) -> None:
        """Set base offset and leader epoch in place; the buffer must be mutable."""
        length = self.size_bytes - LOG_OVERHEAD_BYTES  # unchanged; one call writes all three fields
        _OFFSET_LENGTH_EPOCH.pack_into(
            self.buffer, self.position, base_offset, length, leader_epoch
        )
        self.base_offset, self.partition_leader_epoch = base_offset, leader_epoch

    def set_max_timestamp(self, timestamp: int, timestamp_type: TimestampType) -> None:
        """Set it in place; the checksum is recomputed if anything changed."""
        flag = LOG_APPEND_TIME_FLAG if timestamp_type is TimestampType.LOG_APPEND_TIME else 0
        attributes = self.attributes & ~LOG_APPEND_TIME_FLAG | flag
        if attributes == self.attributes and timestamp == self.max_timestamp:
            return
        buffer, position = self.buffer, self.position
        _ATTRIBUTES.pack_into(buffer, position + ATTRIBUTES_POSITION, attributes)
        _MAX_TIMESTAMP.pack_into(buffer, position + _MAX_TIMESTAMP_POSITION, timestamp)
        self.attributes, self.max_timestamp = attributes, timestamp
        self.checksum = self._compute_checksum()
        _CHECKSUM.pack_into(buffer, position + CHECKSUM_POSITION, self.checksum)

    def __repr__(self) -> str:
        return (
            f"RecordBatch(offsets {self.base_offset} to {self.last_offset}, {self.count} records, "
            f"{self.size_bytes} bytes, attributes {self.attributes:#04x}, producer "
            f"{self.producer_id} epoch {self.producer_epoch} sequence {self.base_sequence})"
        )


def increment_sequence(sequence: int, increment: int) -> int:
    """Return the sequence ``increment`` records later: after 2^31-1 comes 0."""
    incremented = sequence + increment
    return incremented if incremented <= SEQUENCE_MAX else incremented - SEQUENCE_MAX - 1


Batch = TypeVar("Batch")


class Batches(Generic[Batch]):
    """Iterates over the whole batches of a record set; ``position`` is then where they end."""

    def __init__(self, buffer: Buffer, batch_factory: Callable[[Buffer, int], Batch]) -> None:
        self._buffer = buffer
        self._batch_factory = batch_factory
        self.position = 0

    def __iter__(self) -> Iterator[Batch]:
        self.position = 0
        while size_bytes := whole_batch_bytes(self._buffer, self.position):
            batch = self._batch_factory(self._buffer, self.position)
            self.position += size_bytes
            yield batch

    @property
    def partial_bytes(self) -> int:
        """The number of bytes after the last whole batch: the beginning of a truncated batch."""
        return len(self._buffer) - self.position


def batches_in(buffer: Buffer) -> Batches[RecordBatch]:
    """Iterate over the batches of a record set that holds only magic 2."""
    return Batches(buffer, RecordBatch)


def whole_batch_bytes(buffer: Buffer, position: int) -> int:
    """Return the size of the batch, of any magic, at ``position``; 0 if it is incomplete."""
    available = len(buffer) - position
    if available < LOG_OVERHEAD_BYTES:
        return 0
    length: int = _LENGTH.unpack_from(buffer, position)[0]
    if length < _LENGTH_MIN:
        raise CorruptMessage(f"invalid batch length {length} at position {position}")
    if available <= MAGIC_POSITION:
        return 0
    magic = buffer[position + MAGIC_POSITION]
    if magic > _MAGIC_MAX:
        raise CorruptMessage(f"unknown magic {magic} of a batch at position {position}")
    size_bytes = length + LOG_OVERHEAD_BYTES
    return size_bytes if size_bytes <= available else 0
