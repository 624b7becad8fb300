"""A decoder of segment files, as one writes it down from the description of the format."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from crc32c import crc32c

from odradek.protocol.records.compression import Codec, decompress

#: Offset, timestamp, key and value.
Row = tuple[int, int, bytes | None, bytes | None]


def straightforward(log: bytes) -> Iterator[Row]:
    position = 0
    while position < len(log):
        base_offset, length = struct.unpack_from(">qi", log, position)
        end = position + 12 + length
        (checksum, attributes) = struct.unpack_from(">Ih", log, position + 17)
        if crc32c(log[position + 21 : end]) != checksum:
            raise ValueError(f"damage at {position}")
        (base_timestamp,) = struct.unpack_from(">q", log, position + 27)
        (count,) = struct.unpack_from(">i", log, position + 57)
        records = decompress(Codec(attributes & 7), log[position + 61 : end])
        at = 0
        for _ in range(count):
            _, at = _varint(records, at)
            timestamp_delta, at = _varint(records, at + 1)
            offset_delta, at = _varint(records, at)
            key, at = _content(records, at)
            value, at = _content(records, at)
            header_count, at = _varint(records, at)
            for _ in range(header_count):
                _, at = _content(records, at)
                _, at = _content(records, at)
            yield base_offset + offset_delta, base_timestamp + timestamp_delta, key, value
        position = end


def _content(source: bytes, at: int) -> tuple[bytes | None, int]:
    length, at = _varint(source, at)
    if length < 0:
        return None, at
    return source[at : at + length], at + length


def _varint(source: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = source[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
