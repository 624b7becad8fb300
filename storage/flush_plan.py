"""The files to flush so that the records before an offset survive a power cut.

The log creates the plan, any thread that may block runs it, and the log is notified afterwards
(``UnifiedLog.mark_flushed``).  The segments are flushed before the leader epochs.  An epoch entry
without records is harmless, because the loader removes it.  Records without an epoch entry would
have to be scanned to find their epoch.

While a plan runs, the log keeps changing: segments are rolled, compacted and removed.  The batches
are therefore flushed through files that are already open.  Indexes and snapshots are flushed by
path: if such a file was renamed or removed meanwhile, it is no longer needed.

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
    """The files to flush so that every record before ``flush_offset`` survives a power cut."""

    directory: Path
    log_files: tuple[OpenFile, ...]
    index_paths: tuple[Path, ...]
    snapshot_paths: tuple[Path, ...]
    leader_epoch_cache: LeaderEpochFileCache
    flush_offset: int
    truncation_count: int  # number of truncations of the log when the plan was made

    def run(self) -> None:
        """Flush the files.  Blocks in fsync; may run on a disk thread."""
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
