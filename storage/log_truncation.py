"""Cutting a log's end: a follower drops what its leader never had.

    plan_truncation   the log ends there for everybody who uses it, from now on
    run               the files follow, which sleeps in the kernel; before it is done nothing may be
                      appended, since only then does no power cut undo the truncation

The order of ``run`` keeps every crash harmless.  Segments go from the last to the first, and for
good before the one that stays is cut, so that what is left is always a prefix of the log.  The cut
is synced, as what is appended next must not end where an old batch happens to begin, and the
transaction index is cut after it: aborted records must not outlive their entry.  Offset and time
indexes may be cut before, as they may always lack entries, and snapshots may be removed before, as
the batches tell the same; that they stay away is synced last.  The recovery point is below the cut
before anything can be appended there again, as it is only ever checkpointed from memory.  So are
the epochs in their file, when the batches are gone for good.

Where the batches break off before the offset, the log is cut there: what would be appended behind
such a place could not be read.

Owner: the event loop; ``run`` may run on a disk thread.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from odradek.protocol.errors import CorruptMessage, KafkaError
from odradek.protocol.records.record_set import AnyBatch
from odradek.storage import batch_scan, files
from odradek.storage.deletion import set_aside_from_the_end
from odradek.storage.leader_epochs import LeaderEpochs
from odradek.storage.log_segment import LogSegment
from odradek.storage.open_file import OpenFile
from odradek.storage.open_segments import undivided
from odradek.storage.paths import Content, file_path
from odradek.storage.producers.recall import recall
from odradek.storage.producers.snapshot import ProducerSnapshots
from odradek.storage.producers.state import ProducerStates
from odradek.storage.segment_list import SegmentList
from odradek.storage.transaction_index import TransactionIndex

if TYPE_CHECKING:
    from odradek.storage.log import Log

#: What producers know the log up to when it is not the log any more.
_NOWHERE = -1


def _ignore(what: str) -> None:
    """Nobody wants to know."""


class _Cut(NamedTuple):
    """The segment with which the log is to end, and where both do."""

    segment: LogSegment
    position: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class Truncation:
    """What is left to be done; the ``dropped`` segments wait for removal when it is."""

    dropped: Sequence[LogSegment]
    run: Callable[[], None]


def truncate(
    log: Log, offset: int, *, now_ms: int, notice: Callable[[str], None] = _ignore
) -> list[LogSegment]:
    """Both steps at once, for whoever may sleep; the segments that wait for removal."""
    truncation = plan_truncation(log, offset, now_ms=now_ms, notice=notice)
    truncation.run()
    return list(truncation.dropped)


def plan_truncation(
    log: Log, offset: int, *, now_ms: int, notice: Callable[[str], None] = _ignore
) -> Truncation:
    """Drop every batch that holds ``offset`` or a later one.

    A batch that begins before ``offset`` and reaches beyond it goes whole: the log then ends where
    that batch began.  ``notice`` is told what cannot be read of what stays.
    """
    if offset >= log.end_offset:
        # A leader may have noted its epoch here and never appended.
        log.epochs.truncate_from_end(log.end_offset)
        return Truncation([], log.epochs.flush)
    if log.segments.first.base_offset > offset:
        return plan_new_beginning(log, offset)
    active = log.segments.holding(offset)
    assert active is not None, (log, offset)
    # First of all, as it reads, and so may fail.
    cut = _find_cut(active, offset, notice)
    had_producers = not log.producers.is_empty or _may_reopen(log.segments, cut)
    with undivided():
        return _cut_at(log, cut, had_producers, now_ms=now_ms, notice=notice)


def _cut_at(
    log: Log, cut: _Cut, had_producers: bool, *, now_ms: int, notice: Callable[[str], None]
) -> Truncation:
    active, position, end_offset = cut
    file = active.file
    dropped = [each for each in log.segments if each.base_offset > active.base_offset]
    log.segments.remove(dropped)
    # Even if no batch of it goes: indexes may name offsets whose batches compaction has removed.
    shortened = _shortened(active, size_bytes=position, end_offset=end_offset)
    log.segments.replace([active], [shortened])
    log.end_offset = end_offset
    log.epochs.cut(end_offset)
    _cut_ends(log)
    producers, segments = log.producers, log.segments
    for damage in _go_back(producers, segments, had_producers, end=end_offset, now_ms=now_ms):
        notice(str(damage))
    log.producers.transactions.on_high_watermark(log.high_watermark)
    step = partial(_cut_files, dropped, file, position, shortened.transaction_index, log.epochs)
    return Truncation(dropped, step)


def _find_cut(segment: LogSegment, offset: int, notice: Callable[[str], None]) -> _Cut:
    try:
        first_dropped = segment.find(offset)
    except CorruptMessage as damage:
        position, end_offset = _breaking_off(segment, offset)
        notice(f"{damage}; the log is cut at {end_offset} already, instead of {offset}")
        return _Cut(segment, position, end_offset)
    if first_dropped is None:
        return _Cut(segment, segment.size_bytes, offset)
    return _Cut(segment, first_dropped.position, min(offset, first_dropped.base_offset))


def _breaking_off(segment: LogSegment, offset: int) -> tuple[int, int]:
    """Where the batches, from the last index entry before ``offset`` on, can be read no more."""
    entry = segment.index.lookup(offset)
    while True:
        position, next_offset = entry.position, segment.base_offset
        batches = segment.batches(start=position)
        with suppress(CorruptMessage):
            for at, batch in batch_scan.ascending(batches, first=next_offset, last=offset - 1):
                batch.check_crc()
                position, next_offset = at + batch.size_bytes, batch.next_offset
        if position > entry.position or entry.position == 0:
            return position, next_offset
        # Not even the batch that it leads to: the one before it tells which offset is next.
        entry = segment.index.lookup(entry.offset - 1)


def _may_reopen(segments: SegmentList, cut: _Cut) -> bool:
    """Whether a transaction may have ended in what is cut off, so that it is open again.

    Its producer may have expired since, and be known to nobody.  (Kafka then takes the transaction
    for none: readers are shown its records, even if it is aborted in the end.)  What lies in later
    segments is not gone through for that.
    """
    if cut.segment is not segments.active:
        return True
    try:
        return any(
            batch.is_control or not batch.is_valid()
            for _, batch in cut.segment.batches(start=cut.position)
        )
    except CorruptMessage:
        return True


def _shortened(segment: LogSegment, *, size_bytes: int, end_offset: int) -> LogSegment:
    """The segment as it will be when its files have been cut; what was lent of it stays open."""
    for index in (segment.index, segment.time_index):
        index.truncate(end_offset)
        index.entries.seal()
    segment.abandon()
    # A file that has been cut has no room ahead, unless it begins anew.
    shape = replace(segment.shape, preallocated_bytes=0) if size_bytes else segment.shape
    shortened = LogSegment(segment.directory, segment.base_offset, shape)
    shortened.size_bytes = size_bytes
    shortened.transaction_index = segment.transaction_index
    shortened.transaction_index.forget(end_offset)
    if size_bytes:
        shortened.begun_ms = segment.begun_ms
    return shortened


def _cut_files(
    dropped: Sequence[LogSegment],
    file: OpenFile,
    size_bytes: int,
    aborted: TransactionIndex,
    epochs: LeaderEpochs,
) -> None:
    directory = aborted.path.parent
    # The snapshots of the dropped segments are gone already.
    set_aside_from_the_end(dropped, ProducerSnapshots(directory, ()))
    if os.fstat(file.descriptor).st_size > size_bytes:
        files.system.ftruncate(file.descriptor, size_bytes)
    files.sync(file.descriptor)
    aborted.cut()
    epochs.flush_cut()
    files.sync_directory(directory)


def _go_back(
    producers: ProducerStates, segments: SegmentList, had_any: bool, *, end: int, now_ms: int
) -> list[KafkaError]:
    """``rebuild_producers`` after a cut, but for syncing which snapshots are gone.

    Where there was no producer none is looked for, as in Kafka: one that has expired may be known a
    little less long for that.
    """
    start = min(segments.first.base_offset, end)
    producers.snapshots.remove_outside(start=start, end=end)
    producers.advance(_NOWHERE)
    damages: list[KafkaError] = [*producers.reload(start=start, end=end, now_ms=now_ms)]
    if not had_any and producers.is_empty:
        producers.advance(end)
        return damages
    return damages + _learn(producers, segments, end=end)


def truncate_fully(
    log: Log, new_start: int, *, start_offset: int | None = None
) -> list[LogSegment]:
    """``plan_new_beginning`` and what it plans at once; the segments that wait for removal."""
    truncation = plan_new_beginning(log, new_start, start_offset=start_offset)
    truncation.run()
    return list(truncation.dropped)


def begin_before(log: Log, new_start: int) -> list[LogSegment]:
    """An empty log begins at a batch that is about to be appended; what waits for removal.

    A segment that is only renamed need not be synced: if a power cut gives it its old name back,
    the batch in it begins before it, and recovery cuts it off.  But a snapshot would be believed.
    """
    can_be_undone = log.segments.is_bare and not log.producers.snapshots.offsets
    truncation = plan_new_beginning(log, new_start)
    if not can_be_undone:
        truncation.run()
    return list(truncation.dropped)


def plan_new_beginning(log: Log, new_start: int, *, start_offset: int | None = None) -> Truncation:
    """Drop everything and begin again at ``new_start``.

    Of segments that are bare the one is renamed.  Others take a sync each, here and now, as a file
    of theirs may have the new one's name: whoever must not sleep cuts the log to nothing before.
    """
    is_bare, before = log.segments.is_bare, list(log.segments)
    log.segments.remove(before)
    if is_bare:
        _rename(before.pop(), new_start)
    else:
        set_aside_from_the_end(before, log.producers.snapshots)
    first = LogSegment(log.directory, new_start, log.shape)
    first.create()
    log.segments.add(first)
    log.end_offset = new_start
    log.start_offset = new_start if start_offset is None else start_offset
    log.epochs.clear()
    log.producers.begin_anew(new_start)
    _cut_ends(log)
    return Truncation(before, partial(_sync_beginning, first.path(Content.BATCHES), log.epochs))


def _rename(bare: LogSegment, base_offset: int) -> None:
    """No power cut leaves both.  Nothing is in its indexes."""
    bare.abandon()
    for path in bare.index_paths:
        files.remove(path)
    if base_offset != bare.base_offset:
        renamed = file_path(bare.directory, base_offset, Content.BATCHES)
        files.rename(bare.path(Content.BATCHES), renamed)


def _sync_beginning(batches: Path, epochs: LeaderEpochs) -> None:
    files.sync_path(batches)
    epochs.flush_cut()
    files.sync_directory(batches.parent)


def _cut_ends(log: Log) -> None:
    log.cuts.append(log.end_offset)
    log.start_offset = min(log.start_offset, log.end_offset)
    log.recovery_point = min(log.recovery_point, log.end_offset)
    log.high_watermark = max(log.start_offset, min(log.high_watermark, log.end_offset))


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
    return damages + _learn(producers, segments, end=end)


def _learn(producers: ProducerStates, segments: SegmentList, *, end: int) -> list[KafkaError]:
    """From the batches that the producers do not know yet, up to ``end``."""
    damages: list[KafkaError] = []
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
