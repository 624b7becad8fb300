"""Does the leader epoch checkpoint of a partition say which leader wrote which batches?

An entry says that from its offset on batches are of its epoch, up to the next entry.  What lies
before the first one was deleted.  The file may lag behind the log, but not behind what is synced:
an epoch that begins there must be in it.

Owner: none; any thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from odradek.spark_jobs.audit.batch_rows import Rows
from odradek.spark_jobs.audit.findings import Problem
from odradek.storage.leader_epochs import EpochStart


def epoch_problems(
    entries: Sequence[EpochStart], rows: Rows, *, synced_to: int, next_offset: int
) -> Iterator[Problem]:
    """``next_offset`` is where the log ends."""
    rows = rows[rows["leader_epoch"] >= 0]
    offsets, epochs = rows["base_offset"], rows["leader_epoch"]
    if not entries:
        if len(rows) and offsets[0] < synced_to:
            yield Problem(None, int(offsets[0]), f"it lacks epoch {epochs[0]}, which begins there")
        return
    starts = np.array([entry.start_offset for entry in entries], dtype=np.int64)
    ordered = np.array([entry.epoch for entry in entries], dtype=np.int64)
    at = np.searchsorted(starts, offsets, side="right") - 1
    is_wrong = (at >= 0) & (ordered[np.maximum(at, 0)] != epochs)
    # Newer than all that are there: not written yet, perhaps.
    is_wrong &= (epochs <= ordered[-1]) | (offsets < synced_to)
    for entry in np.unique(at[is_wrong]).tolist():
        first = int(np.flatnonzero(is_wrong & (at == entry))[0])
        epoch, start_offset = entries[entry]
        what = f"epoch {epoch} from {start_offset} on, but a batch is of epoch {epochs[first]}"
        yield Problem(_position(entries, entry), int(offsets[first]), what)
    if starts[-1] > next_offset:
        what = f"epoch {ordered[-1]} from {starts[-1]} on, where the log has not come"
        yield Problem(_position(entries, len(entries) - 1), int(starts[-1]), what)


def _position(entries: Sequence[EpochStart], at: int) -> int:
    """Of a line in the file."""
    lines = ["0", str(len(entries)), *(f"{epoch} {start}" for epoch, start in entries[:at])]
    return sum(len(line) + 1 for line in lines)
