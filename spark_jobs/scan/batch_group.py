"""A group of batches of magic 2 in one buffer: their headers, as arrays.

Invariant: every checksum has been verified, so the headers can be trusted.
Owner: the iterator of the SegmentReader; it reuses the buffer for the next group.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from odradek.protocol.records.batch import HEADER_BYTES, RecordBatch
from odradek.protocol.records.control_records import (
    EndTransactionMarker,
    parse_end_transaction_marker,
)
from odradek.spark_jobs.scan.varints import BoolArray, ByteArray, Int64Array

#: protocol/records/batch.py documents the fields.
HEADER_DTYPE = np.dtype(
    [
        ("base_offset", ">i8"),
        ("length", ">i4"),
        ("leader_epoch", ">i4"),
        ("magic", "i1"),
        ("checksum", ">u4"),
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("base_timestamp", ">i8"),
        ("max_timestamp", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("count", ">i4"),
    ]
)
_NATIVE_HEADER_DTYPE = HEADER_DTYPE.newbyteorder("=")
_RAW_HEADER_DTYPE = np.dtype(f"V{HEADER_BYTES}")


@dataclass(frozen=True, slots=True)
class BatchGroup:
    """Consecutive batches, possibly with unselected batches between them."""

    buffer: ByteArray  # with padding at its end
    position: int  # the file position of the buffer's first byte
    starts: Int64Array  # the buffer position of each batch
    headers: npt.NDArray[np.void]

    def field(self, name: str) -> Int64Array:
        values: Int64Array = self.headers[name].astype(np.int64)
        return values

    def has_flag(self, flag: int) -> BoolArray:
        flags: BoolArray = (self.headers["attributes"] & flag) != 0
        return flags

    @property
    def last_offsets(self) -> Int64Array:
        return self.field("base_offset") + self.field("last_offset_delta")

    @property
    def sizes(self) -> Int64Array:
        return self.field("length") + 12

    def markers(self, index: int) -> list[EndTransactionMarker]:
        """Return the markers in a control batch.  Raises CorruptMessage."""
        records = RecordBatch(self.buffer.data, int(self.starts[index])).records()
        return [marker for record in records if (marker := parse_end_transaction_marker(record))]

    def __len__(self) -> int:
        return len(self.starts)

    def select(self, selection: Any) -> BatchGroup:
        """Keep only these batches; ``selection`` holds flags or indexes."""
        return BatchGroup(
            self.buffer, self.position, self.starts[selection], self.headers[selection]
        )


def build_batch_group(buffer: ByteArray, position: int, starts: list[int]) -> BatchGroup:
    positions = np.array(starts, dtype=np.int64)
    # One overlapping window of HEADER_BYTES at each byte; only those at batch starts are copied.
    windows = np.ndarray((len(buffer) - HEADER_BYTES + 1,), _RAW_HEADER_DTYPE, buffer, strides=(1,))
    return BatchGroup(
        buffer,
        position,
        positions,
        windows[positions].view(HEADER_DTYPE).astype(_NATIVE_HEADER_DTYPE),
    )
