"""Truncation of the end of a log: a follower removes records that its leader does not have.

    plan_truncation   moves the log end offset in memory; all users of the log see it at once
    run               truncates the files and blocks in the kernel.  Until it is done nothing may be
                      appended: before that, a power cut can undo the truncation

The order of the steps in ``run`` makes every crash harmless:

    Segments are deleted from the last to the first, durably, before the remaining segment is
    truncated.  What remains is always a prefix of the log.
    The truncation of the .log file is flushed, because the next appended batch must not end exactly
    where an old batch begins.
    The transaction index is truncated after that: an aborted record must not outlive its entry.
    Offset and time indexes may be truncated earlier, because they may always lack entries.
    Snapshots may be removed earlier, because the batches have the same information.  Their removal
    is flushed last.

The recovery point is below the truncation offset before the next append, because it is only ever
checkpointed from memory.  The leader epoch file is written when the batches are durably removed.

If the batches break off before the offset, the log is truncated there: records appended after a
corrupt batch could not be read.

Kafka: UnifiedLog.truncateTo, UnifiedLog.truncateFullyAndStartAt, UnifiedLog.rebuildProducerState.
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

#: The map end offset of producer state that no longer belongs to the log.
_NO_MAP_END_OFFSET = -1


def _no_warning(message: str) -> None:
    """Ignore the message."""


class _TruncationPoint(NamedTuple):
    """The segment that becomes the last one, its new size and the new log end offset."""

    segment: LogSegment
    position: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class TruncationPlan:
    """The remaining work.  The caller deletes ``dropped_segments`` after ``run``."""

    dropped_segments: Sequence[LogSegment]
    run: Callable[[], None]


def truncate_to(
    log: UnifiedLog, offset: int, *, now_ms: int, warn: Callable[[str], None] = _no_warning
) -> list[LogSegment]:
    """Plan and run, for callers that may block; return the segments to delete."""
    truncation = plan_truncation(log, offset, now_ms=now_ms, warn=warn)
    truncation.run()
    return list(truncation.dropped_segments)


def plan_truncation(
    log: UnifiedLog, offset: int, *, now_ms: int, warn: Callable[[str], None] = _no_warning
) -> TruncationPlan:
    """Drop every batch that contains ``offset`` or a later offset.

    A batch that begins before ``offset`` and contains it is dropped as a whole: the log then ends
    at the base offset of that batch.  ``warn`` gets each error in the part of the log that stays.
    """
    if offset >= log.log_end_offset:
        # A leader may have added its epoch here without appending a batch.
        log.leader_epoch_cache.truncate_from_end(log.log_end_offset)
        return TruncationPlan([], log.leader_epoch_cache.flush)
    if log.segments.first.base_offset > offset:
        return plan_full_truncation(log, offset)
    last_segment = log.segments.floor_segment(offset)
    assert last_segment is not None, (log, offset)
    # Before any change, because it reads the file and may fail.
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
    # Even if it loses no batch: indexes may have offsets whose batches compaction has removed.
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
    """Return position and next offset where the batches before ``offset`` become unreadable."""
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
        # The batch at the entry is corrupt too: scan from the entry before to get the next offset.
        entry = segment.offset_index.lookup(entry.offset - 1)


def _may_reopen_transaction(segments: LogSegments, point: _TruncationPoint) -> bool:
    """Whether a transaction may have ended in the truncated part and so becomes open again.

    Its producer may have expired since and have no state.  (Kafka then does not restore the
    transaction: consumers see its records even if it is aborted later.)  Batches in later segments
    are not scanned for this; the answer is then yes.
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
    """Return the segment as it is after truncation of its files; regions in use stay readable."""
    for index in (segment.offset_index, segment.time_index):
        index.truncate(end_offset)
        index.entries.trim_to_valid_size()
    segment.close_handlers()
    # A truncated file has no preallocated space, unless it is empty.
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
    # The snapshots of the dropped segments have already been removed.
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
    """Like ``rebuild_producer_state``, but without flushing the removal of snapshots.

    If the log had no producers, the batches are not scanned, as in Kafka: an expired producer may
    be forgotten a little earlier.
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
    """Plan and run a full truncation; return the segments to delete."""
    truncation = plan_full_truncation(log, new_offset, log_start_offset=log_start_offset)
    truncation.run()
    return list(truncation.dropped_segments)


def restart_empty_log_at(log: UnifiedLog, new_offset: int) -> list[LogSegment]:
    """Restart an empty log at the batch that is about to be appended; return segments to delete.

    Renaming an empty segment needs no fsync: if a power cut restores the old name, the batch in it
    begins before the base offset, and recovery removes it.  A snapshot, however, would be trusted.
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
    """Drop all segments and restart the log at ``new_offset``.

    A single empty segment is renamed.  Otherwise the segments are deleted here, with one fsync
    each, because one of their files may have the name of the new file.  A caller that must not
    block truncates the log to zero records first.
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
    """Rename in one step: no power cut leaves both names.  The indexes are empty."""
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
    """Load the producer state at ``end`` from the newest snapshot and the batches after it.

    All existing batches count, even those before the log start offset: a retry of such a batch is
    still a duplicate.  Batches with wrong offsets are skipped, and so is the rest of a segment
    after a corrupt batch.  Return the errors of both kinds.
    """
    start = min(segments.first.base_offset, end)
    errors: list[KafkaError] = [
        *producer_state_manager.truncate_and_reload(start=start, end=end, now_ms=now_ms)
    ]
    return errors + _replay_missing_batches(producer_state_manager, segments, end=end)


def _replay_missing_batches(
    producer_state_manager: ProducerStateManager, segments: LogSegments, *, end: int
) -> list[KafkaError]:
    """Replay the batches from the map end offset of the producer state up to ``end``."""
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
    """Replay one segment; yield a description of each error."""
    try:
        for position, batch in _batches_from(segment, producer_state_manager.map_end_offset):
            batch.check_crc()
            # The checksum does not cover offsets, and a search would skip a wrong one.
            if producer_state_manager.map_end_offset <= batch.last_offset < end:
                producer_state_manager.replay([batch], end_offset=batch.next_offset)
            else:
                yield (
                    f"{batch} at {position}, where {producer_state_manager.map_end_offset} is next"
                )
    except CorruptMessage as error:
        yield str(error)


def _batches_from(segment: LogSegment, offset: int) -> Iterator[tuple[int, AnyBatch]]:
    if offset <= segment.base_offset:
        return segment.batches()
    first = segment.translate_offset(offset)
    return iter(()) if first is None else segment.batches(start=first.position)
