"""The start offset of each leader epoch; used to find where the logs of two replicas diverge.

A new leader gets a new epoch from the controller, and its batches carry the epoch.  The file
``leader-epoch-checkpoint`` has, in the format of checkpoint.py, a line ``epoch startOffset`` for
each epoch that has records.  An epoch ends where the next one starts; the last epoch ends at the
log end offset.  A follower asks the leader for the end offset of the follower's last epoch and
truncates its log to that offset (KIP-101).  If the leader does not know that epoch, its response
has the largest epoch below it (KIP-279).

Entries change in memory; ``flush`` writes them and blocks in fsync.  (Kafka writes the file in
``assign``, before it appends the batch, and in the background after truncations.)  The file may lag
behind memory if these rules are kept:

    1. Flush before a recovery point beyond an entry's start offset is checkpointed.
    2. After a truncation of the log end, write the file when the log files are truncated, not
       before: a power cut could bring batches back without their epochs.
    3. After a truncation, write the file before the next append.  Recovery trusts an old entry that
       precedes a batch of the same epoch, since compaction may have removed the batches between.
    4. Recovery compares the entries with the batches that it reads.  It drops contradicting
       entries, adds missing ones, and truncates the entries to the log start and end
       (``update_leader_epochs`` in segment_recovery.py).

Invariant: epochs and start offsets both ascend strictly.
Owner: the event loop; ``flush`` and ``finish_truncation`` may run on disk threads.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from odradek.storage import checkpoint, files
from odradek.storage.checkpoint import (
    INT32_MAX,
    INT64_MAX,
    CorruptCheckpoint,
    parse_number,
    split_fields,
)

FILE_NAME = "leader-epoch-checkpoint"

NO_EPOCH = -1
NO_OFFSET = -1

_EPOCH = attrgetter("epoch")
_START_OFFSET = attrgetter("start_offset")


class EpochEntry(NamedTuple):
    epoch: int
    start_offset: int


class EpochEnd(NamedTuple):
    """``end_offset`` is the first offset after the epoch."""

    epoch: int
    end_offset: int


UNDEFINED_EPOCH_END = EpochEnd(NO_EPOCH, NO_OFFSET)


class LeaderEpochFileCache:
    """The leader epochs of one log, from its first record to its last record."""

    def __init__(self, directory: Path, entries: Iterable[EpochEntry] = ()) -> None:
        """Do not read the file in ``directory``; the first ``flush`` writes it."""
        self.directory = directory
        # Replaced in one assignment: a disk thread never sees a partial change.
        self._entries: tuple[EpochEntry, ...] = ()
        self._flushed_entries: tuple[EpochEntry, ...] | None = None
        #: The entries that ``flush`` writes while the log files are not yet truncated.
        self._entries_before_truncation: tuple[EpochEntry, ...] | None = None
        self._flush_lock = Lock()
        self.latest_epoch = NO_EPOCH
        self.latest_start_offset = 0
        self._set_entries(tuple(entries))

    @classmethod
    def load(cls, directory: Path) -> LeaderEpochFileCache:
        """Read the file.  On CorruptCheckpoint the caller rebuilds the entries from the batches."""
        epochs = cls(directory, read(directory / FILE_NAME))
        epochs._flushed_entries = epochs._entries
        return epochs

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        return self._entries

    @property
    def earliest_entry(self) -> EpochEntry | None:
        return self._entries[0] if self._entries else None

    @property
    def latest_entry(self) -> EpochEntry | None:
        return self._entries[-1] if self._entries else None

    @property
    def is_flushed(self) -> bool:
        return self._flushed_entries == self._entries

    def assign(self, epoch: int, *, start_offset: int) -> bool:
        """Record that a batch of ``epoch`` is appended at ``start_offset``; False if known.

        Remove later entries that contradict it: their records are no longer in the log.
        """
        assert epoch >= 0, epoch
        assert start_offset >= 0, start_offset
        latest = self.latest_entry
        if latest is not None and epoch == latest.epoch and start_offset >= latest.start_offset:
            return False
        kept_count = min(
            bisect_left(self._entries, epoch, key=_EPOCH),
            bisect_left(self._entries, start_offset, key=_START_OFFSET),
        )
        self._set_entries((*self._entries[:kept_count], EpochEntry(epoch, start_offset)))
        return True

    def reconcile(self, epoch: int, *, start_offset: int) -> None:
        """Record that the log contains a batch of ``epoch``, which may not be its first batch.

        Remove entries that contradict it: their records are no longer in the log.
        """
        before = [e for e in self._entries if e.epoch < epoch and e.start_offset < start_offset]
        same = [e for e in self._entries if e.epoch == epoch and e.start_offset <= start_offset]
        after = [e for e in self._entries if e.epoch > epoch and e.start_offset > start_offset]
        self._set_entries((*before, *(same or [EpochEntry(epoch, start_offset)]), *after))

    def end_offset_for(self, epoch: int, *, log_end_offset: int) -> EpochEnd:
        """Return the largest known epoch up to ``epoch``, and its end offset.

        Return UNDEFINED_EPOCH_END if ``epoch`` is undefined or newer than all known epochs.  An
        epoch older than all known epochs ends at the start of the first known epoch: the follower
        must truncate all its records of that epoch.
        """
        if epoch == NO_EPOCH:
            return UNDEFINED_EPOCH_END
        if epoch == self.latest_epoch:
            return EpochEnd(epoch, log_end_offset)
        higher = bisect_right(self._entries, epoch, key=_EPOCH)
        if higher == len(self._entries):
            return UNDEFINED_EPOCH_END
        found_epoch = self._entries[higher - 1].epoch if higher else epoch
        return EpochEnd(found_epoch, self._entries[higher].start_offset)

    def epoch_for_offset(self, offset: int) -> int | None:
        """Return None before the first entry; the last epoch covers all offsets after its start."""
        count = bisect_right(self._entries, offset, key=_START_OFFSET)
        return self._entries[count - 1].epoch if count else None

    def previous_epoch(self, epoch: int) -> int | None:
        count = bisect_left(self._entries, epoch, key=_EPOCH)
        return self._entries[count - 1].epoch if count else None

    def next_epoch(self, epoch: int) -> int | None:
        count = bisect_right(self._entries, epoch, key=_EPOCH)
        return self._entries[count].epoch if count < len(self._entries) else None

    def truncate_from_end(self, end_offset: int) -> None:
        """Remove every epoch that starts at or after ``end_offset``."""
        assert end_offset >= 0, end_offset
        self._set_entries(
            self._entries[: bisect_left(self._entries, end_offset, key=_START_OFFSET)]
        )

    def begin_truncation(self, end_offset: int) -> None:
        """Truncate in memory while the log files still have the batches.

        ``finish_truncation`` must follow when the files have been truncated.
        """
        if self._entries_before_truncation is None:
            self._entries_before_truncation = self._entries
        self.truncate_from_end(end_offset)

    def truncate_from_start(self, start_offset: int) -> None:
        """Remove epochs that end by ``start_offset``; the epoch that covers it now starts there."""
        count = bisect_right(self._entries, start_offset, key=_START_OFFSET)
        if count:
            covering = EpochEntry(self._entries[count - 1].epoch, start_offset)
            self._set_entries((covering, *self._entries[count:]))

    def clear(self) -> None:
        """Used for a log that restarts at a new offset, or that has batches without epochs."""
        self._set_entries(())

    def flush(self) -> None:
        """Write the entries if they have changed.  They are durable when this returns."""
        with self._flush_lock:
            entries = (
                self._entries
                if self._entries_before_truncation is None
                else self._entries_before_truncation
            )
            if entries != self._flushed_entries:
                write(self.directory / FILE_NAME, entries)
                self._flushed_entries = entries

    def finish_truncation(self) -> None:
        """Write the truncated entries, now that the truncated batches are durably removed."""
        self._entries_before_truncation = None
        self.flush()

    def update_parent_dir(self, directory: Path) -> None:
        """The directory of the log, which contains the file, has been renamed."""
        self.directory = directory

    def _set_entries(self, entries: tuple[EpochEntry, ...]) -> None:
        self._entries = entries
        self.latest_epoch = entries[-1].epoch if entries else NO_EPOCH
        self.latest_start_offset = entries[-1].start_offset if entries else 0


def read(path: Path) -> list[EpochEntry]:
    """Return the entries in order, or none if there is no file."""
    return decode(files.read(path) or b"", path=path)


def decode(content: bytes, *, path: Path) -> list[EpochEntry]:
    """Parse the content of a file; ``path`` is only used in error messages."""
    entries = checkpoint.decode(content, _parse_entry, path=path)
    for line, (before, after) in enumerate(pairwise(entries), start=4):
        if after.epoch <= before.epoch or after.start_offset <= before.start_offset:
            reason = f"epoch {after.epoch} at offset {after.start_offset} cannot follow epoch "
            reason += f"{before.epoch} at offset {before.start_offset}"
            raise CorruptCheckpoint(path, line=line, reason=reason)
    return entries


def write(path: Path, entries: Iterable[EpochEntry]) -> None:
    """Replace the file.  The content is durable when this returns."""
    checkpoint.write(path, [f"{epoch} {start_offset}" for epoch, start_offset in entries])


def _parse_entry(line: bytes) -> EpochEntry:
    epoch, start_offset = split_fields(line, count=2)
    return EpochEntry(
        parse_number(epoch, max_value=INT32_MAX), parse_number(start_offset, max_value=INT64_MAX)
    )
