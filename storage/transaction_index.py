"""The .txnindex file of a segment lists aborted transactions.  Kafka: TransactionIndex.

The file is an array of 34-byte entries, big-endian, last offsets ascending:

    version             int16   0
    producer id         int64
    first offset        int64   of the transaction, possibly in an earlier segment
    last offset         int64   of its abort marker, which is in this segment
    last stable offset  int64   of the log after the marker was written

A read_committed fetch returns every aborted transaction that overlaps the fetched records.  The
last stable offset limits the search: after an entry whose last stable offset is at or beyond the
end of the range, no entry can overlap the range.

The last stable offset is therefore at most the offset after the marker, even if the marker is
appended in one record set with later batches.  (Kafka's followers write the first offset of another
producer's transaction instead.  A search that ends there misses an earlier transaction of the same
producer.  Such a file is rebuilt.)

The file is created with its first entry, so most segments have none.  Its entries are read once.

Owner: the event loop; ``flush`` and ``truncate_file`` may run on a disk thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from odradek.storage import files
from odradek.storage.open_segments import opening_file

ENTRY = Struct(">hqqqq")
VERSION = 0


class AbortedTxn(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TxnIndexSearchResult(NamedTuple):
    """The aborted transactions that overlap a range; ``is_complete`` if no later one can."""

    aborted_txns: list[AbortedTxn]
    is_complete: bool


class TransactionIndex:
    """The aborted transactions of a segment, in the order of their markers."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._entries: list[AbortedTxn] | None = None if path.exists() else []

    def append(self, aborted_txn: AbortedTxn) -> None:
        entries = self._load()
        assert not entries or aborted_txn.last_offset > entries[-1].last_offset, (
            self.path,
            aborted_txn,
        )
        descriptor = files.open_for_writing(self.path)
        try:
            files.write_at(
                descriptor, [ENTRY.pack(VERSION, *aborted_txn)], len(entries) * ENTRY.size
            )
        finally:
            files.system.close(descriptor)
        entries.append(aborted_txn)

    @property
    def entries(self) -> list[AbortedTxn]:
        if self._entries is None:
            with opening_file():
                return self._load()
        return self._entries

    def _load(self) -> list[AbortedTxn]:
        if self._entries is None:
            self._entries = list(_read(self.path))
        return self._entries

    def collect_aborted_txns(self, *, start: int, end: int) -> TxnIndexSearchResult:
        """Return the transactions that overlap the offsets from ``start`` to before ``end``."""
        found = []
        for aborted in self.entries:
            if aborted.last_offset >= start and aborted.first_offset < end:
                found.append(aborted)
            if aborted.last_stable_offset >= end:
                return TxnIndexSearchResult(found, is_complete=True)
        return TxnIndexSearchResult(found, is_complete=False)

    @property
    def is_empty(self) -> bool:
        """Whether there is no entry; False for a file that has not been read."""
        return self._entries is not None and not self._entries

    def truncate(self, offset: int) -> None:
        """Remove every transaction that ended at or after ``offset``."""
        self.truncate_entries(offset)
        self.truncate_file()

    def truncate_entries(self, offset: int) -> None:
        """Truncate in memory only; ``truncate_file`` must follow."""
        remaining = [aborted for aborted in self.entries if aborted.last_offset < offset]
        if len(remaining) < len(self.entries):
            self._entries = remaining

    def truncate_file(self) -> None:
        """Truncate the file to the entries in memory.  May run on a disk thread."""
        entries = self._entries
        length = None if entries is None else len(entries) * ENTRY.size
        if length is not None and (files.size_of(self.path) or 0) > length:
            files.truncate(self.path, length)

    def replace(self, entries: list[AbortedTxn]) -> None:
        """Replace the file, whatever its state.  The entries are durable when this returns."""
        if entries:
            files.replace(self.path, b"".join(ENTRY.pack(VERSION, *entry) for entry in entries))
        else:
            files.remove_durably(self.path)
        self._entries = entries

    def reset(self) -> None:
        """Remove every transaction, whatever the state of the file."""
        files.remove(self.path)
        self._entries = []

    def passes_sanity_check(self, *, base_offset: int) -> bool:
        """Whether the file has whole entries that are valid for the base offset."""
        if self._entries == []:
            return True
        if self.path.stat().st_size % ENTRY.size != 0:
            return False
        previous = base_offset - 1
        for version, *fields in ENTRY.iter_unpack(self.path.read_bytes()):
            _, first_offset, last_offset, last_stable_offset = fields
            if version != VERSION or not previous < last_offset or first_offset > last_offset:
                return False
            if not 0 <= last_stable_offset <= last_offset + 1:
                return False
            previous = last_offset
        return True

    def flush(self) -> None:
        if self.path.exists():
            files.sync_path(self.path)


def _read(path: Path) -> Iterator[AbortedTxn]:
    content = path.read_bytes()
    whole_bytes = len(content) - len(content) % ENTRY.size
    for _, *fields in ENTRY.iter_unpack(content[:whole_bytes]):
        yield AbortedTxn(*fields)
