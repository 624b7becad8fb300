"""A view of one message of magic 0 or 1: a record, or a wrapper around compressed records.

     0  offset      int64    assigned by the broker; not covered by the checksum
     8  length      int32    bytes after this field
    12  checksum    uint32   CRC-32 of all following bytes
    16  magic       int8     0 or 1
    17  attributes  int8     bits 0-2 codec, 3 timestamp type (magic 1; set: log append time)
    18  timestamp   int64    magic 1 only; a wrapper has the largest of its records
        key         int32 length, -1 for null, and that many bytes
        value       likewise

There are no batches before magic 2.  An uncompressed message is a single record. Compressed
messages are a set of such messages in the value of a wrapper message.  The wrapper's offset is that
of its last record.  Inside it, offsets are absolute in magic 0; in magic 1 they are relative to the
first record, and the broker can assign offsets without decompressing the set.  Log append time set
on a wrapper applies to all its records, whatever their own timestamps are.

A view has the interface of a RecordBatch as far as the format allows.  A wrapper does not store the
first offset and the number of its records, so ``base_offset`` and ``count`` must decompress it.

Kafka: AbstractLegacyRecordBatch, LegacyRecord.

Invariant: a view is within its buffer; reading never goes beyond it.
Owner: the owner of the buffer.
"""

import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import TypeVar

from odradek.protocol.errors import CorruptMessage
from odradek.protocol.records.batch import (
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD_BYTES,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    whole_batch_bytes,
)
from odradek.protocol.records.compression import (
    DECOMPRESSED_BYTES_MAX,
    Codec,
    codec_of,
    decompress,
)
from odradek.protocol.records.legacy_lz4 import with_correct_checksum
from odradek.protocol.records.record import NO_TIMESTAMP, Record, TimestampType
from odradek.protocol.varint import Buffer

HEADER = struct.Struct(">qiIbb")
HEADER_WITH_TIMESTAMP = struct.Struct(">qiIbbq")
CHECKSUM_POSITION = 12
CHECKSUM_INPUT_POSITION = 16

_HEADERS = (HEADER, HEADER_WITH_TIMESTAMP)
_TWO_LENGTHS_BYTES = 8
_ATTRIBUTES_POSITION = 17
_TIMESTAMP_POSITION = 18
_OFFSET = struct.Struct(">q")
_TIMESTAMP = struct.Struct(">q")
_CHECKSUM = struct.Struct(">I")
_LENGTH = struct.Struct(">i")


class InnerRecordChecksumMismatch(CorruptMessage):
    """A record inside a wrapper does not match its checksum, although the wrapper does."""


