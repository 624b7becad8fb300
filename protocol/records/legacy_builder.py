"""New messages of magic 0 and 1, for old consumers, for logs kept in an old format, and for tests.

Uncompressed, they have the very bytes that Kafka makes of the same records.

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
from odradek.protocol.records.legacy import (
    CHECKED_FROM_POSITION,
    CHECKSUM_POSITION,
    HEADER,
    HEADER_WITH_TIMESTAMP,
)
from odradek.protocol.records.legacy_lz4 import with_old_checksum
from odradek.protocol.records.record import NO_TIMESTAMP, Record

_CHECKSUM = Struct(">I")
_LENGTH = Struct(">i")
_NULL = _LENGTH.pack(-1)
_INT64_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyFormat:
    """What a set of old messages shall be like."""

    magic: int
    codec: Codec = Codec.NONE
    level: int | None = None  # None is the codec's default
    append_time_ms: int | None = None  # None: each record has the time of its creation


def legacy_set(records: Iterable[Record], form: LegacyFormat) -> bytearray:
    builder = LegacyBuilder(form)
    for record in records:
        builder.append(record)
    return builder.build()


class LegacyBuilder:
    """Takes records one by one, in the order of their offsets, and makes a set of them."""

    def __init__(self, form: LegacyFormat) -> None:
        assert form.magic in (0, 1), form.magic
        if form.codec is Codec.ZSTD:
            raise UnsupportedCompressionType(f"magic {form.magic} is older than zstd")
        check_level(form.codec, form.level)
        self.form = form
        self.count = 0
        self.max_timestamp = NO_TIMESTAMP
        self._first_offset = 0
        self._last_offset = -1
        self._has_relative_offsets = form.magic == 1 and form.codec is not Codec.NONE
        self._buffer = bytearray()

    def append(self, record: Record) -> None:
        """Gaps between offsets are allowed, steps back are not."""
        if not self._last_offset < record.offset <= _INT64_MAX:
            raise EncodeError(f"offset {record.offset} after {self._last_offset}")
        if not NO_TIMESTAMP <= record.timestamp <= _INT64_MAX:
            raise EncodeError(f"timestamp {record.timestamp}")
        if record.headers:
            raise EncodeError(f"headers: magic {self.form.magic} has none")
        if self._has_relative_offsets and not self.count:
            self._first_offset = record.offset
        append_time = self.form.append_time_ms
        timestamp = record.timestamp if append_time is None else append_time
        _write_message(
            self._buffer,
            Record(record.offset - self._first_offset, timestamp, record.key, record.value),
            form=self.form,
            codec=Codec.NONE,
        )
        self.count += 1
        self._last_offset = record.offset
        self.max_timestamp = max(self.max_timestamp, timestamp)

    def build(self) -> bytearray:
        """A message for each record, in one wrapper if there is a codec; empty without records."""
        if self.form.codec is Codec.NONE or not self.count:
            return self._buffer
        packed = compress(self.form.codec, self._buffer, level=self.form.level)
        if self.form.codec is Codec.LZ4 and self.form.magic == 0:
            packed = with_old_checksum(packed)
        wrapper = bytearray()
        content = Record(self._last_offset, self.max_timestamp, None, packed)
        _write_message(wrapper, content, form=self.form, codec=self.form.codec)
        return wrapper


def _write_message(out: bytearray, record: Record, *, form: LegacyFormat, codec: Codec) -> None:
    key, value = _nullable("key", record.key), _nullable("value", record.value)
    header = HEADER if form.magic == 0 else HEADER_WITH_TIMESTAMP
    length = header.size + len(key) + len(value) - LOG_OVERHEAD_BYTES
    start = len(out)
    if form.magic == 0:
        out += header.pack(record.offset, length, 0, 0, codec)
    else:
        flag = 0 if form.append_time_ms is None else LOG_APPEND_TIME_FLAG
        out += header.pack(record.offset, length, 0, 1, codec | flag, record.timestamp)
    out += key
    out += value
    with memoryview(out) as view:
        checksum = zlib.crc32(view[start + CHECKED_FROM_POSITION :])
    _CHECKSUM.pack_into(out, start + CHECKSUM_POSITION, checksum)


def _nullable(field: str, content: bytes | None) -> bytes:
    if content is None:
        return _NULL
    check_bytes(field, content)
    return _LENGTH.pack(len(content)) + content
