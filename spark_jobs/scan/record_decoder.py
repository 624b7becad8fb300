"""From a group of batches to a record batch of Arrow, with as many rows as there are records.

Only what the columns need is read: if the headers of batches have it all, nothing is unpacked; if
nobody wants values, they are not looked at.  A batch that cannot be read, though its checksum is
right, becomes a flaw, and the others are read without it.

Owner: none; any thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from odradek.protocol.errors import CorruptMessage
from odradek.protocol.records.batch import HEADER_BYTES, LOG_APPEND_TIME_FLAG
from odradek.protocol.records.compression import Codec, codec_of, decompress
from odradek.spark_jobs.scan.batch_group import BatchGroup
from odradek.spark_jobs.scan.boundaries import Areas, boundaries
from odradek.spark_jobs.scan.columns import DEPTHS, record_schema
from odradek.spark_jobs.scan.fields import Depth, Fields, Reading
from odradek.spark_jobs.scan.record_columns import batch_array, record_array
from odradek.spark_jobs.scan.record_headers import record_headers
from odradek.spark_jobs.scan.varints import Bytes, Flags, Integers, Narrow, Varints
from odradek.spark_jobs.scan.walk import GROUP_BYTES, Flaw, buffer_for
from odradek.spark_jobs.scan.wishes import Wishes

_CODEC_BITS = 7
_RECORD_BYTES_MIN = 7
_FAR = 1 << 62

RECORDS_AT_A_TIME = 32 * 1024

Decoded = Iterator[pa.RecordBatch | Flaw]


def decode(group: BatchGroup, wishes: Wishes) -> Decoded:
    """The records of all these batches, as far as their offsets are wanted."""
    group, flaws = readable(group)
    yield from flaws
    if not len(group):
        return
    depth = _depth(group, wishes)
    if depth is None:
        arrays = [batch_array(name, group, wishes) for name in wishes.columns]
        yield pa.RecordBatch.from_arrays(arrays, schema=record_schema(wishes.columns))
        return
    for unpacked in _unpacked(group):
        if isinstance(unpacked, Flaw):
            yield unpacked
        else:
            yield from _records(unpacked, wishes, depth)


def readable(group: BatchGroup) -> tuple[BatchGroup, list[Flaw]]:
    """Without batches whose headers make no sense, whatever their checksums say."""
    is_readable = (group.field("count") >= 0) & (
        group.headers["attributes"] & _CODEC_BITS <= max(Codec)
    )
    flaws = [
        flaw_in(group, at, "an unknown codec, or a negative number of records")
        for at in _where(~is_readable)
    ]
    return (group.kept(is_readable), flaws) if flaws else (group, [])


def _depth(group: BatchGroup, wishes: Wishes) -> Depth | None:
    depths = [DEPTHS[name] for name in wishes.columns if name in DEPTHS]
    if _is_cut(group, wishes):
        depths.append(Depth.OFFSET)
    return max(depths, default=None)


def _is_cut(group: BatchGroup, wishes: Wishes) -> bool:
    """Whether not all records of these batches are wanted."""
    begins_before = (group.field("base_offset") < wishes.start_offset).any()
    return bool(begins_before or (group.last_offsets >= wishes.end_offset).any())


@dataclass(frozen=True, slots=True)
class _Unpacked:
    """Batches, and where in a buffer their records are."""

    group: BatchGroup
    buffer: Bytes
    starts: Integers
    ends: Integers

    def kept(self, keep: Flags | slice) -> _Unpacked:
        return _Unpacked(self.group.kept(keep), self.buffer, self.starts[keep], self.ends[keep])


def _unpacked(group: BatchGroup) -> Iterator[_Unpacked | Flaw]:
    """As they lie in the file, or some 8 MB of decompressed batches at a time."""
    starts, ends = group.starts + HEADER_BYTES, group.starts + group.sizes
    if not group.has_flag(_CODEC_BITS).any():
        yield _Unpacked(group, group.buffer, starts, ends)
        return
    view = group.buffer.data
    attributes = group.headers["attributes"].tolist()
    parts: list[bytes] = []
    numbers: list[int] = []
    size_bytes = 0
    for at, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        try:
            parts.append(decompress(codec_of(attributes[at]), view[start:end]))
        except CorruptMessage as wrong:
            yield flaw_in(group, at, str(wrong))
            continue
        numbers.append(at)
        size_bytes += len(parts[-1])
        if size_bytes >= GROUP_BYTES:
            yield _together(group, numbers, parts)
            parts, numbers, size_bytes = [], [], 0
    if parts:
        yield _together(group, numbers, parts)


def _together(group: BatchGroup, numbers: list[int], parts: list[bytes]) -> _Unpacked:
    ends = np.cumsum([len(part) for part in parts])
    buffer = buffer_for(int(ends[-1]))
    np.concatenate(
        [np.frombuffer(part, dtype=np.uint8) for part in parts], out=buffer[: int(ends[-1])]
    )
    starts = np.concatenate(([0], ends[:-1]))
    return _Unpacked(group.kept(np.array(numbers)), buffer, starts, ends)


def _records(unpacked: _Unpacked, wishes: Wishes, depth: Depth) -> Decoded:
    counts = unpacked.group.field("count")
    is_sound = counts * _RECORD_BYTES_MIN <= unpacked.ends - unpacked.starts
    varints = Varints(unpacked.buffer)
    found = None
    if is_sound.all():
        found = boundaries(varints, Areas(unpacked.starts, unpacked.ends, counts))
        is_sound = found.is_sound
    if found is None or not is_sound.all():
        yield from _without_unsound(unpacked, is_sound, wishes, depth)
        return
    for some in _few_at_a_time(counts):
        part = unpacked.kept(some)
        reading = Reading(varints, found.of_batches(some), part.group.field("last_offset_delta"))
        yield from _rows(part, reading, wishes, depth)


def _without_unsound(unpacked: _Unpacked, is_sound: Flags, wishes: Wishes, depth: Depth) -> Decoded:
    for at in _where(~is_sound):
        yield flaw_in(unpacked.group, at, "the records contradict themselves or the header")
    if is_sound.any():
        yield from _records(unpacked.kept(is_sound), wishes, depth)


def _few_at_a_time(counts: Integers) -> Iterator[slice]:
    """Batches that together have so many records that the arrays fit into a processor's cache."""
    ends = np.cumsum(counts)
    steps = np.arange(RECORDS_AT_A_TIME, int(ends[-1]), RECORDS_AT_A_TIME)
    cuts = sorted({0, len(counts), *np.searchsorted(ends, steps).tolist()})
    return (slice(first, last) for first, last in pairwise(cuts))


