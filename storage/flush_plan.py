"""What must be synced so that the records before an offset survive a power cut.

Made by the log, run wherever sleeping in the kernel does no harm, and then reported to the log.
The segments come before the epochs: an epoch may be noted for records that are not there, and the
loader cuts it, but records without their epoch would have to be found again.

While a plan runs, the log goes on: segments are rolled, compacted and removed.  So the batches are
synced through files that are open already.  Indexes and snapshots are synced by name: whoever has
renamed or removed one does not need it any more.

Owner: none; immutable, any thread.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from odradek.storage import files
from odradek.storage.leader_epochs import LeaderEpochs
from odradek.storage.open_file import OpenFile


@dataclass(frozen=True, slots=True, kw_only=True)
class FlushPlan:
    """What must be synced so that everything before ``up_to`` survives a power cut."""

    directory: Path
    batches: tuple[OpenFile, ...]
    by_name: tuple[Path, ...]
    snapshots: tuple[Path, ...]
    epochs: LeaderEpochs
    up_to: int
    cut_count: int  # how often the log had been truncated when the plan was made

    def run(self) -> None:
        """Sleeps in the kernel; may run on a disk thread."""
        for file in self.batches:
            files.sync(file.descriptor)
        for path in (*self.by_name, *self.snapshots):
            _sync_if_there(path)
        self.epochs.flush()
        files.sync_directory(self.directory)


def _sync_if_there(path: Path) -> None:
    try:
        files.sync_path(path)
    except FileNotFoundError:
        return
