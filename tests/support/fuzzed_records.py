"""Record sets to be damaged, what is done to them afterwards, and the ways to read them.

magic 2, <codec>         a batch; its checksum is put right again
records, <codec>         the records of a batch, compressed after the damage
magic 0 or 1, <codec>    messages or a wrapper; the outer checksums are put right again
inner 0 or 1, <codec>    the messages in a wrapper, compressed after the damage
all magics               one set, with the checksums that it had before
down to, rebuilt         conversions of one format into another
"""

import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from struct import pack_into, unpack_from

from odradek.protocol.errors import KafkaError
from odradek.protocol.records.batch import (
    ATTRIBUTES_POSITION,
    CHECKSUM_POSITION,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    MAGIC_POSITION,
)
from odradek.protocol.records.builder import BatchFields
from odradek.protocol.records.compression import Codec, compress
from odradek.protocol.records.control_records import (
    EndTransactionMarker,
    build_marker_batch,
    parse_end_transaction_marker,
)
from odradek.protocol.records.conversion import down_convert, rebuild_for_append
from odradek.protocol.records.crc32c import crc32c
from odradek.protocol.records.legacy_batch import CHECKSUM_POSITION as OLD_CHECKSUM_POSITION
from odradek.protocol.records.legacy_builder import LegacyFormat, build_legacy_set
from odradek.protocol.records.record import Header, Record
from odradek.protocol.records.record_set import batches_of_any_magic
from tests.support.batches import batch_around, batch_of
from tests.support.legacy_messages import FORMATS, wrapper

UNPACKED_BYTES_MAX = 64 * 1024

RECORDS = (
    Record(0, 1_000, b"key", b"value", (Header("h", b"1"), Header("", None))),
    Record(1, 1_005, None, b"x" * 200),
    Record(2, 999, b"", b""),
    Record(3, 1_010, b"k" * 70, None, (Header("é", b""),)),
)
WITHOUT_HEADERS = tuple(record._replace(headers=()) for record in RECORDS)


@dataclass(frozen=True, slots=True)
class DamagedRecords:
    frames: tuple[bytes, ...]  # sound, before the damage
    finish: Callable[[bytes], bytes]  # after it
    read: Callable[[bytes], None]


def read_set(buffer: bytes) -> None:
    for batch in batches_of_any_magic(buffer):
        batch.is_valid()
        for record in batch.records(max_bytes=UNPACKED_BYTES_MAX):
            if batch.is_control:
                parse_end_transaction_marker(record)


def convert_down(magic: int, buffer: bytes) -> None:
    # A conversion may also refuse what is sound, such as a codec that is too new.
    with suppress(KafkaError):
        parts = down_convert(buffer, magic=magic, first_offset=0, max_bytes=UNPACKED_BYTES_MAX)
        for _ in parts:
            continue


def rebuild(buffer: bytes) -> None:
    with suppress(KafkaError):
        batches = [batch for batch in batches_of_any_magic(buffer) if not batch.is_control]
        rebuild_for_append(batches, BatchFields(base_offset=7), max_bytes=UNPACKED_BYTES_MAX)


def compressed(codec: Codec, records: bytes) -> bytes:
    packed = compress(codec, records)
    return batch_around(packed, count=len(RECORDS), last_delta=len(RECORDS) - 1, codec=codec)


def wrapped(magic: int, codec: Codec, inner: bytes) -> bytes:
    return wrapper(magic, sealed(inner), codec=codec, offset=len(RECORDS) - 1)


def sealed(buffer: bytes) -> bytes:
    """With the right checksum in every batch, as far as their lengths make sense."""
    out, position = bytearray(buffer), 0
    while position + MAGIC_POSITION < len(out):
        length: int = unpack_from(">i", out, position + 8)[0]
        end = position + LOG_OVERHEAD_BYTES + length
        if not position + HEADER_BYTES // 3 < end <= len(out):
            break
        if out[position + MAGIC_POSITION] == MAGIC:
            if end - position >= HEADER_BYTES:
                checksum = crc32c(bytes(out[position + ATTRIBUTES_POSITION : end]))
                pack_into(">I", out, position + CHECKSUM_POSITION, checksum)
        else:
            checksum = zlib.crc32(out[position + MAGIC_POSITION : end])
            pack_into(">I", out, position + OLD_CHECKSUM_POSITION, checksum)
        position = end
    return bytes(out)


def _batches(codec: Codec) -> tuple[bytes, ...]:
    marker = EndTransactionMarker(is_commit=True, coordinator_epoch=5)
    return (
        bytes(batch_of(*RECORDS, codec=codec)),
        bytes(batch_of(*RECORDS, codec=codec, append_time_ms=2_000, producer_id=4,
                       producer_epoch=0, base_sequence=9)),
        bytes(build_marker_batch(marker, timestamp=1, producer_id=4, producer_epoch=0)),
    )  # fmt: skip


def _messages(magic: int, codec: Codec) -> tuple[bytes, ...]:
    return tuple(
        bytes(build_legacy_set(records, LegacyFormat(magic=magic, codec=codec)))
        for records in (WITHOUT_HEADERS, WITHOUT_HEADERS[:1])
    )


def _damaged_records() -> dict[str, DamagedRecords]:
    plain = (_batches(Codec.NONE)[0][HEADER_BYTES:],)
    found: dict[str, DamagedRecords] = {}
    for codec in Codec:
        found[f"magic 2, {codec.name}"] = DamagedRecords(_batches(codec), sealed, read_set)
        finish = partial(compressed, codec)
        found[f"records, {codec.name}"] = DamagedRecords(plain, finish, read_set)
    for magic, codec in FORMATS:
        outer = DamagedRecords(_messages(magic, codec), sealed, read_set)
        found[f"magic {magic}, {codec.name}"] = outer
        if codec is not Codec.NONE:
            finish = partial(wrapped, magic, codec)
            inner = DamagedRecords(_messages(magic, Codec.NONE), finish, read_set)
            found[f"inner {magic}, {codec.name}"] = inner
    sets = tuple(
        frame
        for kind in [*map(_batches, Codec), *(_messages(*form) for form in FORMATS)]
        for frame in kind
    )
    found["all magics"] = DamagedRecords((*sets, b"".join(sets)), bytes, read_set)
    found["down to 0"] = DamagedRecords(sets, sealed, partial(convert_down, 0))
    found["down to 1"] = DamagedRecords(sets, sealed, partial(convert_down, 1))
    found["rebuilt"] = DamagedRecords(sets, sealed, rebuild)
    return found


DAMAGED_RECORDS = _damaged_records()
