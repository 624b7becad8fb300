"""Reduces a partition of an internal topic to the last record of each key.

Compaction would leave the same records, so a compacted and an uncompacted log give the same result.
Keys and values stay bytes, because later records supersede most of them before they are decoded.

Records of a transaction are pending until the marker of its producer.  An abort marker drops them.
A commit marker makes them take effect, except where a later record of the same key exists.  A
tombstone also removes the pending records of its key.

Owner: the reader of the log.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from odradek.protocol.records.control_records import parse_end_transaction_marker
from odradek.protocol.records.record_set import AnyBatch

_new_tuple = tuple.__new__


class ReplayedRecord(NamedTuple):
    """A record in effect, or one that takes effect when its transaction is committed."""

    offset: int
    key: bytes
    value: bytes


class Replay:
    """Consumes the batches of a log in order."""

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
        """Add a record that is not part of a transaction."""
        latest = self._records
        # Remove before inserting: the key moves to the end, and the records stay in offset order
        # without sorting a million of them.
        latest.pop(key, None)
        if value is not None:
            latest[key] = _new_tuple(ReplayedRecord, (offset, key, value))
        elif self._pending:
            for records in self._pending.values():
                records.pop(key, None)

    def records(self) -> list[ReplayedRecord]:
        """Return the records in effect, in the order in which they took effect."""
        return list(self._records.values())

    def pending(self) -> Iterator[tuple[int, ReplayedRecord]]:
        """Yield the records of open transactions, each with its producer id."""
        for producer_id, records in self._pending.items():
            for record in sorted(records.values()):
                yield producer_id, record

    def _add_plain_batch(self, batch: AnyBatch) -> None:
        for offset, _, key, value, _ in batch.records():
            if key is not None:  # coordinators write no record without a key
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
