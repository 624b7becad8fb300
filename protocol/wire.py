"""Functions that the generated code calls for uncommon cases: long lengths, tags, errors.

The common case, such as a length that fits one byte, is inline in the generated functions.

Invariant: a length or count is compared with the remaining bytes before anything is allocated.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from struct import Struct
from typing import Any, NoReturn

from odradek.protocol.buffers import check_bytes
from odradek.protocol.errors import DecodeError, EncodeError
from odradek.protocol.file_region import FileRegion
from odradek.protocol.varint import unsigned_varint

Buffer = Any  # bytes or memoryview; indexing both gives ints, slicing both is bounded

#: The longest string, in bytes: the maximum of the original int16 length. Compact lengths keep it.
STRING_BYTES_MAX = 0x7FFF
#: More array elements, or more tags in one struct, are rejected regardless of the frame's size.
ARRAY_COUNT_MAX = 1_000_000
TAG_COUNT_MAX = 10_000

TAG_MAX = 0x7FFFFFFF
#: The types that a field of record data accepts, besides a memoryview.
RECORD_TYPES = frozenset({bytes, bytearray, FileRegion, type(None)})
#: A lookup raises for anything but a boolean or a number equal to one.
AS_BIT = {False: 0, True: 1}

#: Unsigned integers of one byte; also the unsigned varints of one byte.
SINGLE_BYTES = tuple(bytes([number]) for number in range(256))

#: The exceptions that reading malformed bytes can raise.
DECODE_FAILURES = (struct.error, IndexError, UnicodeDecodeError, DecodeError)

#: The maximum number of cached functions; it is bounded because a peer chooses the counts.
CACHED_FUNCTIONS_MAX = 256


class Unpackers(dict[int, Callable[..., tuple[Any, ...]]]):
    """For each count, the function that unpacks that many numbers of one type."""

    def __init__(self, code: str) -> None:
        self.code = code

    def __missing__(self, count: int) -> Callable[..., tuple[Any, ...]]:
        unpack = Struct(f">{count}{self.code}").unpack_from
        if len(self) < CACHED_FUNCTIONS_MAX:
            self[count] = unpack
        return unpack


class Packers(dict[Any, Callable[..., bytes]]):
    """For each count of elements, or tuple of counts, the function that packs the whole run.

    ``layout`` has a ``{}`` for each count: ``hiB{}iB{}i``.
    """

    def __init__(self, layout: str) -> None:
        self.layout = layout

    def __missing__(self, counts: Any) -> Callable[..., bytes]:
        numbers = counts if isinstance(counts, tuple) else (counts,)
        pack = Struct(">" + self.layout.format(*numbers)).pack
        if len(self) < CACHED_FUNCTIONS_MAX:
            self[counts] = pack
        return pack


def rest_of_uvarint(buffer: Buffer, position: int, first: int) -> tuple[int, int]:
    """Return the varint whose first byte, at least 128, has been read, and the next position."""
    value = first & 0x7F
    for shift in (7, 14, 21, 28):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
    else:
        raise DecodeError("a varint has more than five bytes")
    if value > 0x7FFFFFFF:
        raise DecodeError(f"a length of {value} exceeds 32 bits")
    return value, position


def rest_of_string_length(buffer: Buffer, position: int, first: int) -> tuple[int, int]:
    """Like ``rest_of_uvarint``, for a string's length plus one."""
    value, position = rest_of_uvarint(buffer, position, first)
    if value > STRING_BYTES_MAX + 1:
        raise DecodeError(f"a string of {value - 1} bytes exceeds {STRING_BYTES_MAX}")
    return value, position


def rest_of_long_length(buffer: Buffer, position: int, value: int) -> tuple[int, int]:
    """Like ``rest_of_uvarint``, after three bytes; ``value`` still has the third byte's top bit."""
    for shift in (21, 28):
        byte = buffer[position]
        position += 1
        value += (byte - 1) << shift  # subtracts the top bit of the previous byte
        if byte < 0x80:
            break
    else:
        raise DecodeError("a varint has more than five bytes")
    if value > 0x7FFFFFFF:
        raise DecodeError(f"a length of {value} exceeds 32 bits")
    return value, position


