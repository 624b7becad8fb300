"""Compares the entries of a transaction index with the batches when a log is opened.

The file has no checksum, and a wrong entry would show aborted records to read_committed consumers,
or hide committed ones.  Every entry is therefore compared with the log:

    last offset          is an abort marker of the producer
    first offset         is the base offset of a transactional batch of the producer
    last stable offset   follows the marker, or is the base offset of a batch of another transaction

Batches that compaction or retention has removed prove nothing, and neither do corrupt batches.

Owner: the thread that opens the log.
"""

from __future__ import annotations

from odradek.protocol.errors import CorruptMessage
from odradek.protocol.records.control_records import ControlRecordType, parse_control_record_type
from odradek.protocol.records.record_set import AnyBatch
from odradek.storage.log_segment import LogSegment
from odradek.storage.log_segments import LogSegments
from odradek.storage.transaction_index import AbortedTxn


def txn_index_matches_batches(segment: LogSegment, segments: LogSegments) -> bool:
    """``segment`` is one of ``segments``, and its transaction index has whole entries."""
    following = segments.higher_segment(segment)
    end = segment.read_next_offset() if following is None else following.base_offset
    return all(
        entry.first_offset >= 0
        and entry.last_offset < end
        and _entry_matches_batches(entry, segments)
        for entry in segment.transaction_index.entries
    )


def _entry_matches_batches(entry: AbortedTxn, segments: LogSegments) -> bool:
    marker = _read_valid_batch(entry.last_offset, segments)
    if marker is not None and not _is_abort_marker_of(marker, entry.producer_id):
        return False
    first = _read_valid_batch(entry.first_offset, segments)
    if first is not None and not _can_start_transaction(
        first, entry.first_offset, entry.producer_id
    ):
        return False
    if entry.last_stable_offset == entry.last_offset + 1:
        return True
    unstable = _read_valid_batch(entry.last_stable_offset, segments)
    return unstable is None or (
        unstable.producer_id != entry.producer_id
        and _can_start_transaction(unstable, entry.last_stable_offset, unstable.producer_id)
    )


def _read_valid_batch(offset: int, segments: LogSegments) -> AnyBatch | None:
    """Return the batch that contains ``offset``; None if it is removed or corrupt."""
    segment = segments.floor_segment(offset)
    if segment is None:
        return None
    try:
        location = segment.translate_offset(offset)
        if location is None or location.base_offset > offset:
            return None
        batch = segment.read_batch(location)
    except CorruptMessage:  # readers of the batches get the error
        return None
    return batch if batch.is_valid() else None


def _is_abort_marker_of(batch: AnyBatch, producer_id: int) -> bool:
    if not batch.is_control or batch.producer_id != producer_id:
        return False
    types = [parse_control_record_type(record) for record in batch.records()]
    # Compaction may have removed the marker's record and kept the batch.
    return not types or types[0] is ControlRecordType.ABORT


def _can_start_transaction(batch: AnyBatch, offset: int, producer_id: int) -> bool:
    """Whether a transaction of the producer can begin with this batch at ``offset``."""
    is_data = batch.is_transactional and not batch.is_control
    return is_data and batch.base_offset == offset and batch.producer_id == producer_id
