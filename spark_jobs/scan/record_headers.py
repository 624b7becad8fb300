"""The headers of records, for all records of a group at once.

As with records in batches (boundaries.py) the n-th header of every record is read in one step; of
the few records that have many, they are read one by one.

Owner: none; any thread.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from odradek.protocol.errors import DecodeError
from odradek.protocol.varint import read_varint
from odradek.spark_jobs.scan.fields import Contents, Fields
from odradek.spark_jobs.scan.varints import PADDING, Flags, Integers, Narrow, Varints

LANES_MIN = 32


class RecordHeaders(NamedTuple):
    """The headers of all records, one after the other."""

    keys: Contents
    values: Contents
    is_sound: Flags  # of each record: its headers fill it


_BYTES_MIN = 2  # of a header


def record_headers(varints: Varints, fields: Fields) -> RecordHeaders:
    assert fields.header_counts is not None
    assert fields.header_starts is not None
    # More than there is room for would ask for more memory than the file has bytes.
    rooms = np.maximum(fields.ends - fields.header_starts, 0) // _BYTES_MIN
    is_sound = (fields.header_counts >= 0) & (fields.header_counts <= rooms)
    counts = np.where(is_sound, fields.header_counts, 0).astype(np.int64)
    columns = np.zeros((4, int(counts.sum())), dtype=np.int64)
    # The records with most headers first, as in boundaries.py; those without any are left out.
    order = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
    falling, first_slots = counts[order], (np.cumsum(counts) - counts)[order]
    positions, ends = fields.header_starts[order], fields.ends[order]
    is_lane_sound = is_sound[order]
    for step in range(int(falling[0]) if len(falling) else 0):
        width = int(np.searchsorted(-falling, -step))
        if width < LANES_MIN:
            for lane in range(width):
                slot, end_slot = (
                    int(first_slots[lane]) + step,
                    int(first_slots[lane] + falling[lane]),
                )
                positions[lane] = _one_by_one(
                    varints, int(positions[lane]), int(ends[lane]), columns[:, slot:end_slot]
                )
            break
        slots = first_slots[:width] + step
        key_sizes, key_starts = varints.read(positions[:width])
        limit = ends[:width]
        value_at = _bounded(key_starts, key_sizes, limit)
        value_sizes, value_starts = varints.read(value_at)
        columns[:, slots] = key_sizes, key_starts, value_sizes, value_starts
        after = _bounded(value_starts, np.maximum(value_sizes, 0), limit)
        is_wrong = (key_sizes < 0) | (value_sizes < -1)
        is_wrong |= (value_at != key_starts + key_sizes) | (value_at >= limit)
        is_wrong |= after != value_starts + np.maximum(value_sizes, 0)
        is_lane_sound[:width] &= ~is_wrong
        positions[:width] = after
    is_sound[order] = is_lane_sound & (positions == ends)
    return RecordHeaders(_contents(*columns[:2]), _contents(*columns[2:]), is_sound)


def _contents(sizes: Integers, starts: Integers) -> Contents:
    return Contents(sizes, starts, starts + np.maximum(sizes, 0))


def _bounded(starts: Integers, sizes: Narrow, limits: Integers) -> Integers:
    """Where they end; wherever a wrong size would lead, within the record."""
    ends: Integers = np.clip(starts + sizes, 0, limits)
    return ends


def _one_by_one(varints: Varints, position: int, end: int, columns: Integers) -> int:
    """Fill the columns with the headers from ``position`` on; where they end, or -1."""
    source = varints.bytes.data[: min(end, len(varints.bytes) - PADDING)]
    found = []
    try:
        for _ in range(columns.shape[1]):
            key_size, key_start = read_varint(source, position)
            value_size, value_start = read_varint(source, key_start + max(key_size, 0))
            position = value_start + max(value_size, 0)
            if key_size < 0 or value_size < -1 or position > end:
                return -1
            found.append((key_size, key_start, value_size, value_start))
    except DecodeError:
        return -1
    columns[:] = np.array(found, dtype=np.int64).T
    return position