def encode_string_length(length_plus_one: int) -> bytes:
    if length_plus_one > STRING_BYTES_MAX + 1:
        raise ValueError(f"{length_plus_one - 1} bytes exceed {STRING_BYTES_MAX}")
    return unsigned_varint(length_plus_one)


def read_tag_count(buffer: Buffer, position: int, first: int) -> tuple[int, int]:
    """Return the number of tagged fields, whose first byte has been read, and the next position."""
    count = first
    if count > 0x7F:
        count, position = rest_of_uvarint(buffer, position, first)
    if count > TAG_COUNT_MAX:
        raise DecodeError(f"{count} tagged fields exceed {TAG_COUNT_MAX}")
    # The smallest tagged field is its tag and a zero length.
    if count * 2 > len(buffer) - position:
        raise DecodeError(f"{count} tagged fields in {len(buffer) - position} bytes")
    return count, position


def read_tag(buffer: Buffer, position: int) -> tuple[int, int, int]:
    """Return a tag, the position of its value and the position after the value."""
    tag, position = buffer[position], position + 1
    if tag > 0x7F:
        tag, position = rest_of_uvarint(buffer, position, tag)
    length, position = buffer[position], position + 1
    if length > 0x7F:
        length, position = rest_of_uvarint(buffer, position, length)
    stop = position + length
    if stop > len(buffer):
        raise DecodeError(f"tag {tag}: {length} bytes claimed, {len(buffer) - position} remain")
    return tag, position, stop


def read_unknown_tags(
    buffer: Buffer, position: int, first: int
) -> tuple[tuple[tuple[int, bytes], ...], int]:
    """Return the tagged fields of a struct that declares none in this version."""
    count, position = read_tag_count(buffer, position, first)
    tags = []
    for _ in range(count):
        tag, position, stop = read_tag(buffer, position)
        tags.append((tag, bytes(buffer[position:stop])))
        position = stop
    return tuple(tags), position


def tag_section(fields: list[tuple[int, bytes]]) -> bytes:
    """Return the tag section at the end of a struct: ascending tags, each with length and value."""
    fields.sort(key=lambda field: field[0])
    parts = [unsigned_varint(len(fields))]
    previous = -1
    for tag, value in fields:
        if tag == previous or not 0 <= tag <= TAG_MAX:
            raise EncodeError(f"tag {tag} is given twice or out of range")
        previous = tag
        check_bytes(f"tag {tag}", value)
        parts += (unsigned_varint(tag), unsigned_varint(len(value)), value)
    return b"".join(parts)


def check_count(field: str, count: int, element_bytes_min: int, remaining: int) -> None:
    if count > ARRAY_COUNT_MAX:
        raise DecodeError(f"{field}: {count} elements exceed {ARRAY_COUNT_MAX}")
    if count < 0 or count * element_bytes_min > remaining:
        raise_invalid_length(field, count, remaining)


def raise_malformed_frame(title: str, error: Exception) -> NoReturn:
    raise DecodeError(f"{title}: {error}") from error


def raise_trailing_bytes(title: str, trailing_bytes: int) -> NoReturn:
    raise DecodeError(f"{title}: {trailing_bytes} bytes left over")


def raise_invalid_length(field: str, length: int, remaining: int) -> NoReturn:
    if length == -1:
        raise DecodeError(f"{field}: null, but must have a value")
    if length < 0:
        raise DecodeError(f"{field}: negative length {length}")
    raise DecodeError(f"{field}: {length} claimed, but only {remaining} bytes remain")


def raise_tag_size_mismatch(field: str, declared_bytes: int, read_bytes: int) -> NoReturn:
    raise DecodeError(f"{field}: declared size {declared_bytes} bytes, but read {read_bytes} bytes")


def copy_unknown_tags(
    unknown: tuple[tuple[int, bytes], ...], declared: set[int]
) -> list[tuple[int, bytes]]:
    """Copy a struct's unknown tags; raises EncodeError if this version declares one of them."""
    for tag, _ in unknown:
        if tag in declared:
            raise EncodeError(f"unknown_tags: tag {tag} is declared in this version")
    return list(unknown)


def raise_wrong_type(field: str) -> NoReturn:
    raise EncodeError(f"{field}: wrong type of value")


def raise_unsupported_field(field: str, version: int) -> NoReturn:
    raise EncodeError(f"{field}: version {version} cannot carry it, and it is not at its default")
