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
from odradek.storage.leader_epoch_file_cache import LeaderEpochFileCache
from odradek.storage.log_segment import LogSegment
from odradek.storage.log_segments import LogSegments
from odradek.storage.open_file import OpenFile
from odradek.storage.open_segments import not_retriable
from odradek.storage.paths import LogFileType, file_path
from odradek.storage.producer_state.batch_metadata_recovery import restore_batch_metadata
from odradek.storage.producer_state.producer_state_manager import ProducerStateManager
from odradek.storage.producer_state.snapshot import ProducerSnapshots
from odradek.storage.segment_deletion import mark_segments_deleted_in_reverse
from odradek.storage.transaction_index import TransactionIndex

if TYPE_CHECKING:
    from odradek.storage.unified_log import UnifiedLog

#: What producers know the log up to when it is not the log any more.
_NO_MAP_END_OFFSET = -1


def _no_warning(message: str) -> None:
    """Nobody wants to know."""


class _TruncationPoint(NamedTuple):
    """The segment with which the log is to end, and where both do."""

    segment: LogSegment
    position: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class TruncationPlan:
    """What is left to be done; the ``dropped`` segments wait for removal when it is."""

    dropped_segments: Sequence[LogSegment]
    run: Callable[[], None]


def truncate_to(
    log: UnifiedLog, offset: int, *, now_ms: int, warn: Callable[[str], None] = _no_warning
) -> list[LogSegment]:
    """Both steps at once, for whoever may sleep; the segments that wait for removal."""
    truncation = plan_truncation(log, offset, now_ms=now_ms, warn=warn)
    truncation.run()
    return list(truncation.dropped_segments)


def plan_truncation(
    log: UnifiedLog, offset: int, *, now_ms: int, warn: Callable[[str], None] = _no_warning
) -> TruncationPlan:
    """Drop every batch that holds ``offset`` or a later one.

    A batch that begins before ``offset`` and reaches beyond it goes whole: the log then ends where
    that batch began.  ``notice`` is told what cannot be read of what stays.
    """
    if offset >= log.log_end_offset:
        # A leader may have noted its epoch here and never appended.
        log.leader_epoch_cache.truncate_from_end(log.log_end_offset)
        return TruncationPlan([], log.leader_epoch_cache.flush)
    if log.segments.first.base_offset > offset:
        return plan_full_truncation(log, offset)
    last_segment = log.segments.floor_segment(offset)
    assert last_segment is not None, (log, offset)
    # First of all, as it reads, and so may fail.
    point = _find_truncation_point(last_segment, offset, warn)
    had_producers = not log.producer_state_manager.is_empty or _may_reopen_transaction(
        log.segments, point
    )
    with not_retriable():
        return _truncate_at(log, point, had_producers, now_ms=now_ms, warn=warn)


def _truncate_at(
    log: UnifiedLog,
    point: _TruncationPoint,
    had_producers: bool,
    *,
    now_ms: int,
    warn: Callable[[str], None],
) -> TruncationPlan:
    last_segment, position, end_offset = point
    file = last_segment.file
    dropped = [each for each in log.segments if each.base_offset > last_segment.base_offset]
    log.segments.remove(dropped)
    # Even if no batch of it goes: indexes may name offsets whose batches compaction has removed.
    shortened = _truncated_segment(last_segment, size_bytes=position, end_offset=end_offset)
    log.segments.replace([last_segment], [shortened])
    log.log_end_offset = end_offset
    log.leader_epoch_cache.begin_truncation(end_offset)
    _clamp_offsets(log)
    producers, segments = log.producer_state_manager, log.segments
    for error in _rewind_producer_state(
        producers, segments, had_producers, end=end_offset, now_ms=now_ms
    ):
        warn(str(error))
    log.producer_state_manager.transactions.on_high_watermark_updated(log.high_watermark)
    run = partial(
        _truncate_files,
        dropped,
        file,
        position,
        shortened.transaction_index,
        log.leader_epoch_cache,
    )
    return TruncationPlan(dropped, run)


def _find_truncation_point(
    segment: LogSegment, offset: int, warn: Callable[[str], None]
) -> _TruncationPoint:
    try:
        first_dropped = segment.translate_offset(offset)
    except CorruptMessage as error:
        position, end_offset = _find_corruption(segment, offset)
        warn(f"{error}; truncating to offset {end_offset} instead of {offset}")
        return _TruncationPoint(segment, position, end_offset)
    if first_dropped is None:
        return _TruncationPoint(segment, segment.size_bytes, offset)
    return _TruncationPoint(segment, first_dropped.position, min(offset, first_dropped.base_offset))


