"""Cutting a log's end: a follower drops what its leader never had.

The order keeps every crash harmless.  Segments go from the last to the first, and for good before
the one that stays is cut, so that what is left is always a prefix of the log.  The cut is synced,
as what is appended next must not end where an old batch happens to begin.  The recovery point is
below the cut before anything can be appended there again, as it is only ever checkpointed from
memory.  Epochs and producers are cut after the batches, and the loader cuts them again if they were
not.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from odradek.protocol.errors import CorruptMessage, KafkaError
from odradek.protocol.records.record_set import AnyBatch
from odradek.storage import files
from odradek.storage.deletion import set_aside_from_the_end
from odradek.storage.log_segment import LogSegment
from odradek.storage.paths import Content
from odradek.storage.producers.recall import recall
from odradek.storage.producers.state import ProducerStates
from odradek.storage.segment_list import SegmentList

if TYPE_CHECKING:
    from odradek.storage.log import Log


def _ignore(what: str) -> None:
    """Nobody wants to know."""


def truncate(
    log: Log, offset: int, *, now_ms: int, notice: Callable[[str], None] = _ignore
) -> list[LogSegment]:
    """Drop every batch that holds ``offset`` or a later one; the segments that wait for removal.

    A batch that begins before ``offset`` and reaches beyond it goes whole: the log then ends where
    that batch began.  ``notice`` is told what cannot be read of what stays.
    """
    if offset >= log.end_offset:
        # A leader may have noted its epoch here and never appended.
        log.epochs.truncate_from_end(log.end_offset)
        return []
    if log.segments.first.base_offset > offset:
        return truncate_fully(log, offset)
    dropped = [segment for segment in log.segments if segment.base_offset > offset]
    log.segments.remove(dropped)
    set_aside_from_the_end(dropped, log.producers.snapshots)
    active = log.segments.active
    first_dropped = active.find(offset)
    if active.truncate(offset):
        files.sync(active.file.descriptor)
    log.end_offset = offset if first_dropped is None else min(offset, first_dropped.base_offset)
    _cut_ends(log)
    for damage in rebuild_producers(log.producers, log.segments, end=log.end_offset, now_ms=now_ms):
        notice(str(damage))
    log.producers.on_high_watermark(log.high_watermark)
    return dropped


def truncate_fully(
    log: Log, new_start: int, *, start_offset: int | None = None
) -> list[LogSegment]:
    """Drop everything and begin again at ``new_start``; the segments that wait for removal."""
    dropped = list(log.segments)
    log.segments.remove(dropped)
    set_aside_from_the_end(dropped, log.producers.snapshots)
    first = LogSegment(log.directory, new_start, log.shape)
    first.create()
    log.segments.add(first)
    log.end_offset = new_start
    log.start_offset = new_start if start_offset is None else start_offset
    log.epochs.clear()
    log.producers.truncate_fully(new_start)
    _cut_ends(log)
    return dropped


def _cut_ends(log: Log) -> None:
    log.cuts.append(log.end_offset)
    log.start_offset = min(log.start_offset, log.end_offset)
    log.recovery_point = min(log.recovery_point, log.end_offset)
    log.high_watermark = max(log.start_offset, min(log.high_watermark, log.end_offset))
    log.epochs.truncate_from_end(log.end_offset)


def rebuild_producers(
    producers: ProducerStates, segments: SegmentList, *, end: int, now_ms: int
) -> list[KafkaError]:
    """Bring the producers' states to ``end``: from the newest snapshot, then from the batches.

    All batches that are there count, even those before the start of the log: a retry of one is
    still a retry.  Left out are batches with wrong offsets, and from a damaged one on the rest of
    its segment; both are returned.
    """
    start = min(segments.first.base_offset, end)
    damages: list[KafkaError] = [*producers.reload(start=start, end=end, now_ms=now_ms)]
    unknown = segments.between(producers.end_offset, end) if producers.end_offset < end else []
    for segment in unknown:
        path = segment.path(Content.BATCHES)
        damages += [
            CorruptMessage(f"{path}: {wrong}") for wrong in _replay(segment, producers, end)
        ]
    producers.advance(end)
    recall(producers, segments, end=end)
    return damages


def _replay(segment: LogSegment, producers: ProducerStates, end: int) -> Iterator[str]:
    """What is wrong, if anything is."""
    try:
        for position, batch in _batches_from(segment, producers.end_offset):
            batch.check_crc()
            # The checksum does not cover offsets, and a search would pass over a wrong one.
            if producers.end_offset <= batch.last_offset < end:
                producers.replay([batch], end_offset=batch.next_offset)
            else:
                yield f"{batch} at {position}, where {producers.end_offset} is next"
    except CorruptMessage as damage:
        yield str(damage)


def _batches_from(segment: LogSegment, offset: int) -> Iterator[tuple[int, AnyBatch]]:
    if offset <= segment.base_offset:
        return segment.batches()
    first = segment.find(offset)
    return iter(()) if first is None else segment.batches(start=first.position)