class LegacyBatch:
    """A message at a position of a buffer, which may hold other data before and after it."""

    __slots__ = (
        "attributes",
        "buffer",
        "checksum",
        "last_offset",
        "magic",
        "max_timestamp",
        "position",
        "size_bytes",
    )

    partition_leader_epoch = NO_PARTITION_LEADER_EPOCH
    producer_id = NO_PRODUCER_ID
    producer_epoch = NO_PRODUCER_EPOCH
    base_sequence = NO_SEQUENCE
    last_sequence = NO_SEQUENCE
    has_producer_id = False
    is_transactional = False
    is_control = False
    delete_horizon_ms = None

    last_offset: int
    checksum: int
    magic: int
    attributes: int
    max_timestamp: int

    def __init__(self, buffer: Buffer, position: int = 0) -> None:
        """Raises CorruptMessage unless a whole message is there; reads the header only."""
        available = len(buffer) - position
        if available < HEADER.size:
            raise CorruptMessage(
                f"incomplete message header at position {position} of {len(buffer)} bytes"
            )
        self.last_offset, length, self.checksum, self.magic, self.attributes = HEADER.unpack_from(
            buffer, position
        )
        self.buffer = buffer
        self.position = position
        self.size_bytes = size_bytes = length + LOG_OVERHEAD_BYTES
        if self.magic not in (0, 1) or not self._min_size_bytes <= size_bytes <= available:
            raise CorruptMessage(
                f"invalid message: magic {self.magic}, {size_bytes} bytes at position {position} "
                f"of {len(buffer)}"
            )
        self.max_timestamp = NO_TIMESTAMP
        if self.magic == 1:
            self.max_timestamp = _TIMESTAMP.unpack_from(buffer, position + _TIMESTAMP_POSITION)[0]

    @property
    def _min_size_bytes(self) -> int:
        return _HEADERS[self.magic].size + _TWO_LENGTHS_BYTES

    @property
    def base_offset(self) -> int:
        if self.codec is Codec.NONE:
            return self.last_offset
        return next(self.records()).offset

    @property
    def count(self) -> int:
        return sum(1 for _ in self.records())

    @property
    def next_offset(self) -> int:
        return self.last_offset + 1

    @property
    def codec(self) -> Codec:
        return codec_of(self.attributes)

    @property
    def timestamp_type(self) -> TimestampType:
        """The type; always CREATE_TIME for magic 0, which has no timestamps."""
        if self.magic == 1 and self.attributes & LOG_APPEND_TIME_FLAG:
            return TimestampType.LOG_APPEND_TIME
        return TimestampType.CREATE_TIME

    @property
    def view(self) -> memoryview:
        """The bytes of the whole message, not copied."""
        return memoryview(self.buffer)[self.position : self.position + self.size_bytes]

    def is_valid(self) -> bool:
        """Return whether the checksum matches the bytes."""
        return self.checksum == self._compute_checksum()

    def check_crc(self) -> None:
        computed = self._compute_checksum()
        if self.checksum != computed:
            raise CorruptMessage(f"checksum {self.checksum:08x}, but the bytes have {computed:08x}")

    def _compute_checksum(self) -> int:
        return zlib.crc32(self.view[CHECKSUM_INPUT_POSITION:])

    def __iter__(self) -> Iterator[Record]:
        return self.records()

    def records(self, *, max_bytes: int = DECOMPRESSED_BYTES_MAX) -> Iterator[Record]:
        """Iterate over the records, which may have at most ``max_bytes`` when decompressed.

        The checksums of records inside a wrapper are checked, because ``check_crc`` cannot do so.
        """
        key, value = self._key_and_value()
        if self.codec is Codec.NONE:
            record = Record(self.last_offset, self.max_timestamp, _copy(key), _copy(value))
            return iter((record,))
        if value is None:
            raise CorruptMessage("a wrapper message without a value")
        inner = _decompress_wrapper(self.magic, self.codec, value, max_bytes)
        return self._iter_inner_records(
            inner, absolute_base_offset=self._absolute_base_offset(inner)
        )

    def _key_and_value(self) -> tuple[memoryview | None, memoryview | None]:
        view = self.view
        return _read_key_and_value(view, _HEADERS[self.magic].size, end=len(view))

    def _absolute_base_offset(self, inner: bytes) -> int:
        """Return the number to add to the offsets inside the wrapper to make them absolute."""
        last_position = _last_message_position(inner)
        # librdkafka and kafka-python leave the wrapper's offset at 0 for the broker to assign.
        if self.magic == 0 or self.last_offset == 0:
            return 0
        last_inner_offset: int = _OFFSET.unpack_from(inner, last_position)[0]
        if last_inner_offset > self.last_offset:
            raise CorruptMessage(
                f"wrapper offset {self.last_offset} is less than the relative offset "
                f"{last_inner_offset} of its last record"
            )
        return self.last_offset - last_inner_offset

    def _iter_inner_records(self, inner: bytes, *, absolute_base_offset: int) -> Iterator[Record]:
        """Yield the messages in ``inner``, whose lengths have been checked."""
        header = _HEADERS[self.magic]
        is_append_time = self.timestamp_type is TimestampType.LOG_APPEND_TIME
        view = memoryview(inner)
        end = 0
        while end < len(inner):
            start = end
            fields = header.unpack_from(inner, start)
            end = start + LOG_OVERHEAD_BYTES + fields[1]
            self._check_inner_record(
                fields, zlib.crc32(view[start + CHECKSUM_INPUT_POSITION : end])
            )
            timestamp = self.max_timestamp
            if self.magic == 1 and not is_append_time:
                timestamp = fields[5]
            key, value = _read_key_and_value(inner, start + header.size, end=end)
            yield Record(absolute_base_offset + fields[0], timestamp, key, value)

    def _check_inner_record(self, fields: Sequence[int], computed: int) -> None:
        checksum, magic, attributes = fields[2:5]
        if magic != self.magic:
            raise CorruptMessage(f"a message of magic {magic} in a wrapper of magic {self.magic}")
        if codec_of(attributes) is not Codec.NONE:
            raise CorruptMessage("a compressed message inside a wrapper")
        if checksum != computed:
            raise InnerRecordChecksumMismatch(
                f"checksum {checksum:08x} inside a wrapper, but the bytes have {computed:08x}"
            )

    def set_last_offset(self, offset: int) -> None:
        """Set it in place, in a mutable buffer; the records of a magic 1 wrapper move with it."""
        assert self.magic == 1 or self.codec is Codec.NONE, "magic 0 keeps offsets in the value"
        _OFFSET.pack_into(self.buffer, self.position, offset)
        self.last_offset = offset

    def set_max_timestamp(self, timestamp: int, timestamp_type: TimestampType) -> None:
        """Set it in place; the checksum is recomputed if anything changed."""
        assert self.magic == 1, "magic 0 has no timestamp"
        if timestamp == self.max_timestamp and timestamp_type is self.timestamp_type:
            return
        flag = LOG_APPEND_TIME_FLAG if timestamp_type is TimestampType.LOG_APPEND_TIME else 0
        buffer, position = self.buffer, self.position
        self.attributes, self.max_timestamp = self.codec | flag, timestamp
        struct.pack_into(">b", buffer, position + _ATTRIBUTES_POSITION, self.attributes)
        _TIMESTAMP.pack_into(buffer, position + _TIMESTAMP_POSITION, timestamp)
        self.checksum = self._compute_checksum()
        _CHECKSUM.pack_into(buffer, position + CHECKSUM_POSITION, self.checksum)

    def __repr__(self) -> str:
        return (
            f"LegacyBatch(magic {self.magic}, last offset {self.last_offset}, "
            f"{self.size_bytes} bytes, attributes {self.attributes:#04x})"
        )