def _find_corruption(segment: LogSegment, offset: int) -> tuple[int, int]:
    """Where the batches, from the last index entry before ``offset`` on, can be read no more."""
    entry = segment.offset_index.lookup(offset)
    while True:
        position, next_offset = entry.position, segment.base_offset
        batches = segment.batches(start=position)
        with suppress(CorruptMessage):
            for at, batch in batch_scan.check_ascending(
                batches, first_offset=next_offset, last_offset_max=offset - 1
            ):
                batch.check_crc()
                position, next_offset = at + batch.size_bytes, batch.next_offset
        if position > entry.position or entry.position == 0:
            return position, next_offset
        # Not even the batch that it leads to: the one before it tells which offset is next.
        entry = segment.offset_index.lookup(entry.offset - 1)


def _may_reopen_transaction(segments: LogSegments, point: _TruncationPoint) -> bool:
    """Whether a transaction may have ended in what is cut off, so that it is open again.

    Its producer may have expired since, and be known to nobody.  (Kafka then takes the transaction
    for none: readers are shown its records, even if it is aborted in the end.)  What lies in later
    segments is not gone through for that.
    """
    if point.segment is not segments.active:
        return True
    try:
        return any(
            batch.is_control or not batch.is_valid()
            for _, batch in point.segment.batches(start=point.position)
        )
    except CorruptMessage:
        return True


def _truncated_segment(segment: LogSegment, *, size_bytes: int, end_offset: int) -> LogSegment:
    """The segment as it will be when its files have been cut; what was lent of it stays open."""
    for index in (segment.offset_index, segment.time_index):
        index.truncate(end_offset)
        index.entries.trim_to_valid_size()
    segment.close_handlers()
    # A file that has been cut has no room ahead, unless it begins anew.
    config = replace(segment.config, preallocated_bytes=0) if size_bytes else segment.config
    shortened = LogSegment(segment.directory, segment.base_offset, config)
    shortened.size_bytes = size_bytes
    shortened.transaction_index = segment.transaction_index
    shortened.transaction_index.truncate_entries(end_offset)
    if size_bytes:
        shortened.created_ms = segment.created_ms
    return shortened


def _truncate_files(
    dropped_segments: Sequence[LogSegment],
    file: OpenFile,
    size_bytes: int,
    transaction_index: TransactionIndex,
    leader_epoch_cache: LeaderEpochFileCache,
) -> None:
    directory = transaction_index.path.parent
    # The snapshots of the dropped segments are gone already.
    mark_segments_deleted_in_reverse(dropped_segments, ProducerSnapshots(directory, ()))
    if os.fstat(file.descriptor).st_size > size_bytes:
        files.system.ftruncate(file.descriptor, size_bytes)
    files.sync(file.descriptor)
    transaction_index.truncate_file()
    leader_epoch_cache.finish_truncation()
    files.sync_directory(directory)


def _rewind_producer_state(
    producer_state_manager: ProducerStateManager,
    segments: LogSegments,
    had_producers: bool,
    *,
    end: int,
    now_ms: int,
) -> list[KafkaError]:
    """``rebuild_producers`` after a cut, but for syncing which snapshots are gone.

    Where there was no producer none is looked for, as in Kafka: one that has expired may be known a
    little less long for that.
    """
    start = min(segments.first.base_offset, end)
    producer_state_manager.snapshots.remove_outside(start=start, end=end)
    producer_state_manager.update_map_end_offset(_NO_MAP_END_OFFSET)
    errors: list[KafkaError] = [
        *producer_state_manager.truncate_and_reload(start=start, end=end, now_ms=now_ms)
    ]
    if not had_producers and producer_state_manager.is_empty:
        producer_state_manager.update_map_end_offset(end)
        return errors
    return errors + _replay_missing_batches(producer_state_manager, segments, end=end)


def truncate_fully_and_start_at(
    log: UnifiedLog, new_offset: int, *, log_start_offset: int | None = None
) -> list[LogSegment]:
    """``plan_new_beginning`` and what it plans at once; the segments that wait for removal."""
    truncation = plan_full_truncation(log, new_offset, log_start_offset=log_start_offset)
    truncation.run()
    return list(truncation.dropped_segments)


def restart_empty_log_at(log: UnifiedLog, new_offset: int) -> list[LogSegment]:
    """An empty log begins at a batch that is about to be appended; what waits for removal.

    A segment that is only renamed need not be synced: if a power cut gives it its old name back,
    the batch in it begins before it, and recovery cuts it off.  But a snapshot would be believed.
    """
    can_be_undone = (
        log.segments.is_single_empty_segment and not log.producer_state_manager.snapshots.offsets
    )
    truncation = plan_full_truncation(log, new_offset)
    if not can_be_undone:
        truncation.run()
    return list(truncation.dropped_segments)


