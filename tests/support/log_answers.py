"""What our own logs tell of themselves, in the terms of recorded_directories."""

import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from odradek.config.definition import ConfigSource
from odradek.protocol.file_region import FileRegion
from odradek.protocol.records.record import TimestampType
from odradek.protocol.records.record_set import AnyBatch, magic_of
from odradek.protocol.types import TopicPartition
from odradek.storage import clean_shutdown
from odradek.storage.log_loader import LoadLogParams, LogLoadReport, open_log, recover_log
from odradek.storage.log_settings import LogSettings
from odradek.storage.offset_checkpoints import LOG_START_OFFSETS, RECOVERY_POINTS
from odradek.storage.settings import TopicSettings
from odradek.storage.timestamp_lookup import (
    TimestampAndOffset,
    offset_for_timestamp,
    offset_of_max_timestamp,
)
from odradek.storage.transaction_index import AbortedTxn
from odradek.storage.unified_log import UnifiedLog
from tests.support.java_client import SeenRecord
from tests.support.logs import batches_from, bytes_of
from tests.support.recorded_directories import (
    AbortedEntry,
    Fetched,
    FoundTimestamp,
    KnownProducer,
    RecordedDirectory,
    RecordedPartition,
)

NONE = -1


def opened_logs(directory: RecordedDirectory, path: Path) -> dict[str, UnifiedLog]:
    """By partition; recovered first if the directory says that it was not stopped cleanly."""
    server = LogSettings.read({ConfigSource.FILE: directory.broker})
    recovery_points, start_offsets = RECOVERY_POINTS.read(path), LOG_START_OFFSETS.read(path)
    was_clean = clean_shutdown.read(path) is not None
    logs = {}
    for told in directory.partitions:
        partition = TopicPartition(told.topic, told.partition)
        configs = directory.topics.get(told.topic, {})
        place = LoadLogParams(
            directory=path / told.name,
            partition=partition,
            settings=TopicSettings.read({ConfigSource.TOPIC: configs}, server_tables=[server]),
            producer_settings=server,
            recovery_point=recovery_points.get(partition, 0),
            log_start_offset=start_offsets.get(partition, 0),
            now_ms=directory.recorded_at_ms,
        )
        if not was_clean:
            recover_log(place)
        log = logs[told.name] = open_log(place, LogLoadReport())
        log.update_high_watermark(log.log_end_offset)
    return logs


def answers_of(log: UnifiedLog, told: RecordedPartition) -> RecordedPartition:
    """What ``log`` answers to all that Kafka was asked."""
    return RecordedPartition(
        topic=told.topic,
        partition=told.partition,
        records=seen_records(log),
        committed_offsets=committed_offsets(log),
        start_offset=log.log_start_offset,
        end_offset=log.log_end_offset,
        last_stable_offset=log.last_stable_offset,
        largest_timestamp=told.largest_timestamp and _found(NONE, offset_of_max_timestamp(log)),
        timestamps=tuple(
            _found(each.asked, offset_for_timestamp(log, each.asked)) for each in told.timestamps
        ),
        producers=known_producers(log),
        aborted=tuple(
            AbortedEntry(*entry)
            for segment in log.segments
            for entry in segment.transaction_index.entries
        ),
        fetches=tuple(_fetched(log, each) for each in told.fetches),
    )


def wrong_timestamps(
    ours: RecordedPartition, told: RecordedPartition
) -> Iterator[tuple[FoundTimestamp, FoundTimestamp]]:
    """What we find for a timestamp, and what should be found, where they differ.

    Kafka looks into one segment only, the first that seems to hold a young enough record; one that
    has no timestamps it takes to be as young as its file, and it does not mind that records have
    been deleted.  So where its consumer read an earlier record that is as young, that is right.
    """
    for found, answer in zip(ours.timestamps, told.timestamps, strict=True):
        right = answer
        first = next((each for each in told.records if each.timestamp >= answer.asked), None)
        if first is not None and not 0 <= answer.offset <= first.offset:
            right = replace(found, offset=first.offset, timestamp=first.timestamp)
        if found != right:
            yield found, right
    largest = told.largest_timestamp
    if largest is not None and NONE < largest.offset < told.start_offset:
        largest = FoundTimestamp(NONE, NONE, NONE, NONE)
    if ours.largest_timestamp != largest:
        assert ours.largest_timestamp is not None
        assert largest is not None
        yield ours.largest_timestamp, largest