def _copy(content: memoryview | None) -> bytes | None:
    return None if content is None else bytes(content)


Bytes = TypeVar("Bytes", bytes, memoryview)


def _read_key_and_value(
    source: Bytes, position: int, *, end: int
) -> tuple[Bytes | None, Bytes | None]:
    """Read key and value, which must fill the bytes from ``position`` to ``end``."""
    key, position = _read_nullable(source, position, end)
    value, position = _read_nullable(source, position, end)
    if position != end:
        raise CorruptMessage(f"{end - position} bytes after a message's value")
    return key, value


def _read_nullable(source: Bytes, position: int, end: int) -> tuple[Bytes | None, int]:
    start = position + _LENGTH.size
    if start > end:
        raise CorruptMessage(f"a message ends at {end}, inside the length field at {position}")
    length: int = _LENGTH.unpack_from(source, position)[0]
    if length == -1:
        return None, start
    if not 0 <= length <= end - start:
        raise CorruptMessage(f"a key or value of {length} bytes, but {end - start} bytes remain")
    return source[start : start + length], start + length


def _decompress_wrapper(magic: int, codec: Codec, value: memoryview, max_bytes: int) -> bytes:
    if codec is Codec.ZSTD:
        raise CorruptMessage(f"zstd is not supported by magic {magic}")
    if codec is Codec.LZ4 and magic == 0:
        return decompress(codec, with_correct_checksum(value), max_bytes=max_bytes)
    return decompress(codec, value, max_bytes=max_bytes)


def _last_message_position(inner: bytes) -> int:
    """Return the position of the last message in a wrapper; the messages must fill it."""
    last = position = 0
    while size_bytes := whole_batch_bytes(inner, position):
        last, position = position, position + size_bytes
    if position == 0 or position != len(inner):
        raise CorruptMessage(f"a wrapper of {len(inner)} bytes, {position} of them whole messages")
    return last
