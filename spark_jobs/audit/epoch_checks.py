"""Check of the leader epoch checkpoint of a partition against the epochs of its batches.

An entry says that batches from its offset on, up to the next entry, have its epoch.  Batches before
the first entry were deleted.  The file may lag behind the log, but not behind the recovery point:
it must have every epoch that starts below it.

Owner: none; any thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from odradek.spark_jobs.audit.batch_rows import BatchRows
from odradek.spark_jobs.audit.findings import Problem
from odradek.storage.leader_epoch_file_cache import EpochEntry


def check_leader_epochs(
    entries: Sequence[EpochEntry], rows: BatchRows, *, recovery_point: int, log_end_offset: int
) -> Iterator[Problem]:
    """Yield the wrong entries; if there is none at all, the first epoch that should be there."""
    rows = rows[rows["leader_epoch"] >= 0]
    offsets, epochs = rows["base_offset"], rows["leader_epoch"]
    if not entries:
        if len(rows) and offsets[0] < recovery_point:
            yield Problem(None, int(offsets[0]), f"missing epoch {epochs[0]}, which starts here")
        return
    starts = np.array([entry.start_offset for entry in entries], dtype=np.int64)
    entry_epochs = np.array([entry.epoch for entry in entries], dtype=np.int64)
    at = np.searchsorted(starts, offsets, side="right") - 1
    is_wrong = (at >= 0) & (entry_epochs[np.maximum(at, 0)] != epochs)
    # An epoch newer than all entries may not have been written to the checkpoint yet.
    is_wrong &= (epochs <= entry_epochs[-1]) | (offsets < recovery_point)
    for entry in np.unique(at[is_wrong]).tolist():
        first = int(np.flatnonzero(is_wrong & (at == entry))[0])
        epoch, start_offset = entries[entry]
        what = (
            f"epoch {epoch} starts at offset {start_offset}, but a batch has epoch {epochs[first]}"
        )
        yield Problem(_line_position(entries, entry), int(offsets[first]), what)
    if starts[-1] > log_end_offset:
        what = f"epoch {entry_epochs[-1]} starts at {starts[-1]}, after the end of the log"
        yield Problem(_line_position(entries, len(entries) - 1), int(starts[-1]), what)


def _line_position(entries: Sequence[EpochEntry], index: int) -> int:
    """Return the byte position of an entry's line in the file."""
    lines = ["0", str(len(entries)), *(f"{epoch} {start}" for epoch, start in entries[:index])]
    return sum(len(line) + 1 for line in lines)
