"""The records of a batch of magic 2 as compaction sees them: places and keys, no values.

Compaction asks of a record only its key, its offset and whether it has a value, and copies the rest
unread.  So records are walked over, not made; those that stay are copied as bytes, which works
because they count their offsets and timestamps from the header, where both bases stay.

Only when a delete horizon comes into the header, in the place of the base timestamp (KIP-534), are
the records written anew, each with another timestamp delta and, for its sake, another length.

Invariant: a walk never looks outside the body, and stops at the first contradiction.
Owner: none; any thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import NamedTuple

from odradek.protocol.errors import CorruptMessage, DecodeError
from odradek.protocol.records.batch import (
    ATTRIBUTES_POSITION,
    CHECKSUM_POSITION,
    DELETE_HORIZON_FLAG,
    HEADER,
    HEADER_BYTES,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    RecordBatch,
)
from odradek.protocol.records.compression import Codec, compress, decompress
from odradek.protocol.records.crc32c import crc32c
from odradek.protocol.varint import read_varint, read_varlong, varint, varlong

_CHECKSUM = Struct(">I")
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1


class WalkedRecord(NamedTuple):
    """Where a record lies in the body of its batch, and what compaction wants to know of it."""

    start: int
    end: int
    time_delta: int
    rest: int  # the position after the timestamp delta
    offset_delta: int
    key: bytes | None
    has_value: bool


def body_of(batch: RecordBatch) -> bytes:
    """The records, decompressed."""
    start = batch.position + HEADER_BYTES
    packed = memoryview(batch.buffer)[start : batch.position + batch.size_bytes]
    return decompress(batch.codec, packed)


# The bytes of short varints, looked up: see record.py.
_ONE = [byte >> 1 ^ -(byte & 1) for byte in range(128)]
_FIRST = [-(2**31) if byte & 1 else (byte & 127) >> 1 for byte in range(256)]
_SECOND = [byte << 6 for byte in range(128)]


def walk(body: bytes, *, count: int, last_delta: int) -> Iterator[WalkedRecord]:
    """The records that fill ``body``; headers are not looked at, nor are the bytes of values."""
    one, first, second, new = _ONE, _FIRST, _SECOND, tuple.__new__
    at, previous, size = 0, -1, len(body)
    try:
        for _ in range(count):
            # fmt: off
            start = at
            b = body[at]
            length, at = ((one[b], at + 1) if b < 128 else (first[b] + second[c], at + 2)
                          if (c := body[at + 1]) < 128 else read_varint(body, at))
            end = at + length
            at += 1  # the attributes
            b = body[at]
            time_delta, at = ((one[b], at + 1) if b < 128 else (first[b] + second[c], at + 2)
                              if (c := body[at + 1]) < 128 and not b & 1
                              else read_varlong(body, at))
            rest = at
            b = body[at]
            delta, at = ((one[b], at + 1) if b < 128 else (first[b] + second[c], at + 2)
                         if (c := body[at + 1]) < 128 else read_varint(body, at))
            b = body[at]
            k, at = ((one[b], at + 1) if b < 128 else (first[b] + second[c], at + 2)
                     if (c := body[at + 1]) < 128 else read_varint(body, at))
            key, at = (None, at) if k < 0 else (body[at : at + k], at + k)
            b = body[at]
            v, at = ((one[b], at + 1) if b < 128 else (first[b] + second[c], at + 2)
                     if (c := body[at + 1]) < 128 else read_varint(body, at))
            # fmt: on
            # After the value comes at least the count of headers.
            if k < -1 or v < -1 or not (at + v if v > 0 else at) < end <= size:
                raise DecodeError(f"{length} bytes, key {k}, value {v}, end at {end}")
            if not previous < delta <= last_delta:
                raise DecodeError(f"offset delta {delta} after {previous}, up to {last_delta}")
            yield new(WalkedRecord, (start, end, time_delta, rest, delta, key, v >= 0))
            previous, at = delta, end
    except (IndexError, DecodeError) as error:
        raise CorruptMessage(f"a record before byte {at} of {size}: {error}") from error
    if at != size:
        raise CorruptMessage(f"{size - at} bytes after the last record")


def with_records(
    batch: RecordBatch,
    body: bytes,
    kept: Sequence[WalkedRecord],
    *,
    max_timestamp: int,
    new_horizon_ms: int | None,
) -> bytearray:
    """``batch`` with these of its records only; a horizon is given if it had none and needs one."""
    attributes, base_timestamp = batch.attributes, batch.base_timestamp
    if new_horizon_ms is None:
        packed = b"".join([body[start:end] for start, end in _runs(kept)])
    else:
        packed = _shifted(body, kept, by=base_timestamp - new_horizon_ms)
        attributes, base_timestamp = attributes | DELETE_HORIZON_FLAG, new_horizon_ms
    if batch.codec is not Codec.NONE:
        packed = compress(batch.codec, packed)
    rewritten = bytearray(HEADER_BYTES) + packed
    HEADER.pack_into(
        rewritten,
        0,
        batch.base_offset,
        len(rewritten) - LOG_OVERHEAD_BYTES,
        batch.partition_leader_epoch,
        MAGIC,
        0,
        attributes,
        # The last sequence of the producer follows from it.
        batch.last_offset_delta,
        base_timestamp,
        max_timestamp,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        len(kept),
    )
    checksum = crc32c(memoryview(rewritten)[ATTRIBUTES_POSITION:])
    _CHECKSUM.pack_into(rewritten, CHECKSUM_POSITION, checksum)
    return rewritten


def largest_timestamp(batch: RecordBatch, kept: Sequence[WalkedRecord]) -> int:
    """Of these records of ``batch``."""
    if batch.attributes & LOG_APPEND_TIME_FLAG:
        return batch.max_timestamp
    largest = batch.base_timestamp + max(record.time_delta for record in kept)
    if not -1 <= largest <= _INT64_MAX:
        raise CorruptMessage(f"timestamp {largest} in {batch}")
    return largest


def _runs(kept: Sequence[WalkedRecord]) -> Iterator[tuple[int, int]]:
    """Start and end of each stretch of the body that stays."""
    run_start, run_end = kept[0].start, kept[0].end
    for record in kept[1:]:
        if record.start != run_end:
            yield run_start, run_end
            run_start = record.start
        run_end = record.end
    yield run_start, run_end


def _shifted(body: bytes, kept: Sequence[WalkedRecord], *, by: int) -> bytes:
    """The records with ``by`` added to their timestamp deltas."""
    parts: list[bytes] = []
    for record in kept:
        time_delta = record.time_delta + by
        if not _INT64_MIN <= time_delta <= _INT64_MAX:
            raise CorruptMessage(f"timestamp delta {time_delta}")
        # The attributes, which no record has, come first.
        content = b"\0" + varlong(time_delta) + body[record.rest : record.end]
        parts += (varint(len(content)), content)
    return b"".join(parts)
