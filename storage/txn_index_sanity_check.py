"""Do the entries of a transaction index agree with the batches they speak of?

The file has no checksum, and a wrong entry would show aborted records to readers at read_committed,
or hide others from them.  So when a log is opened, every entry is compared with the log:

    last offset          an abort marker of the producer is there
    first offset         a transactional batch of the producer begins there
    last stable offset   follows the marker, or is where a batch of another transaction begins

What compaction or retention has removed proves nothing, and neither does a damaged batch.

Owner: whoever opens the log.
"""

from __future__ import annotations

from odradek.protocol.errors import CorruptMessage
from odradek.protocol.records.control import ControlType, control_type_of
from odradek.protocol.records.record_set import AnyBatch
from odradek.storage.log_segment import LogSegment
from odradek.storage.segment_list import SegmentList
from odradek.storage.transaction_index import AbortedTransaction


def agrees_with_batches(segment: LogSegment, segments: SegmentList) -> bool:
    """``segment`` is one of ``segments``, and its transaction index has whole entries."""
    following = segments.after(segment)
    end = segment.next_offset() if following is None else following.base_offset
    return all(
        entry.first_offset >= 0 and entry.last_offset < end and _agrees(entry, segments)
        for entry in segment.transaction_index.entries
    )


def _agrees(entry: AbortedTransaction, segments: SegmentList) -> bool:
    marker = _batch_at(entry.last_offset, segments)
    if marker is not None and not _aborts(marker, entry.producer_id):
        return False
    first = _batch_at(entry.first_offset, segments)
    if first is not None and not _can_begin(first, entry.first_offset, entry.producer_id):
        return False
    if entry.last_stable_offset == entry.last_offset + 1:
        return True
    undecided = _batch_at(entry.last_stable_offset, segments)
    return undecided is None or (
        undecided.producer_id != entry.producer_id
        and _can_begin(undecided, entry.last_stable_offset, undecided.producer_id)
    )


def _batch_at(offset: int, segments: SegmentList) -> AnyBatch | None:
    """The batch that holds ``offset``; None if there is none any more, or none to be believed."""
    segment = segments.holding(offset)
    if segment is None:
        return None
    try:
        place = segment.find(offset)
        if place is None or place.base_offset > offset:
            return None
        batch = segment.batch_at(place)
    except CorruptMessage:  # whoever reads the batches will be told
        return None
    return batch if batch.is_valid() else None


def _aborts(batch: AnyBatch, producer_id: int) -> bool:
    if not batch.is_control or batch.producer_id != producer_id:
        return False
    kinds = [control_type_of(record) for record in batch.records()]
    # Compaction may have emptied it.
    return not kinds or kinds[0] is ControlType.ABORT


def _can_begin(batch: AnyBatch, offset: int, producer_id: int) -> bool:
    """Whether a transaction of the producer can begin with this batch at that offset."""
    is_data = batch.is_transactional and not batch.is_control
    return is_data and batch.base_offset == offset and batch.producer_id == producer_id