def plan_full_truncation(
    log: UnifiedLog, new_offset: int, *, log_start_offset: int | None = None
) -> TruncationPlan:
    """Drop everything and begin again at ``new_start``.

    Of segments that are bare the one is renamed.  Others take a sync each, here and now, as a file
    of theirs may have the new one's name: whoever must not sleep cuts the log to nothing before.
    """
    is_empty, dropped = log.segments.is_single_empty_segment, list(log.segments)
    log.segments.remove(dropped)
    if is_empty:
        _rename_empty_segment(dropped.pop(), new_offset)
    else:
        mark_segments_deleted_in_reverse(dropped, log.producer_state_manager.snapshots)
    first = LogSegment(log.directory, new_offset, log.segment_config)
    first.create()
    log.segments.add(first)
    log.log_end_offset = new_offset
    log.log_start_offset = new_offset if log_start_offset is None else log_start_offset
    log.leader_epoch_cache.clear()
    log.producer_state_manager.truncate_fully_and_start_at(new_offset)
    _clamp_offsets(log)
    return TruncationPlan(
        dropped, partial(_sync_first_segment, first.path(LogFileType.LOG), log.leader_epoch_cache)
    )


def _rename_empty_segment(segment: LogSegment, base_offset: int) -> None:
    """No power cut leaves both.  Nothing is in its indexes."""
    segment.close_handlers()
    for path in segment.index_paths:
        files.remove(path)
    if base_offset != segment.base_offset:
        renamed = file_path(segment.directory, base_offset, LogFileType.LOG)
        files.rename(segment.path(LogFileType.LOG), renamed)


def _sync_first_segment(log_path: Path, leader_epoch_cache: LeaderEpochFileCache) -> None:
    files.sync_path(log_path)
    leader_epoch_cache.finish_truncation()
    files.sync_directory(log_path.parent)


def _clamp_offsets(log: UnifiedLog) -> None:
    log.truncation_offsets.append(log.log_end_offset)
    log.log_start_offset = min(log.log_start_offset, log.log_end_offset)
    log.recovery_point = min(log.recovery_point, log.log_end_offset)
    log.high_watermark = max(log.log_start_offset, min(log.high_watermark, log.log_end_offset))


def rebuild_producer_state(
    producer_state_manager: ProducerStateManager, segments: LogSegments, *, end: int, now_ms: int
) -> list[KafkaError]:
    """Bring the producers' states to ``end``: from the newest snapshot, then from the batches.

    All batches that are there count, even those before the start of the log: a retry of one is
    still a retry.  Left out are batches with wrong offsets, and from a damaged one on the rest of
    its segment; both are returned.
    """
    start = min(segments.first.base_offset, end)
    errors: list[KafkaError] = [
        *producer_state_manager.truncate_and_reload(start=start, end=end, now_ms=now_ms)
    ]
    return errors + _replay_missing_batches(producer_state_manager, segments, end=end)


def _replay_missing_batches(
    producer_state_manager: ProducerStateManager, segments: LogSegments, *, end: int
) -> list[KafkaError]:
    """From the batches that the producers do not know yet, up to ``end``."""
    errors: list[KafkaError] = []
    missing = (
        segments.between(producer_state_manager.map_end_offset, end)
        if producer_state_manager.map_end_offset < end
        else []
    )
    for segment in missing:
        path = segment.path(LogFileType.LOG)
        errors += [
            CorruptMessage(f"{path}: {reason}")
            for reason in _replay_segment(segment, producer_state_manager, end)
        ]
    producer_state_manager.update_map_end_offset(end)
    restore_batch_metadata(producer_state_manager, segments, end=end)
    return errors


def _replay_segment(
    segment: LogSegment, producer_state_manager: ProducerStateManager, end: int
) -> Iterator[str]:
    """What is wrong, if anything is."""
    try:
        for position, batch in _batches_from(segment, producer_state_manager.map_end_offset):
            batch.check_crc()
            # The checksum does not cover offsets, and a search would pass over a wrong one.
            if producer_state_manager.map_end_offset <= batch.last_offset < end:
                producer_state_manager.replay([batch], end_offset=batch.next_offset)
            else:
                yield f"{batch} at {position}, where {producer_state_manager.map_end_offset} is next"
    except CorruptMessage as error:
        yield str(error)


def _batches_from(segment: LogSegment, offset: int) -> Iterator[tuple[int, AnyBatch]]:
    if offset <= segment.base_offset:
        return segment.batches()
    first = segment.translate_offset(offset)
    return iter(()) if first is None else segment.batches(start=first.position)
