"""Where did each leader's records begin, and so, where do two replicas' logs part?

A new leader gets a new epoch from the controller, and its batches carry it.  The file
``leader-epoch-checkpoint`` holds, in the format of checkpoint.py, a line ``epoch startOffset`` for
each epoch that has records: an epoch ends where the next one starts, the last at the log's end.  A
follower asks the leader for the end of its own last epoch and cuts what it has beyond (KIP-101); if
the leader does not know that epoch, the answer names the largest one below it (KIP-279).

Entries change in memory and are written by ``flush``, which sleeps in an fsync.  (Kafka writes the
file within ``assign``, before the batch is in the log, and after truncations in the background.)
The file may lag behind as long as these rules are kept:

    flush before a recovery point beyond an entry's start is checkpointed;
    a cut of the log's end is written when it has been carried out, lest a power cut brings batches
    back without their epochs, and before anything is appended there: if a batch of an epoch is
    found behind the entry that was cut, compaction might have removed those between;
    recovery compares them with the batches that it walks, drops what contradicts these, assigns
    what is missing, and cuts at the log's start and end (``learn_epoch`` in segment_recovery.py).

Invariant: epochs and start offsets both ascend strictly.
Owner: the event loop; ``flush`` and ``flush_cut`` may run on disk threads.
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
    """The epochs of one log, from its first record's to its last record's."""

    def __init__(self, directory: Path, entries: Iterable[EpochEntry] = ()) -> None:
        """The file in ``directory`` is not read; the first ``flush`` writes it."""
        self.directory = directory
        # A tuple replaced in one assignment, so that a disk thread never sees half a change.
        self._entries: tuple[EpochEntry, ...] = ()
        self._flushed_entries: tuple[EpochEntry, ...] | None = None
        #: What is written while the log's files are still to be cut.
        self._entries_before_truncation: tuple[EpochEntry, ...] | None = None
        self._flush_lock = Lock()
        self.latest_epoch = NO_EPOCH
        self.latest_start_offset = 0
        self._set_entries(tuple(entries))

    @classmethod
    def load(cls, directory: Path) -> LeaderEpochFileCache:
        """As the file has them; CheckpointDamaged calls for a rebuild from the batches."""
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
        """Note that a batch of ``epoch`` is appended at ``start_offset``; False if nothing is new.

        Later entries that contradict it go: they are of records that are no longer in the log.
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
        """Note that a batch of ``epoch`` is in the log; the first of them may be there no more.

        Entries that contradict it go: they are of records that are no longer in the log.
        """
        before = [e for e in self._entries if e.epoch < epoch and e.start_offset < start_offset]
        same = [e for e in self._entries if e.epoch == epoch and e.start_offset <= start_offset]
        after = [e for e in self._entries if e.epoch > epoch and e.start_offset > start_offset]
        self._set_entries((*before, *(same or [EpochEntry(epoch, start_offset)]), *after))

    def end_offset_for(self, epoch: int, *, log_end_offset: int) -> EpochEnd:
        """The largest known epoch up to ``epoch``, and where it ends.

        UNKNOWN_END if no epoch was asked for or if it is newer than all.  One older than all is
        answered as if it ended where the log begins: whatever the follower has of it must go.
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
        """None below the first entry; above the log's end as if the last epoch went on."""
        count = bisect_right(self._entries, offset, key=_START_OFFSET)
        return self._entries[count - 1].epoch if count else None

    def previous_epoch(self, epoch: int) -> int | None:
        count = bisect_left(self._entries, epoch, key=_EPOCH)
        return self._entries[count - 1].epoch if count else None

    def next_epoch(self, epoch: int) -> int | None:
        count = bisect_right(self._entries, epoch, key=_EPOCH)
        return self._entries[count].epoch if count < len(self._entries) else None

    def truncate_from_end(self, end_offset: int) -> None:
        """Forget every epoch that starts at or after ``end_offset``."""
        assert end_offset >= 0, end_offset
        self._set_entries(
            self._entries[: bisect_left(self._entries, end_offset, key=_START_OFFSET)]
        )

    def begin_truncation(self, end_offset: int) -> None:
        """Likewise; but the batches are still there, until ``flush_cut`` is called."""
        if self._entries_before_truncation is None:
            self._entries_before_truncation = self._entries
        self.truncate_from_end(end_offset)

    def truncate_from_start(self, start_offset: int) -> None:
        """Forget what ends by ``start_offset``; the epoch that covers it now starts there."""
        count = bisect_right(self._entries, start_offset, key=_START_OFFSET)
        if count:
            covering = EpochEntry(self._entries[count - 1].epoch, start_offset)
            self._set_entries((covering, *self._entries[count:]))

    def clear(self) -> None:
        """For a log that starts anew, or that takes batches of an old format without epochs."""
        self._set_entries(())

    def flush(self) -> None:
        """Write what has changed; durable when it returns."""
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
        """The batches that were cut off are gone for good."""
        self._entries_before_truncation = None
        self.flush()

    def update_parent_dir(self, directory: Path) -> None:
        """The log's directory has been renamed, and the file with it."""
        self.directory = directory

    def _set_entries(self, entries: tuple[EpochEntry, ...]) -> None:
        self._entries = entries
        self.latest_epoch = entries[-1].epoch if entries else NO_EPOCH
        self.latest_start_offset = entries[-1].start_offset if entries else 0


def read(path: Path) -> list[EpochEntry]:
    """In order; none if there is no file."""
    return decode(files.read(path) or b"", path=path)


def decode(content: bytes, *, path: Path) -> list[EpochEntry]:
    """The same of what was read already; ``path`` is what an error calls it."""
    entries = checkpoint.decode(content, _parse_entry, path=path)
    for line, (before, after) in enumerate(pairwise(entries), start=4):
        if after.epoch <= before.epoch or after.start_offset <= before.start_offset:
            reason = f"epoch {after.epoch} at offset {after.start_offset} cannot follow epoch "
            reason += f"{before.epoch} at offset {before.start_offset}"
            raise CorruptCheckpoint(path, line=line, reason=reason)
    return entries


def write(path: Path, entries: Iterable[EpochEntry]) -> None:
    """Durable when it returns."""
    checkpoint.write(path, [f"{epoch} {start_offset}" for epoch, start_offset in entries])


def _parse_entry(line: bytes) -> EpochEntry:
    epoch, start_offset = split_fields(line, count=2)
    return EpochEntry(
        parse_number(epoch, max_value=INT32_MAX), parse_number(start_offset, max_value=INT64_MAX)
    )
