"""Compares a future log with its current log, and copies the state that batches do not carry.

Owner: the event loop.
"""

from __future__ import annotations

from odradek.protocol.records.batch import HEADER_BYTES
from odradek.storage import files
from odradek.storage.manager.hosted_log import HostedLog
from odradek.storage.unified_log import UnifiedLog


def matching_epochs_end_offset(one: UnifiedLog, other: UnifiedLog) -> int:
    """Return the offset up to which both logs have records of the same leader epochs."""
    start = max(one.log_start_offset, other.log_start_offset)
    end = min(one.log_end_offset, other.log_end_offset)
    entries = (*one.leader_epoch_cache.entries, *other.leader_epoch_cache.entries)
    for offset in sorted({start, *(entry.start_offset for entry in entries)}):
        is_shared = start <= offset < end
        if is_shared and one.leader_epoch_cache.epoch_for_offset(
            offset
        ) != other.leader_epoch_cache.epoch_for_offset(offset):
            return offset
    return end


def read_batch_header(hosted_log: HostedLog, offset: int) -> bytes:
    """Return the header, with checksum, of the batch that holds ``offset``; empty if none does."""
    with hosted_log as log:
        region = log.read(offset, max_bytes=HEADER_BYTES, max_offset=log.log_end_offset)
        length = min(region.length, HEADER_BYTES)
        return files.read_at(region.descriptor, length, region.position) if length else b""


def update_future_log(future_log: UnifiedLog, source: UnifiedLog) -> bool:
    """Copy what batches do not carry: high watermark, log start offset, an epoch without records.

    Returns whether the log start offset of the future log has moved.
    """
    high_watermark = min(source.high_watermark, future_log.log_end_offset)
    if high_watermark > future_log.high_watermark:
        future_log.update_high_watermark(high_watermark)
    latest = source.leader_epoch_cache.latest_entry
    if (
        latest is not None
        and latest.start_offset == future_log.log_end_offset == source.log_end_offset
    ):
        future_log.leader_epoch_cache.assign(latest.epoch, start_offset=latest.start_offset)
    return future_log.maybe_increment_log_start_offset(
        min(source.log_start_offset, future_log.high_watermark)
    )
