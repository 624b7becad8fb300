"""The input and the output of a compaction: plain data that travels to a worker and back.

Owner: none; immutable, any thread.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

from odradek.protocol.types import TopicPartition
from odradek.storage.cleaner.record_filter import LastRecord
from odradek.storage.cleaner.settings import CleanerSettings
from odradek.storage.log_segment import SegmentConfig
from odradek.storage.log_segments import LogSegments
from odradek.storage.producer_state.producer_state_entry import ProducerStateEntry
from odradek.storage.producer_state.producer_state_manager import ProducerStateManager
from odradek.storage.settings import TopicSettings
from odradek.storage.transaction_index import AbortedTxn


class CleanableLog(Protocol):
    """The part of a log that is needed to choose, describe and complete a compaction."""

    @property
    def partition(self) -> TopicPartition: ...

    @property
    def directory(self) -> Path: ...

    @property
    def settings(self) -> TopicSettings: ...

    @property
    def segment_config(self) -> SegmentConfig: ...

    @property
    def segments(self) -> LogSegments: ...

    @property
    def producer_state_manager(self) -> ProducerStateManager: ...

    @property
    def log_start_offset(self) -> int: ...

    @property
    def log_end_offset(self) -> int: ...

    @property
    def recovery_point(self) -> int: ...

    @property
    def last_stable_offset(self) -> int: ...


class SealedSegment(NamedTuple):
    """A segment that is no longer appended to."""

    base_offset: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanerConfig:
    """The settings of the topic, and this compaction's share of the broker's settings."""

    delete_retention_ms: int
    segment_bytes_max: int
    segment_config: SegmentConfig = field(default_factory=SegmentConfig)
    dedupe_buffer_bytes: int = 128 * 1024 * 1024
    dedupe_load_factor: float = 0.9
    io_buffer_bytes: int = 512 * 1024
    bytes_per_second: float = math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningTask:
    """A log to compact and its offset range."""

    directory: Path
    segments: tuple[SealedSegment, ...]  # all segments before first_uncleanable_offset
    first_dirty_offset: int  # earlier offsets are already compacted
    first_uncleanable_offset: int  # the base offset of the first segment that is not included
    config: CleanerConfig
    now_ms: int
    last_records_of_active_producers: Mapping[int, LastRecord]
    #: Entries from the transaction indexes of later segments.  Their transactions may have
    #: started before first_uncleanable_offset.
    later_aborted_txns: tuple[AbortedTxn, ...] = ()


@dataclass(frozen=True, slots=True)
class SegmentReplacement:
    """A new segment, written as ``.cleaned`` files, and the segments that it replaces."""

    directory: Path
    base_offset: int
    size_bytes: int
    old_segments: tuple[SealedSegment, ...]


@dataclass(slots=True)
class CleanerStats:
    """Counters of one compaction.  The ``map_`` fields count the pass that fills the offset map."""

    map_bytes_read: int = 0
    map_records_read: int = 0
    map_utilization: float = 0.0
    bytes_read: int = 0
    records_read: int = 0
    bytes_written: int = 0
    records_written: int = 0
    keyless_records: int = 0  # dropped: a compacted log cannot keep records without a key


@dataclass(frozen=True, slots=True)
class CleaningResult:
    """The replacements to apply, in this order, and what was read and written."""

    replacements: tuple[SegmentReplacement, ...]
    end_offset: int  # compacted up to here: the next first_dirty_offset
    stats: CleanerStats


def build_cleaning_task(
    log: CleanableLog,
    settings: CleanerSettings,
    *,
    first_dirty_offset: int,
    first_uncleanable_offset: int,
    now_ms: int,
) -> CleaningTask:
    """Describe the compaction of ``log`` up to ``first_uncleanable_offset``, a segment start."""
    # Otherwise a power cut could lose the last record of a key after its predecessors are gone.
    assert first_uncleanable_offset <= log.recovery_point, log
    workers = max(1, settings.threads)
    return CleaningTask(
        directory=log.directory,
        segments=tuple(
            SealedSegment(segment.base_offset, segment.size_bytes)
            for segment in log.segments
            if segment.base_offset < first_uncleanable_offset
        ),
        first_dirty_offset=first_dirty_offset,
        first_uncleanable_offset=first_uncleanable_offset,
        config=CleanerConfig(
            delete_retention_ms=log.settings.delete_retention_ms,
            segment_bytes_max=log.settings.segment_bytes,
            segment_config=log.segment_config,
            dedupe_buffer_bytes=settings.dedupe_buffer_bytes // workers,
            dedupe_load_factor=settings.dedupe_buffer_load_factor,
            io_buffer_bytes=settings.io_buffer_bytes // workers,
            bytes_per_second=settings.io_max_bytes_per_second / workers,
        ),
        now_ms=now_ms,
        last_records_of_active_producers=last_records_of_active_producers(
            log.producer_state_manager.active_producers, before_offset=first_uncleanable_offset
        ),
        later_aborted_txns=tuple(
            aborted_txn
            for segment in log.segments.from_offset(first_uncleanable_offset)
            for aborted_txn in segment.transaction_index.entries
            if segment.base_offset >= first_uncleanable_offset
            and aborted_txn.first_offset < first_uncleanable_offset
        ),
    )


def last_records_of_active_producers(
    entries: Mapping[int, ProducerStateEntry], *, before_offset: int
) -> dict[int, LastRecord]:
    """Return the last batch before ``before_offset`` of each producer that has not expired.

    This batch matters even if the producer has written later batches: those may be truncated, and
    a crash may lose the snapshots.
    """
    last_records = {}
    for producer_id, entry in entries.items():
        batches = entry.batches
        offset = next(
            (batch.last_offset for batch in batches if batch.last_offset < before_offset), None
        )
        if offset is not None or not batches:
            last_records[producer_id] = LastRecord(offset, entry.epoch)
    return last_records
