"""Short ways to open, fill and read logs."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from odradek.protocol.file_region import FileRegion
from odradek.protocol.records.builder import BatchBuilder, BatchFields
from odradek.protocol.records.control_records import EndTransactionMarker, build_marker_batch
from odradek.protocol.records.record import Record
from odradek.protocol.records.record_set import AnyBatch, batches_of_any_magic
from odradek.protocol.types import TopicPartition
from odradek.storage import files
from odradek.storage.log_loader import LoadLogParams, LogLoadReport, open_log, recover_log
from odradek.storage.log_segment import LogSegment
from odradek.storage.producer_state.producer_state_entry import AppendOrigin
from odradek.storage.retention import apply_retention
from odradek.storage.settings import TopicSettings
from odradek.storage.unified_log import LogAppendInfo, UnifiedLog

PARTITION = TopicPartition("events", 0)
NOW_MS = 1_700_000_000_000

#: What ProducerStates needs to know of the server.
PRODUCER_SETTINGS = SimpleNamespace(
    producer_id_expiration_ms=86_400_000, transaction_partition_verification_enable=False
)


def place_of(directory: Path, **settings: Any) -> LoadLogParams:
    """Where a log is; checkpointed offsets may be given among the settings."""
    checkpointed = {
        name: settings.pop(name)
        for name in ("recovery_point", "log_start_offset")
        if name in settings
    }
    directory.mkdir(parents=True, exist_ok=True)
    return LoadLogParams(
        directory=directory,
        partition=PARTITION,
        settings=TopicSettings(**settings),
        producer_settings=PRODUCER_SETTINGS,
        now_ms=NOW_MS,
        **checkpointed,
    )


def opened(directory: Path, findings: LogLoadReport | None = None, **settings: Any) -> UnifiedLog:
    """A log that was closed cleanly, or a new one."""
    log = open_log(place_of(directory, **settings), findings or LogLoadReport())
    log.update_high_watermark(log.log_end_offset)
    return log


def recovered(
    directory: Path, findings: LogLoadReport | None = None, **settings: Any
) -> UnifiedLog:
    """A log that was not closed."""
    place = place_of(directory, **settings)
    found = recover_log(place)
    if findings is not None:
        findings.problems += found.problems
        findings.removed_bytes += found.removed_bytes
    log = open_log(place, findings or LogLoadReport())
    log.update_high_watermark(log.log_end_offset)
    return log


def records_batch(
    *values: bytes, key: bytes | None = None, timestamp: int = NOW_MS, **fields: Any
) -> bytearray:
    builder = BatchBuilder(BatchFields(**fields))
    for value in values:
        builder.append(timestamp=timestamp, key=key, value=value)
    return builder.build()


def append(log: UnifiedLog, *values: bytes, leader_epoch: int = 0, **batch: Any) -> LogAppendInfo:
    """Append one batch as the leader; the high watermark follows."""
    written = log.append_as_leader(
        records_batch(*values, **batch), leader_epoch=leader_epoch, now_ms=NOW_MS
    )
    log.update_high_watermark(log.log_end_offset)
    return written


def end_transaction(
    log: UnifiedLog,
    *,
    producer_id: int,
    producer_epoch: int = 0,
    commit: bool,
    coordinator_epoch: int = 0,
    leader_epoch: int = 0,
) -> LogAppendInfo:
    batch = build_marker_batch(
        EndTransactionMarker(commit, coordinator_epoch),
        timestamp=NOW_MS,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )
    written = log.append_as_leader(
        batch, leader_epoch=leader_epoch, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR
    )
    log.update_high_watermark(log.log_end_offset)
    return written


def outlived_segments(log: UnifiedLog, *, now_ms: int = NOW_MS) -> list[LogSegment]:
    """What retention takes out of the log."""
    return [gone.segment for gone in apply_retention(log, now_ms=now_ms)]


def bytes_of(region: FileRegion) -> bytes:
    return files.read_at(region.descriptor, region.length, region.position) if region else b""


def batches_from(log: UnifiedLog, offset: int, *, up_to: int | None = None) -> list[AnyBatch]:
    """The batches that reads from ``offset`` on return, to the end or before ``flush_offset``."""
    end = log.log_end_offset if up_to is None else up_to
    found: list[AnyBatch] = []
    while offset < end:
        region = log.read(offset, max_bytes=1 << 20, max_offset=end)
        batches = list(batches_of_any_magic(bytes_of(region)))
        if not batches:
            break
        found += batches
        offset = batches[-1].next_offset
    return found


def records_from(
    log: UnifiedLog, offset: int | None = None, *, up_to: int | None = None
) -> list[Record]:
    """The data records that a consumer at ``offset`` would see."""
    start = log.log_start_offset if offset is None else offset
    return [
        record
        for batch in batches_from(log, start, up_to=up_to)
        if not batch.is_control
        for record in batch.records()
        if record.offset >= start
    ]