def seen_records(log: UnifiedLog) -> tuple[SeenRecord, ...]:
    return tuple(
        SeenRecord(
            offset=record.offset,
            timestamp=record.timestamp,
            timestamp_type=_type_name(batch),
            key=record.key,
            value=record.value,
            headers=tuple((header.key, header.value) for header in record.headers),
        )
        for batch in batches_from(log, log.log_start_offset)
        if not batch.is_control
        for record in batch.records()
        if record.offset >= log.log_start_offset
    )


def committed_offsets(log: UnifiedLog) -> tuple[int, ...]:
    end = log.last_stable_offset
    aborted = log.collect_aborted_transactions(start=log.log_start_offset, end=end)
    return tuple(
        record.offset
        for batch in batches_from(log, log.log_start_offset, up_to=end)
        if not batch.is_control and not _is_aborted(batch, aborted)
        for record in batch.records()
        if record.offset >= log.log_start_offset
    )


def known_producers(log: UnifiedLog) -> tuple[KnownProducer, ...]:
    return tuple(
        KnownProducer(
            producer_id=producer_id,
            epoch=state.epoch,
            last_sequence=state.last_sequence,
            last_timestamp=state.last_timestamp,
            coordinator_epoch=state.coordinator_epoch,
            transaction_first_offset=_or_none(state.current_txn_first_offset),
            last_offset=NONE if state.last_batch is None else state.last_batch.last_offset,
            offset_delta=0 if state.last_batch is None else state.last_batch.offset_delta,
        )
        for producer_id, state in sorted(log.producer_state_manager.active_producers.items())
    )


def _fetched(log: UnifiedLog, asked: Fetched) -> Fetched:
    up_to = log.last_stable_offset if asked.is_committed else log.high_watermark
    region = log.read(asked.offset, max_bytes=asked.max_bytes, max_offset=up_to)
    content = bytes_of(region)
    aborted: list[AbortedTxn] = []
    if asked.is_committed and asked.offset < up_to:
        end = _bound_of_fetch(log, asked.offset, region)
        aborted = log.collect_aborted_transactions(start=asked.offset, end=end)
    return Fetched(
        offset=asked.offset,
        max_bytes=asked.max_bytes,
        is_committed=asked.is_committed,
        size_bytes=len(content),
        checksum=zlib.crc32(content),
        aborted=tuple(sorted((each.producer_id, each.first_offset) for each in aborted)),
    )


def _bound_of_fetch(log: UnifiedLog, offset: int, region: FileRegion) -> int:
    """Up to where Kafka looks for aborted transactions: to the next entry of the index."""
    segments = log.segments.from_offset(offset)
    segment = next(each for each in segments if each.translate_offset(offset) is not None)
    end_position = region.position + region.length
    for slot in range(segment.offset_index.entries.count):
        entry = segment.offset_index.entry(slot)
        # Kafka's search does not notice if the first entry is just what it is looking for.
        if entry.position > end_position or (slot and entry.position == end_position):
            return entry.offset
    following = log.segments.higher_segment(segment)
    return log.log_end_offset if following is None else following.base_offset


def _is_aborted(batch: AnyBatch, aborted: list[AbortedTxn]) -> bool:
    return batch.is_transactional and any(
        each.producer_id == batch.producer_id
        and each.first_offset <= batch.base_offset <= each.last_offset
        for each in aborted
    )


def _type_name(batch: AnyBatch) -> str:
    if magic_of(batch) == 0:
        return "NoTimestampType"
    is_append_time = batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    return "LogAppendTime" if is_append_time else "CreateTime"


def _found(asked: int, found: TimestampAndOffset | None) -> FoundTimestamp:
    return FoundTimestamp(asked, *(found or (NONE, NONE, NONE)))


def _or_none(offset: int | None) -> int:
    return NONE if offset is None else offset
