"""What compaction is given and what it returns: plain facts that travel to a worker and back.

Owner: none; immutable, any thread.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

from odradek.protocol.types import TopicPartition
from odradek.storage.cleaner.retention import LastRecord
from odradek.storage.cleaner.settings import CleanerSettings
from odradek.storage.log_segment import SegmentShape
from odradek.storage.producers.append import ProducerState
from odradek.storage.producers.state import ProducerStates
from odradek.storage.segment_list import SegmentList
from odradek.storage.settings import TopicSettings
from odradek.storage.transaction_index import AbortedTransaction


class CleanableLog(Protocol):
    """The part of a log that matters for deciding on, describing and ending a compaction."""

    @property
    def partition(self) -> TopicPartition: ...

    @property
    def directory(self) -> Path: ...

    @property
    def settings(self) -> TopicSettings: ...

    @property
    def shape(self) -> SegmentShape: ...

    @property
    def segments(self) -> SegmentList: ...

    @property
    def producers(self) -> ProducerStates: ...

    @property
    def start_offset(self) -> int: ...

    @property
    def end_offset(self) -> int: ...

    @property
    def recovery_point(self) -> int: ...

    @property
    def last_stable_offset(self) -> int: ...


class SealedSegment(NamedTuple):
    """A segment that is no longer appended to."""

    base_offset: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningLimits:
    """The settings that matter: the topic's, and this log's share of the server's."""

    delete_retention_ms: int
    segment_bytes_max: int
    shape: SegmentShape = field(default_factory=SegmentShape)
    dedupe_buffer_bytes: int = 128 * 1024 * 1024
    dedupe_load_factor: float = 0.9
    io_buffer_bytes: int = 512 * 1024
    bytes_per_second: float = math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningTask:
    """A log to be compacted, up to where it may be."""

    directory: Path
    segments: tuple[SealedSegment, ...]  # from the first of the log to the last before end_offset
    first_dirty_offset: int  # compacted before, up to here
    end_offset: int  # the base offset of the first segment that is not given
    limits: CleaningLimits
    now_ms: int
    producers: Mapping[int, LastRecord]
    #: From the transaction indexes of later segments: what they abort may lie before end_offset.
    later_aborted: tuple[AbortedTransaction, ...] = ()


@dataclass(frozen=True, slots=True)
class Replacement:
    """A new segment, written as ``.cleaned`` files, and those whose place it takes."""

    directory: Path
    base_offset: int
    size_bytes: int
    replaced: tuple[SealedSegment, ...]


@dataclass(slots=True)
class CleaningStatistics:
    """What was read and written.  The map is filled from the dirty part before all is read."""

    map_bytes: int = 0
    map_records: int = 0
    map_utilization: float = 0.0
    bytes_read: int = 0
    records_read: int = 0
    bytes_written: int = 0
    records_written: int = 0
    keyless_records: int = 0  # dropped: no producer can have meant them for a compacted log


@dataclass(frozen=True, slots=True)
class CleaningPlan:
    """What has been written and is to be put in the place of what was read, in this order."""

    replacements: tuple[Replacement, ...]
    end_offset: int  # compacted up to here: the next first dirty offset
    statistics: CleaningStatistics


def cleaning_task(
    log: CleanableLog,
    settings: CleanerSettings,
    *,
    first_dirty_offset: int,
    end_offset: int,
    now_ms: int,
) -> CleaningTask:
    """The compaction of ``log`` up to ``end_offset``, where a segment begins that is left alone."""
    # Else a power cut could take the last record of a key when those before it are gone.
    assert end_offset <= log.recovery_point, log
    workers = max(1, settings.threads)
    return CleaningTask(
        directory=log.directory,
        segments=tuple(
            SealedSegment(segment.base_offset, segment.size_bytes)
            for segment in log.segments
            if segment.base_offset < end_offset
        ),
        first_dirty_offset=first_dirty_offset,
        end_offset=end_offset,
        limits=CleaningLimits(
            delete_retention_ms=log.settings.delete_retention_ms,
            segment_bytes_max=log.settings.segment_bytes,
            shape=log.shape,
            dedupe_buffer_bytes=settings.dedupe_buffer_bytes // workers,
            dedupe_load_factor=settings.dedupe_buffer_load_factor,
            io_buffer_bytes=settings.io_buffer_bytes // workers,
            bytes_per_second=settings.io_max_bytes_per_second / workers,
        ),
        now_ms=now_ms,
        producers=last_records(log.producers.states, before=end_offset),
        later_aborted=tuple(
            aborted
            for segment in log.segments.from_offset(end_offset)
            for aborted in segment.transaction_index.entries
            if segment.base_offset >= end_offset and aborted.first_offset < end_offset
        ),
    )


def last_records(states: Mapping[int, ProducerState], *, before: int) -> dict[int, LastRecord]:
    """What producers wrote last before that offset, of those who did not do so too long ago.

    Even if they have written since: that may be truncated, and a crash may take the snapshots.
    """
    last = {}
    for producer_id, state in states.items():
        batches = state.batches
        offset = next((each.last_offset for each in batches if each.last_offset < before), None)
        if offset is not None or not batches:
            last[producer_id] = LastRecord(offset, state.epoch)
    return last
