"""What a read of a partition finds: a region of a file, and what may not be believed of it.

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
    """What a read found; treat as immutable."""

    records: FileRegion
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted_transactions: list[AbortedTxn] | None = None  # None unless only committed records count


def collect_aborted_transactions(
    log: UnifiedLog, offset: int, region: FileRegion, up_to: int
) -> list[AbortedTxn]:
    """Those that reach into what was read, lest all that follow are told of again and again."""
    if not region.length or next(log.segments.with_aborted_txns_from(offset), None) is None:
        return []
    end = min(up_to, _upper_bound_offset(log, offset, region))
    return log.collect_aborted_transactions(start=offset, end=end)


def _upper_bound_offset(log: UnifiedLog, offset: int, region: FileRegion) -> int:
    """An offset that none in the region reaches, and few below it are not in the region."""
    segment: LogSegment | None = log.segments.floor_segment(offset) or log.segments.first
    # Compaction may have left nothing at or after the offset in the segment that held it.
    while segment is not None and segment.file is not region.file:
        segment = log.segments.higher_segment(segment)
    if segment is None:
        return log.log_end_offset
    entry = segment.offset_index.entry_after(region.position + region.length - 1)
    if entry is not None:
        return entry.offset
    following = log.segments.higher_segment(segment)
    return log.log_end_offset if following is None else following.base_offset
