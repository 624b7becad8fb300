"""Record sets to be damaged, and the ways to read what became of them.

    magic 2, <codec>             a batch; its checksum is put right again
    records, <codec>             the records of a batch, compressed after the damage
    magic <0 or 1>, <codec>      messages or a wrapper; the outer checksums are put right again
    inner <0 or 1>, <codec>      the messages in a wrapper, compressed after the damage
    a set of all magics          with the checksums that it had
    conversion                   every way from one format to another
"""

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from struct import error as StructError
from struct import pack_into, unpack_from
from typing import Any

from odradek.protocol.errors import DecodeError, KafkaError
from odradek.protocol.records.batch import ATTRIBUTES_POSITION, CHECKSUM_POSITION, HEADER_BYTES
from odradek.protocol.records.builder import BatchFields
from odradek.protocol.records.compression import Codec, compress
from odradek.protocol.records.control import control_type_of, marker_of
from odradek.protocol.records.conversion import down_converted, rebuilt_for_append
from odradek.protocol.records.crc32c import crc32c
from odradek.protocol.records.legacy_builder import LegacyFormat, legacy_set
from odradek.protocol.records.record import Header, Record
from odradek.protocol.records.record_set import batches_of_any_magic
from tests.support.batches import batch_around, batch_of
from tests.support.legacy_messages import wrapper

UNPACKED_BYTES_MAX = 64 * 1024
OLD_CODECS = (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4)

RECORDS = (
    Record(0, 1_000, b"key", b"value", (Header("h", b"1"), Header("", None))),
    Record(1, 1_005, None, b"x" * 200),
    Record(2, 999, b"", b""),
    Record(3, 1_010, b"k" * 70, None, (Header("é", b""),)),
)
WITHOUT_HEADERS = tuple(record._replace(headers=()) for record in RECORDS)


@dataclass(frozen=True, slots=True)
class RecordReader:
    """``frames`` makes sound ones; ``read`` takes a damaged one."""

    frames: Callable[[], list[bytes]]
    read: Callable[[bytes], Any]
    unpacked_bytes_max: int = UNPACKED_BYTES_MAX


def read_set(buffer: bytes) -> None:
    for batch in batches_of_any_magic(buffer):
        batch.is_valid()
        for record in batch.records(max_bytes=UNPACKED_BYTES_MAX):
            if batch.is_control:
                control_type_of(record)
                marker_of(record)


def convert_set(buffer: bytes) -> None:
    for magic in (0, 1):
        try:
            for _ in down_converted(
                buffer, magic=magic, first_offset=0, max_bytes=UNPACKED_BYTES_MAX
            ):
                pass
        except KafkaError as refusal:
            _translate(refusal)
    batches = [batch for batch in batches_of_any_magic(buffer) if not batch.is_control]
    try:
        rebuilt_for_append(batches, BatchFields(base_offset=7), max_bytes=UNPACKED_BYTES_MAX)
    except KafkaError as refusal:
        _translate(refusal)


def _translate(refusal: KafkaError) -> None:
    """A conversion may also refuse what is sound, such as a codec that is too new."""
    if not isinstance(refusal, DecodeError):
        raise DecodeError(str(refusal)) from refusal


def sealed(buffer: bytes) -> bytes:
    """With the right checksum in every batch that can be told, as far as the lengths make sense."""
    sealed_buffer, position = bytearray(buffer), 0
    while position + HEADER_BYTES <= len(buffer):
        end = position + 12 + unpack_from(">i", buffer, position + 8)[0]
        if not position + 14 < end <= len(buffer):
            break
        _seal(sealed_buffer, position, end)
        position = end
    return bytes(sealed_buffer)


def _seal(buffer: bytearray, position: int, end: int) -> None:
    if buffer[position + 16] == 2:
        checksum = crc32c(bytes(buffer[position + ATTRIBUTES_POSITION : end]))
        pack_into(">I", buffer, position + CHECKSUM_POSITION, checksum)
    else:
        pack_into(">I", buffer, position + 12, zlib.crc32(buffer[position + 16 : end]))
