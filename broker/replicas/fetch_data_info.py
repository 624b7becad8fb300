"""The result of a read of a partition: a file region and the aborted transactions in it.

Owner: the event loop.
"""

from __future__ import annotations

from dataclasses import dataclass

from odradek.protocol.file_region import FileRegion
from odradek.storage.log_segment import LogSegment
from odradek.storage.transaction_index import AbortedTxn
from odradek.storage.unified_log import UnifiedLog


@dataclass(slots=True)
class FetchDataInfo:
    """The result of a read; treat it as immutable."""

    records: FileRegion
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted_transactions: list[AbortedTxn] | None = None  # None unless read_committed


def collect_aborted_transactions(
    log: UnifiedLog, offset: int, region: FileRegion, up_to: int
) -> list[AbortedTxn]:
    """Return the aborted transactions that overlap the region.

    Later ones are omitted, because every following fetch would return them again.
    """
    if not region.length or next(log.segments.with_aborted_txns_from(offset), None) is None:
        return []
    end = min(up_to, _upper_bound_offset(log, offset, region))
    return log.collect_aborted_transactions(start=offset, end=end)


def _upper_bound_offset(log: UnifiedLog, offset: int, region: FileRegion) -> int:
    """Return an offset above all records in the region, from the next index entry if any."""
    segment: LogSegment | None = log.segments.floor_segment(offset) or log.segments.first
    # Compaction may have removed all records at or after the offset from its segment.
    while segment is not None and segment.file is not region.file:
        segment = log.segments.higher_segment(segment)
    if segment is None:
        return log.log_end_offset
    entry = segment.offset_index.entry_after(region.position + region.length - 1)
    if entry is not None:
        return entry.offset
    following = log.segments.higher_segment(segment)
    return log.log_end_offset if following is None else following.base_offset
