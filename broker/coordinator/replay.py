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

from odradek.protocol.records.control_records import parse_end_transaction_marker
from odradek.protocol.records.record_set import AnyBatch

_new_tuple = tuple.__new__


class ReplayedRecord(NamedTuple):
    """A record that counts, or will if its transaction is committed."""

    offset: int
    key: bytes
    value: bytes


class Replay:
    """Takes the batches of a log in their order."""

    def __init__(self) -> None:
        self._records: dict[bytes, ReplayedRecord] = {}
        self._pending: dict[int, dict[bytes, ReplayedRecord]] = {}

    def add_batch(self, batch: AnyBatch) -> None:
        if batch.is_control:
            for record in batch.records():
                marker = parse_end_transaction_marker(record)
                if marker is not None:
                    self._complete_transaction(batch.producer_id, is_commit=marker.is_commit)
        elif batch.is_transactional:
            self._add_transactional_batch(batch)
        else:
            self._add_plain_batch(batch)

    def add_record(self, offset: int, key: bytes, value: bytes | None) -> None:
        """One of no transaction."""
        latest = self._records
        # What is put anew goes to the end, so that nobody has to sort a million of them.
        latest.pop(key, None)
        if value is not None:
            latest[key] = _new_tuple(ReplayedRecord, (offset, key, value))
        elif self._pending:
            for records in self._pending.values():
                records.pop(key, None)

    def records(self) -> list[ReplayedRecord]:
        """Those that count, in the order in which they came to."""
        return list(self._records.values())

    def pending(self) -> Iterator[tuple[int, ReplayedRecord]]:
        """Those of open transactions, each with its producer's id."""
        for producer_id, records in self._pending.items():
            for record in sorted(records.values()):
                yield producer_id, record

    def _add_plain_batch(self, batch: AnyBatch) -> None:
        for offset, _, key, value, _ in batch.records():
            if key is not None:  # else it is not ours, whatever it is
                self.add_record(offset, key, value)

    def _add_transactional_batch(self, batch: AnyBatch) -> None:
        records = self._pending.setdefault(batch.producer_id, {})
        for offset, _, key, value, _ in batch.records():
            if key is None:
                continue
            if value is None:
                records.pop(key, None)
            else:
                records[key] = ReplayedRecord(offset, key, value)

    def _complete_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        records = self._pending.pop(producer_id, {})
        if not is_commit:
            return
        for key, record in records.items():
            present = self._records.get(key)
            if present is None or present.offset < record.offset:
                self._records.pop(key, None)
                self._records[key] = record
