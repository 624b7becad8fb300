"""Parse index files that may be damaged: keep the entries that are plausible.

The storage modules offset_index.py, time_index.py and transaction_index.py document the formats.
An open index is preallocated and padded with zeros, and a crash may leave a file of any length.
The entries count up to the first that does not ascend.  Entries have no checksum, so a caller that
follows an entry must compare it with the batch that it points to.

Owner: none; any thread.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from odradek.spark_jobs.scan.varints import Int64Array
from odradek.storage import transaction_index
from odradek.storage.transaction_index import AbortedTxn

_OFFSET_ENTRY = np.dtype([("offset", ">u4"), ("position", ">u4")])
_TIME_ENTRY = np.dtype([("timestamp", ">i8"), ("offset", ">u4")])


class OffsetEntries(NamedTuple):
    """The batch at each position, or one soon after it, has the offset."""

    offsets: Int64Array
    positions: Int64Array


class TimeEntries(NamedTuple):
    """Every record below each offset has the timestamp or an earlier one."""

    timestamps: Int64Array
    offsets: Int64Array


def parse_offset_index(content: bytes | None, *, base_offset: int) -> OffsetEntries:
    entries = _parse_entries(content, _OFFSET_ENTRY)
    offsets, positions = entries["offset"].astype(np.int64), entries["position"].astype(np.int64)
    count = min(_ascending_prefix_length(offsets), _ascending_prefix_length(positions))
    return OffsetEntries(base_offset + offsets[:count], positions[:count])


def parse_time_index(content: bytes | None, *, base_offset: int) -> TimeEntries:
    entries = _parse_entries(content, _TIME_ENTRY)
    timestamps, offsets = entries["timestamp"].astype(np.int64), entries["offset"].astype(np.int64)
    # One entry with timestamp -1 or 0 may precede a batch without timestamps or the zero padding.
    count = min(_ascending_prefix_length(timestamps), _ascending_prefix_length(offsets))
    return TimeEntries(timestamps[:count], base_offset + offsets[:count])


def parse_transaction_index(content: bytes | None) -> list[AbortedTxn] | None:
    """Return None if the file is invalid.  A missing file means no aborted transactions."""
    content = content or b""
    if len(content) % transaction_index.ENTRY.size:
        return None
    transactions = []
    previous_last_offset = -1
    for version, *fields in transaction_index.ENTRY.iter_unpack(content):
        aborted = AbortedTxn(*fields)
        if version != transaction_index.VERSION or not aborted.first_offset >= 0:
            return None
        # A transaction has at least one record before its marker.
        if not (
            previous_last_offset < aborted.last_offset
            and aborted.first_offset < aborted.last_offset
        ):
            return None
        previous_last_offset = aborted.last_offset
        transactions.append(aborted)
    return transactions


def _parse_entries(
    content: bytes | None, dtype: np.dtype[np.void]
) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    content = content or b""
    return np.frombuffer(content[: len(content) // dtype.itemsize * dtype.itemsize], dtype=dtype)


def _ascending_prefix_length(values: Int64Array) -> int:
    """Return the number of leading values that are strictly ascending."""
    descents = np.flatnonzero(values[1:] <= values[:-1])
    return int(descents[0]) + 1 if len(descents) else len(values)
