"""A record inside a batch of magic 2, with its reader and writer. Kafka: DefaultRecord.

    length           varint    bytes after this field
    attributes       int8      unused
    timestamp delta  varlong   from the batch's base timestamp
    offset delta     varint    from the batch's base offset
    key length       varint    -1 for null
    key
    value length     varint    -1 for null
    value
    header count     varint
    headers                    each: key length varint, key in UTF-8, value length varint, value

All varints are zig-zag.  Header keys that are not UTF-8, which Kafka accepts, are decoded with
surrogate escapes, and are therefore encoded again unchanged.

Invariant: reading never goes beyond the given bytes, and stops at the first inconsistency.
Owner: none; immutable, any thread.
"""

from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple

from odradek.protocol.buffers import check_bytes, short_repr
from odradek.protocol.errors import CorruptMessage, DecodeError, EncodeError
from odradek.protocol.varint import Buffer, read_varint, read_varlong, size_of_varlong, varlong

NO_TIMESTAMP = -1

_RECORD_BYTES_MIN = 7  # a length, attributes, two deltas, two lengths and a count of a byte each
_HEADER_BYTES_MIN = 2
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1


class TimestampType(IntEnum):
    """The clock of a record's timestamp: the producer's or the broker's."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


# Named tuples, because creating a frozen dataclass takes three times as long.
class Header(NamedTuple):
    key: str
    value: bytes | None


class Record(NamedTuple):
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


class BatchContext(NamedTuple):
    """The header fields of a batch that are needed to read its records."""

    record_count: int
    base_offset: int
    last_offset_delta: int
    base_timestamp: int
    append_time: int | None  # the timestamp of all records, if the batch has LogAppendTime


def read_records(source: bytes, context: BatchContext) -> Iterator[Record]:
    """Iterate over the records, which must fill ``source``.

    Their offset deltas ascend from 0 to the last one, with gaps where compaction removed records.
    """
    if not 0 <= context.record_count * _RECORD_BYTES_MIN <= len(source):
        raise CorruptMessage(f"{context.record_count} records in {len(source)} bytes")
    return _iter_records(source, context)


# Lookup tables for short varints; a lookup takes half the time of a call. The first table has the
# values of one byte. The others have the contributions of the first and the second of two bytes, if
# the value is positive. A length or an offset delta is never negative, except -1 for null, so a
# negative two-byte value gets a large negative contribution and is rejected.
_ONE_BYTE_VALUES = [byte >> 1 ^ -(byte & 1) for byte in range(128)]
_FIRST_BYTE_VALUES = [-(2**31) if byte & 1 else (byte & 127) >> 1 for byte in range(256)]
_SECOND_BYTE_VALUES = [byte << 6 for byte in range(128)]


def _iter_records(source: bytes, context: BatchContext) -> Iterator[Record]:
    count, base_offset, last_delta, base_timestamp, append_time = context
    one, first, second, new = (
        _ONE_BYTE_VALUES,
        _FIRST_BYTE_VALUES,
        _SECOND_BYTE_VALUES,
        tuple.__new__,
    )
    at, previous = 0, -1
    try:
        for _ in range(count):
            # fmt: off
            b = source[at]
            length, at = ((one[b], at + 1) if b < 128 else (first[b] + second[c], at + 2)
                          if (c := source[at + 1]) < 128 else read_varint(source, at))
            end = at + length
            at += 1  # the attributes
            b = source[at]
            time_delta, at = ((one[b], at + 1) if b < 128 else (first[b] + second[c], at + 2)
                              if (c := source[at + 1]) < 128 and not b & 1
                              else read_varlong(source, at))
            b = source[at]
            delta, at = ((one[b], at + 1) if b < 128 else (first[b] + second[c], at + 2)
                         if (c := source[at + 1]) < 128 else read_varint(source, at))
            b = source[at]
            k, at = ((one[b], at + 1) if b < 128 else (first[b] + second[c], at + 2)
                     if (c := source[at + 1]) < 128 else read_varint(source, at))
            key, at = (None, at) if k < 0 else (source[at : at + k], at + k)
            b = source[at]
            v, at = ((one[b], at + 1) if b < 128 else (first[b] + second[c], at + 2)
                     if (c := source[at + 1]) < 128 else read_varint(source, at))
            value, at = (None, at) if v < 0 else (source[at : at + v], at + v)
            headers, at = _read_headers(source, at) if source[at] else ((), at + 1)
            # fmt: on
            timestamp = base_timestamp + time_delta if append_time is None else append_time
            if at != end or k < -1 or v < -1:
                raise DecodeError(f"{length} bytes, key {k}, value {v}, end at {at}")
            if not previous < delta <= last_delta:
                raise DecodeError(f"offset delta {delta} after {previous}, up to {last_delta}")
            if not _INT64_MIN <= timestamp <= _INT64_MAX:
                raise DecodeError(f"timestamp {timestamp}")
            yield new(Record, (base_offset + delta, timestamp, key, value, headers))
            previous = delta
    except (IndexError, DecodeError) as error:
        raise CorruptMessage(f"a record before byte {at} of {len(source)}: {error}") from error
    if at != len(source):
        raise CorruptMessage(f"{len(source) - at} bytes after the last record")


def _read_headers(source: bytes, position: int) -> tuple[tuple[Header, ...], int]:
    """Read the headers whose count is at ``position``; returns them and the position after them."""
    one, new = _ONE_BYTE_VALUES, tuple.__new__
    count, position = read_varint(source, position)
    if not 0 <= count * _HEADER_BYTES_MIN <= len(source) - position:
        raise DecodeError(f"{count} headers in {len(source) - position} bytes")
    headers = []
    for _ in range(count):
        b = source[position]
        k, position = (one[b], position + 1) if b < 128 else read_varint(source, position)
        key = str(source[position : position + k], "utf-8", "surrogateescape")
        position += k
        b = source[position]
        v, position = (one[b], position + 1) if b < 128 else read_varint(source, position)
        value, position = (
            (None, position) if v < 0 else (source[position : position + v], position + v)
        )
        if k < 0 or v < -1:
            raise DecodeError(f"a header with key length {k} and value length {v}")
        headers.append(new(Header, (key, value)))
    if position > len(source):  # a slice beyond the end does not raise
        raise DecodeError(f"a header ends at {position}, beyond the end")
    return tuple(headers), position


class _VarintCache(dict[int, bytes]):
    """The encoded bytes of each number; small numbers are cached, because they recur."""

    def __missing__(self, value: int) -> bytes:
        encoded = varlong(value)
        if -64 <= value < 8192:
            self[value] = encoded
        return encoded


_VARINT_BYTES = _VarintCache()
_NULL = varlong(-1)


def write_record(
    out: bytearray,
    *,
    timestamp_delta: int,
    offset_delta: int,
    key: Buffer | None,
    value: Buffer | None,
    headers: Sequence[Header],
) -> None:
    """Append a record to ``out``."""
    if key is None:
        key_length, key = _NULL, b""
    else:
        if key.__class__ is not bytes:
            check_bytes("key", key)
        key_length = _VARINT_BYTES[len(key)]
    if value is None:
        value_length, value = _NULL, b""
    else:
        if value.__class__ is not bytes:
            check_bytes("value", value)
        value_length = _VARINT_BYTES[len(value)]
    body = b"".join(
        (
            b"\0",
            _VARINT_BYTES[timestamp_delta],
            _VARINT_BYTES[offset_delta],
            key_length,
            key,
            value_length,
            value,
            _encode_headers(headers) if headers else b"\0",
        )
    )
    out += _VARINT_BYTES[len(body)]
    out += body


def _encode_headers(headers: Sequence[Header]) -> bytes:
    parts: list[Buffer] = [_VARINT_BYTES[len(headers)]]
    for key, value in headers:
        name = _encode_header_key(key)
        if value.__class__ is not bytes and value is not None:
            check_bytes(f"headers: value of {key!r}", value)
        parts += (_VARINT_BYTES[len(name)], name)
        parts += (_NULL,) if value is None else (_VARINT_BYTES[len(value)], value)
    return b"".join(parts)


def _encode_header_key(key: str) -> bytes:
    try:
        return key.encode("utf-8", "surrogateescape")
    except (AttributeError, UnicodeEncodeError) as error:
        raise EncodeError(f"headers: key {short_repr(key)} is not valid text") from error


def size_of_record(
    *,
    timestamp_delta: int,
    offset_delta: int,
    key: Buffer | None,
    value: Buffer | None,
    headers: Sequence[Header],
) -> int:
    """Return the number of bytes that ``write_record`` would append."""
    size = 1 + size_of_varlong(timestamp_delta) + size_of_varlong(offset_delta)
    size += _size_of_nullable(key) + _size_of_nullable(value) + size_of_varlong(len(headers))
    for name, content in headers:
        size += _size_of_nullable(_encode_header_key(name))
        size += _size_of_nullable(content)
    return size_of_varlong(size) + size


def _size_of_nullable(content: Buffer | None) -> int:
    return 1 if content is None else size_of_varlong(len(content)) + len(content)
