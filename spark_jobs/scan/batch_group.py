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
from odradek.protocol.records.control import EndTransactionMarker, marker_of
from odradek.spark_jobs.scan.varints import Bytes, Flags, Integers

#: As in protocol/records/batch.py, which says what each field means.
HEADER = np.dtype(
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
_NATIVE = HEADER.newbyteorder("=")
_HEADER_BYTES = np.dtype(f"V{HEADER_BYTES}")


@dataclass(frozen=True, slots=True)
class BatchGroup:
    """Batches one after the other, perhaps with others between them that are left out."""

    buffer: Bytes  # with some bytes to spare at its end
    position: int  # of the buffer's first byte in the file
    starts: Integers  # of each batch in the buffer
    headers: npt.NDArray[np.void]

    def field(self, name: str) -> Integers:
        values: Integers = self.headers[name].astype(np.int64)
        return values

    def has_flag(self, flag: int) -> Flags:
        flags: Flags = (self.headers["attributes"] & flag) != 0
        return flags

    @property
    def last_offsets(self) -> Integers:
        return self.field("base_offset") + self.field("last_offset_delta")

    @property
    def sizes(self) -> Integers:
        return self.field("length") + 12

    def markers(self, at: int) -> list[EndTransactionMarker]:
        """Those in a control batch; raises CorruptMessage."""
        records = RecordBatch(self.buffer.data, int(self.starts[at])).records()
        return [marker for record in records if (marker := marker_of(record))]

    def __len__(self) -> int:
        return len(self.starts)

    def kept(self, keep: Any) -> BatchGroup:
        """Only those batches, by flags or numbers."""
        return BatchGroup(self.buffer, self.position, self.starts[keep], self.headers[keep])


def batch_group(buffer: Bytes, position: int, starts: list[int]) -> BatchGroup:
    at = np.array(starts, dtype=np.int64)
    # At each byte as many as a header has, overlapping with the next: of which a few are copied.
    windows = np.ndarray((len(buffer) - HEADER_BYTES + 1,), _HEADER_BYTES, buffer, strides=(1,))
    return BatchGroup(buffer, position, at, windows[at].view(HEADER).astype(_NATIVE))
