"""A group of batches of magic 2 that lie in one buffer: their headers, as arrays.

Invariant: every checksum has been compared, so that the header can be believed.
Owner: whoever walks; the buffer is used again for the next group.
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

#: As in protocol/records/batch.py, which says what each field means.
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
    """Batches one after the other, perhaps with others between them that are left out."""

    buffer: ByteArray  # with some bytes to spare at its end
    position: int  # of the buffer's first byte in the file
    starts: Int64Array  # of each batch in the buffer
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
        """Those in a control batch; raises CorruptMessage."""
        records = RecordBatch(self.buffer.data, int(self.starts[index])).records()
        return [marker for record in records if (marker := parse_end_transaction_marker(record))]

    def __len__(self) -> int:
        return len(self.starts)

    def select(self, selection: Any) -> BatchGroup:
        """Only those batches, by flags or numbers."""
        return BatchGroup(
            self.buffer, self.position, self.starts[selection], self.headers[selection]
        )


def build_batch_group(buffer: ByteArray, position: int, starts: list[int]) -> BatchGroup:
    positions = np.array(starts, dtype=np.int64)
    # At each byte as many as a header has, overlapping with the next: of which a few are copied.
    windows = np.ndarray((len(buffer) - HEADER_BYTES + 1,), _RAW_HEADER_DTYPE, buffer, strides=(1,))
    return BatchGroup(
        buffer,
        position,
        positions,
        windows[positions].view(HEADER_DTYPE).astype(_NATIVE_HEADER_DTYPE),
    )
