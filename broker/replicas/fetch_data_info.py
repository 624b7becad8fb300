"""What a read of a partition finds: a region of a file, and what may not be believed of it.

Owner: the event loop.
"""

from __future__ import annotations

from dataclasses import dataclass

from odradek.protocol.file_region import FileRegion
from odradek.storage.log import Log
from odradek.storage.log_segment import LogSegment
from odradek.storage.transaction_index import AbortedTransaction


@dataclass(slots=True)
class Portion:
    """What a read found; treat as immutable."""

    records: FileRegion
    high_watermark: int
    last_stable_offset: int
    start_offset: int
    aborted: list[AbortedTransaction] | None = None  # None unless only committed records count


def aborted_in(log: Log, offset: int, region: FileRegion, up_to: int) -> list[AbortedTransaction]:
    """Those that reach into what was read, lest all that follow are told of again and again."""
    if not region.length or next(log.segments.aborting_from(offset), None) is None:
        return []
    end = min(up_to, _end_of(log, offset, region))
    return log.aborted_transactions(start=offset, end=end)


def _end_of(log: Log, offset: int, region: FileRegion) -> int:
    """An offset that none in the region reaches, and few below it are not in the region."""
    segment: LogSegment | None = log.segments.holding(offset) or log.segments.first
    # Compaction may have left nothing at or after the offset in the segment that held it.
    while segment is not None and segment.file is not region.keeper:
        segment = log.segments.after(segment)
    if segment is None:
        return log.end_offset
    entry = segment.index.entry_after(region.position + region.length - 1)
    if entry is not None:
        return entry.offset
    following = log.segments.after(segment)
    return log.end_offset if following is None else following.base_offset
