"""A plain decoder of segment files, written directly from the description of the format."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from crc32c import crc32c

from odradek.protocol.records.compression import Codec, decompress

#: Offset, timestamp, key and value.
Row = tuple[int, int, bytes | None, bytes | None]


def decode_segment(log: bytes) -> Iterator[Row]:
    position = 0
    while position < len(log):
        base_offset, length = struct.unpack_from(">qi", log, position)
        end = position + 12 + length
        (checksum, attributes) = struct.unpack_from(">Ih", log, position + 17)
        if crc32c(log[position + 21 : end]) != checksum:
            raise ValueError(f"CRC mismatch at position {position}")
        (base_timestamp,) = struct.unpack_from(">q", log, position + 27)
        (count,) = struct.unpack_from(">i", log, position + 57)
        records = decompress(Codec(attributes & 7), log[position + 61 : end])
        record_position = 0
        for _ in range(count):
            _, record_position = _read_varint(records, record_position)
            timestamp_delta, record_position = _read_varint(records, record_position + 1)
            offset_delta, record_position = _read_varint(records, record_position)
            key, record_position = _read_nullable(records, record_position)
            value, record_position = _read_nullable(records, record_position)
            header_count, record_position = _read_varint(records, record_position)
            for _ in range(header_count):
                _, record_position = _read_nullable(records, record_position)
                _, record_position = _read_nullable(records, record_position)
            yield base_offset + offset_delta, base_timestamp + timestamp_delta, key, value
        position = end


def _read_nullable(source: bytes, position: int) -> tuple[bytes | None, int]:
    length, position = _read_varint(source, position)
    if length < 0:
        return None, position
    return source[position : position + length], position + length


def _read_varint(source: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = source[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
        shift += 7