def _rows(unpacked: _Unpacked, reading: Reading, wishes: Wishes, depth: Depth) -> Decoded:
    group = unpacked.group
    fields, headers = reading.read(depth), None
    is_sound = reading.is_sound & _timestamps_fit(group, fields)
    if is_sound.all() and "headers" in wishes.columns:
        headers = record_headers(reading.varints, fields)
        is_sound[fields.batches[~headers.is_sound]] = False
    if not is_sound.all():
        yield from _without_unsound(unpacked, is_sound, wishes, depth)
        return
    arrays = [
        record_array(name, group, fields, unpacked.buffer, headers)
        if name in DEPTHS
        else batch_array(name, group, wishes)
        for name in wishes.columns
    ]
    rows = pa.RecordBatch.from_arrays(arrays, schema=record_schema(wishes.columns))
    if fields.offset_deltas is not None and _is_cut(group, wishes):
        offsets = fields.spread(group.field("base_offset")) + fields.offset_deltas
        is_wanted = (offsets >= wishes.start_offset) & (offsets < wishes.end_offset)
        rows = rows.filter(pa.array(is_wanted))
    yield rows


def _timestamps_fit(group: BatchGroup, fields: Fields) -> Flags:
    """Of each batch: whether no delta leads out of an int64."""
    fits = np.ones(len(group), dtype=np.bool_)
    of_batches, deltas = group.field("base_timestamp"), fields.timestamp_deltas
    if _is_far(of_batches) or _is_far(deltas):
        bases = fields.spread(of_batches)
        total = bases + deltas
        is_beyond = ((bases ^ total) & (deltas ^ total)) < 0
        fits[fields.batches[is_beyond]] = False
    return fits | group.has_flag(LOG_APPEND_TIME_FLAG)


def _is_far(times: Narrow) -> bool:
    """Whether another that is not far, added to one of these, might lead out of an int64."""
    return int(times.max(initial=0)) >= _FAR or int(times.min(initial=0)) < -_FAR


def flaw_in(group: BatchGroup, at: int, reason: str) -> Flaw:
    """One batch of the group cannot be read."""
    position = group.position + int(group.starts[at])
    end = position + int(group.sizes[at])
    return Flaw(position, end, int(group.headers["base_offset"][at]), reason)


def _where(flags: Flags) -> list[int]:
    numbers: list[int] = np.flatnonzero(flags).tolist()
    return numbers
