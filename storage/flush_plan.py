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
from odradek.storage.leader_epoch_file_cache import LeaderEpochFileCache
from odradek.storage.open_file import OpenFile


@dataclass(frozen=True, slots=True, kw_only=True)
class FlushPlan:
    """What must be synced so that everything before ``up_to`` survives a power cut."""

    directory: Path
    log_files: tuple[OpenFile, ...]
    index_paths: tuple[Path, ...]
    snapshot_paths: tuple[Path, ...]
    leader_epoch_cache: LeaderEpochFileCache
    flush_offset: int
    truncation_count: int  # how often the log had been truncated when the plan was made

    def run(self) -> None:
        """Sleeps in the kernel; may run on a disk thread."""
        for file in self.log_files:
            files.sync(file.descriptor)
        for path in (*self.index_paths, *self.snapshot_paths):
            _sync_if_exists(path)
        self.leader_epoch_cache.flush()
        files.sync_directory(self.directory)


def _sync_if_exists(path: Path) -> None:
    try:
        files.sync_path(path)
    except FileNotFoundError:
        return
