"""Builds messages of magic 0 and 1, for old consumers, for logs in an old format, and for tests.

Uncompressed messages have exactly the bytes that Kafka produces for the same records.

Owner: one builder, one set, one owner.
"""

import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from struct import Struct

from odradek.protocol.buffers import check_bytes
from odradek.protocol.errors import EncodeError, UnsupportedCompressionType
from odradek.protocol.records.batch import LOG_APPEND_TIME_FLAG, LOG_OVERHEAD_BYTES
from odradek.protocol.records.compression import Codec, check_level, compress
from odradek.protocol.records.legacy_batch import (
    CHECKSUM_INPUT_POSITION,
    CHECKSUM_POSITION,
    HEADER,
    HEADER_WITH_TIMESTAMP,
)
from odradek.protocol.records.legacy_lz4 import with_broken_checksum
from odradek.protocol.records.record import NO_TIMESTAMP, Record

_CHECKSUM = Struct(">I")
_LENGTH = Struct(">i")
_NULL = _LENGTH.pack(-1)
_INT64_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyFormat:
    """The format of a set of legacy messages."""

    magic: int
    codec: Codec = Codec.NONE
    level: int | None = None  # None is the codec's default
    append_time_ms: int | None = None  # None: CreateTime, each record has its own timestamp


def build_legacy_set(records: Iterable[Record], legacy_format: LegacyFormat) -> bytearray:
    builder = LegacyBuilder(legacy_format)
    for record in records:
        builder.append(record)
    return builder.build()


class LegacyBuilder:
    """Takes records one by one, in the order of their offsets, and builds a message set."""

    def __init__(self, legacy_format: LegacyFormat) -> None:
        assert legacy_format.magic in (0, 1), legacy_format.magic
        if legacy_format.codec is Codec.ZSTD:
            raise UnsupportedCompressionType(f"magic {legacy_format.magic} does not support zstd")
        check_level(legacy_format.codec, legacy_format.level)
        self.format = legacy_format
        self.count = 0
        self.max_timestamp = NO_TIMESTAMP
        self._first_offset = 0
        self._last_offset = -1
        self._has_relative_offsets = (
            legacy_format.magic == 1 and legacy_format.codec is not Codec.NONE
        )
        self._buffer = bytearray()

    def append(self, record: Record) -> None:
        """Append a record; gaps between offsets are allowed, decreases are not."""
        if not self._last_offset < record.offset <= _INT64_MAX:
            raise EncodeError(f"offset {record.offset}: must be greater than {self._last_offset}")
        if not NO_TIMESTAMP <= record.timestamp <= _INT64_MAX:
            raise EncodeError(f"timestamp {record.timestamp}: must be -1 or greater, in 64 bits")
        if record.headers:
            raise EncodeError(f"headers: magic {self.format.magic} does not support headers")
        if self._has_relative_offsets and not self.count:
            self._first_offset = record.offset
        append_time = self.format.append_time_ms
        timestamp = record.timestamp if append_time is None else append_time
        _write_message(
            self._buffer,
            Record(record.offset - self._first_offset, timestamp, record.key, record.value),
            legacy_format=self.format,
            codec=Codec.NONE,
        )
        self.count += 1
        self._last_offset = record.offset
        self.max_timestamp = max(self.max_timestamp, timestamp)

    def build(self) -> bytearray:
        """Return one message per record, in a wrapper if compressed; empty without records."""
        if self.format.codec is Codec.NONE or not self.count:
            return self._buffer
        packed = compress(self.format.codec, self._buffer, level=self.format.level)
        if self.format.codec is Codec.LZ4 and self.format.magic == 0:
            packed = with_broken_checksum(packed)
        wrapper = bytearray()
        content = Record(self._last_offset, self.max_timestamp, None, packed)
        _write_message(wrapper, content, legacy_format=self.format, codec=self.format.codec)
        return wrapper


def _write_message(
    out: bytearray, record: Record, *, legacy_format: LegacyFormat, codec: Codec
) -> None:
    key, value = _encode_nullable("key", record.key), _encode_nullable("value", record.value)
    header = HEADER if legacy_format.magic == 0 else HEADER_WITH_TIMESTAMP
    length = header.size + len(key) + len(value) - LOG_OVERHEAD_BYTES
    start = len(out)
    if legacy_format.magic == 0:
        out += header.pack(record.offset, length, 0, 0, codec)
    else:
        flag = 0 if legacy_format.append_time_ms is None else LOG_APPEND_TIME_FLAG
        out += header.pack(record.offset, length, 0, 1, codec | flag, record.timestamp)
    out += key
    out += value
    with memoryview(out) as view:
        checksum = zlib.crc32(view[start + CHECKSUM_INPUT_POSITION :])
    _CHECKSUM.pack_into(out, start + CHECKSUM_POSITION, checksum)


def _encode_nullable(field: str, content: bytes | None) -> bytes:
    if content is None:
        return _NULL
    check_bytes(field, content)
    return _LENGTH.pack(len(content)) + content
