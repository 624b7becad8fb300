"""The records of a magic 2 batch as the cleaner needs them: positions and keys, no values.

The cleaner needs only the key of a record, its offset and whether it has a value. So this module
parses positions instead of building record objects. A retained record is copied as bytes. That is
correct because record offsets and timestamps are relative to the batch header, and compaction keeps
both base values.

The exception is a new delete horizon, which replaces the base timestamp in the header (KIP-534).
Then every record is rewritten with a new timestamp delta, and therefore with a new length.

Invariant: parsing never reads outside the body, and stops at the first inconsistency.
Owner: none; any thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
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


class BatchRecords(NamedTuple):
    """The records of a batch as parallel lists. A slot is an index into these lists."""

    body: bytes
    starts: list[int]  # positions in the body, plus the end position of the last record
    offset_deltas: list[int]  # from the base offset
    keys: list[bytes | None]
    tombstones: set[int]  # slots of the records without a value


def parse_records(batch: RecordBatch) -> BatchRecords:
    """Decompress the batch and parse its records. Values and headers are not parsed."""
    start = batch.position + HEADER_BYTES
    packed = memoryview(batch.buffer)[start : batch.position + batch.size_bytes]
    records = BatchRecords(decompress(batch.codec, packed), [0], [], [], set())
    body, starts, *_ = records
    with suppress(IndexError):
        _parse_short_records(records, count=batch.count, last_delta=batch.last_offset_delta)
    try:
        _parse_remaining_records(records, count=batch.count, last_delta=batch.last_offset_delta)
    except (IndexError, DecodeError) as error:
        raise CorruptMessage(
            f"invalid record at byte {starts[-1]} of {len(body)}: {error}"
        ) from error
    if starts[-1] != len(body):
        raise CorruptMessage(f"{len(body) - starts[-1]} bytes after the last record")
    return records


# Lookup tables for varints of one or two bytes, as in record.py: the value of a single byte, and
# the contributions of the two bytes of a longer one.  A negative number, or one of more than two
# bytes, gives a value so large or so small that the range checks reject it.
_ONE_BYTE_VALUE = [byte >> 1 ^ -(byte & 1) for byte in range(128)]
_FIRST_BYTE_VALUE = [-(2**31) if byte & 1 else (byte & 127) >> 1 for byte in range(256)]
_SECOND_BYTE_VALUE = [byte << 6 for byte in range(128)] + [2**40] * 128
_VARINT_WIDTH = [1] * 128 + [2] * 128
_NULL_LENGTH = 1  # the length -1


def _parse_short_records(records: BatchRecords, *, count: int, last_delta: int) -> None:
    """Parse up to the first record that needs the general parser.

    This takes a quarter of the time of ``_parse_remaining_records``.
    """
    body, starts, deltas, keys, tombstones = records
    one, first, second, width = (
        _ONE_BYTE_VALUE,
        _FIRST_BYTE_VALUE,
        _SECOND_BYTE_VALUE,
        _VARINT_WIDTH,
    )
    start, previous, size = 0, -1, len(body)
    for slot in range(count):
        b = body[start]
        at = start + width[b]
        end = at + (one[b] if b < 128 else first[b] + second[body[start + 1]])
        at += 1  # the attributes
        while body[at] > 127:  # skip the timestamp delta, of any length
            at += 1
        at += 1
        b = body[at]
        delta = one[b] if b < 128 else first[b] + second[body[at + 1]]
        at += width[b]
        b = body[at]
        k = one[b] if b < 128 else first[b] + second[body[at + 1]]
        at += width[b]
        key_end = at + k if k > 0 else at
        # The length of the value is followed by at least the count of headers.
        if not (k > -2 and key_end + 1 < end <= size and previous < delta <= last_delta):
            return
        b = body[key_end]
        if b & 1:
            if b != _NULL_LENGTH:
                return
            tombstones.add(slot)
        keys.append(body[at:key_end] if k >= 0 else None)
        deltas.append(delta)
        starts.append(end)
        previous, start = delta, end


def _parse_remaining_records(records: BatchRecords, *, count: int, last_delta: int) -> None:
    """Parse the records that ``_parse_short_records`` has left."""
    body, starts, deltas, keys, tombstones = records
    for slot in range(len(keys), count):
        length, at = read_varint(body, starts[-1])
        end = at + length
        _, at = read_varlong(body, at + 1)
        delta, at = read_varint(body, at)
        k, at = read_varint(body, at)
        key, at = (None, at) if k < 0 else (body[at : at + k], at + k)
        v, at = read_varint(body, at)
        if k < -1 or v < -1 or not at < end <= len(body):
            raise DecodeError(f"{length} bytes, key {k}, value {v}")
        previous = deltas[-1] if deltas else -1
        if not previous < delta <= last_delta:
            raise DecodeError(f"offset delta {delta} after {previous}, up to {last_delta}")
        if v < 0:
            tombstones.add(slot)
        keys.append(key)
        deltas.append(delta)
        starts.append(end)


def max_timestamp_of(batch: RecordBatch, records: BatchRecords, slots: Sequence[int]) -> int:
    if batch.attributes & LOG_APPEND_TIME_FLAG:
        return batch.max_timestamp
    largest = batch.base_timestamp + max(
        time_delta for time_delta, _ in _timestamp_deltas(records, slots)
    )
    if not -1 <= largest <= _INT64_MAX:
        raise CorruptMessage(f"invalid max timestamp {largest}")
    return largest


def rewrite_batch(
    batch: RecordBatch,
    records: BatchRecords,
    slots: Sequence[int],
    *,
    max_timestamp: int,
    new_delete_horizon_ms: int | None,
) -> bytearray:
    """Return ``batch`` with only the records in ``slots``.

    ``new_delete_horizon_ms`` is set if the batch has no delete horizon yet and needs one.
    """
    attributes, base_timestamp = batch.attributes, batch.base_timestamp
    if new_delete_horizon_ms is None:
        packed = _join_records(records, slots)
    else:
        packed = _shift_timestamp_deltas(
            records, slots, shift_ms=base_timestamp - new_delete_horizon_ms
        )
        attributes, base_timestamp = attributes | DELETE_HORIZON_FLAG, new_delete_horizon_ms
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
        # Unchanged, because the producer's last sequence is computed from it.
        batch.last_offset_delta,
        base_timestamp,
        max_timestamp,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        len(slots),
    )
    checksum = crc32c(memoryview(rewritten)[ATTRIBUTES_POSITION:])
    _CHECKSUM.pack_into(rewritten, CHECKSUM_POSITION, checksum)
    return rewritten


def _join_records(records: BatchRecords, slots: Sequence[int]) -> bytes:
    body, starts = records.body, records.starts
    return b"".join([body[starts[slot] : starts[slot + 1]] for slot in slots])


def _shift_timestamp_deltas(records: BatchRecords, slots: Sequence[int], *, shift_ms: int) -> bytes:
    """Join the records with ``shift_ms`` added to their timestamp deltas."""
    parts: list[bytes] = []
    deltas = _timestamp_deltas(records, slots)
    for slot, (time_delta, rest) in zip(slots, deltas, strict=True):
        shifted = time_delta + shift_ms
        if not _INT64_MIN <= shifted <= _INT64_MAX:
            raise CorruptMessage(f"timestamp delta {shifted} does not fit 64 bits")
        # The attributes come first; they are 0 in every record.
        content = b"\0" + varlong(shifted) + records.body[rest : records.starts[slot + 1]]
        parts += (varint(len(content)), content)
    return b"".join(parts)


def _timestamp_deltas(records: BatchRecords, slots: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield for each record its timestamp delta and the position after that delta."""
    body, starts, one = records.body, records.starts, _ONE_BYTE_VALUE
    for slot in slots:
        at = starts[slot]
        while body[at] > 127:  # skip the length
            at += 1
        at += 2
        b = body[at]
        yield (one[b], at + 1) if b < 128 else read_varlong(body, at)
