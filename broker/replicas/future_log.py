"""What a copy of a log has in common with it, and takes over from it.

Owner: the event loop.
"""

from __future__ import annotations

from odradek.protocol.records.batch import HEADER_BYTES
from odradek.storage import files
from odradek.storage.log import Log
from odradek.storage.manager.hosted_log import HostedLog


def same_epochs_end(one: Log, other: Log) -> int:
    """Up to where two logs have records of the same leaders."""
    start = max(one.start_offset, other.start_offset)
    end = min(one.end_offset, other.end_offset)
    entries = (*one.epochs.entries, *other.epochs.entries)
    for offset in sorted({start, *(entry.start_offset for entry in entries)}):
        is_shared = start <= offset < end
        if is_shared and one.epochs.epoch_of(offset) != other.epochs.epoch_of(offset):
            return offset
    return end


def header_at(hosted: HostedLog, offset: int) -> bytes:
    """Of the batch that holds the offset, with its checksum; nothing if there is none."""
    with hosted as log:
        region = log.read(offset, max_bytes=HEADER_BYTES, up_to=log.end_offset)
        length = min(region.length, HEADER_BYTES)
        return files.read_at(region.descriptor, length, region.position) if length else b""


def follow(copy: Log, source: Log) -> bool:
    """What no batch tells: both ends of what may be read, and an epoch without records yet.

    Whether the copy begins later now.
    """
    seen = min(source.high_watermark, copy.end_offset)
    if seen > copy.high_watermark:
        copy.advance_high_watermark(seen)
    latest = source.epochs.latest
    if latest is not None and latest.start_offset == copy.end_offset == source.end_offset:
        copy.epochs.assign(latest.epoch, start_offset=latest.start_offset)
    return copy.advance_start(min(source.start_offset, copy.high_watermark))
