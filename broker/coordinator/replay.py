"""What a partition of an internal topic amounts to: the last record of each key.

That is what compaction would leave, so that a log that was compacted and one that was not come to
the same.  Keys and values stay bytes, since most are superseded before anybody looks at them.

Records of a transaction are pending until its producer's marker: those of an aborted one are
dropped; those of one that was committed count, unless a later record of the same key is there.  A
tombstone takes away what is pending for its key as well.

Owner: whoever reads the log.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from odradek.protocol.records.control import marker_of
from odradek.protocol.records.record_set import AnyBatch

_new = tuple.__new__


class Kept(NamedTuple):
    """A record that counts, or will if its transaction is committed."""

    offset: int
    key: bytes
    value: bytes


class Replay:
    """Takes the batches of a log in their order."""

    def __init__(self) -> None:
        self._kept: dict[bytes, Kept] = {}
        self._pending: dict[int, dict[bytes, Kept]] = {}

    def take(self, batch: AnyBatch) -> None:
        if batch.is_control:
            for record in batch.records():
                marker = marker_of(record)
                if marker is not None:
                    self._end(batch.producer_id, is_commit=marker.is_commit)
        elif batch.is_transactional:
            self._take_pending(batch)
        else:
            self._take_plain(batch)

    def take_record(self, offset: int, key: bytes, value: bytes | None) -> None:
        """One of no transaction."""
        kept = self._kept
        # What is put anew goes to the end, so that nobody has to sort a million of them.
        kept.pop(key, None)
        if value is not None:
            kept[key] = _new(Kept, (offset, key, value))
        elif self._pending:
            for records in self._pending.values():
                records.pop(key, None)

    def records(self) -> list[Kept]:
        """Those that count, in the order in which they came to."""
        return list(self._kept.values())

    def pending(self) -> Iterator[tuple[int, Kept]]:
        """Those of open transactions, each with its producer's id."""
        for producer_id, records in self._pending.items():
            for kept in sorted(records.values()):
                yield producer_id, kept

    def _take_plain(self, batch: AnyBatch) -> None:
        for offset, _, key, value, _ in batch.records():
            if key is not None:  # else it is not ours, whatever it is
                self.take_record(offset, key, value)

    def _take_pending(self, batch: AnyBatch) -> None:
        records = self._pending.setdefault(batch.producer_id, {})
        for offset, _, key, value, _ in batch.records():
            if key is None:
                continue
            if value is None:
                records.pop(key, None)
            else:
                records[key] = Kept(offset, key, value)

    def _end(self, producer_id: int, *, is_commit: bool) -> None:
        records = self._pending.pop(producer_id, {})
        if not is_commit:
            return
        for key, kept in records.items():
            present = self._kept.get(key)
            if present is None or present.offset < kept.offset:
                self._kept.pop(key, None)
                self._kept[key] = kept
