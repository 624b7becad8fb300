"""Short ways to open, fill and read logs."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from odradek.protocol.file_region import FileRegion
from odradek.protocol.records.builder import BatchBuilder, BatchFields
from odradek.protocol.records.control import EndTransactionMarker, marker_batch
from odradek.protocol.records.record import Record
from odradek.protocol.records.record_set import AnyBatch, batches_of_any_magic
from odradek.protocol.types import TopicPartition
from odradek.storage import files
from odradek.storage.log import Log, Written
from odradek.storage.log_loader import Findings, LogPlace, open_log, recover
from odradek.storage.log_segment import LogSegment
from odradek.storage.producers.append import AppendOrigin
from odradek.storage.retention import apply_retention
from odradek.storage.settings import TopicSettings

PARTITION = TopicPartition("events", 0)
NOW_MS = 1_700_000_000_000

#: What ProducerStates needs to know of the server.
PRODUCER_SETTINGS = SimpleNamespace(
    producer_id_expiration_ms=86_400_000, transaction_partition_verification_enable=False
)


def place_of(directory: Path, **settings: Any) -> LogPlace:
    """Where a log is; checkpointed offsets may be given among the settings."""
    checkpointed = {
        name: settings.pop(name) for name in ("recovery_point", "start_offset") if name in settings
    }
    directory.mkdir(parents=True, exist_ok=True)
    return LogPlace(
        directory=directory,
        partition=PARTITION,
        settings=TopicSettings(**settings),
        producer_settings=PRODUCER_SETTINGS,
        now_ms=NOW_MS,
        **checkpointed,
    )


def opened(directory: Path, findings: Findings | None = None, **settings: Any) -> Log:
    """A log that was closed cleanly, or a new one."""
    log = open_log(place_of(directory, **settings), findings or Findings())
    log.advance_high_watermark(log.end_offset)
    return log


def recovered(directory: Path, findings: Findings | None = None, **settings: Any) -> Log:
    """A log that was not closed."""
    place = place_of(directory, **settings)
    found = recover(place)
    if findings is not None:
        findings.notes += found.notes
        findings.removed_bytes += found.removed_bytes
    log = open_log(place, findings or Findings())
    log.advance_high_watermark(log.end_offset)
    return log


def records_batch(
    *values: bytes, key: bytes | None = None, timestamp: int = NOW_MS, **fields: Any
) -> bytearray:
    builder = BatchBuilder(BatchFields(**fields))
    for value in values:
        builder.append(timestamp=timestamp, key=key, value=value)
    return builder.build()


def append(log: Log, *values: bytes, leader_epoch: int = 0, **batch: Any) -> Written:
    """Append one batch as the leader; the high watermark follows."""
    written = log.append_as_leader(
        records_batch(*values, **batch), leader_epoch=leader_epoch, now_ms=NOW_MS
    )
    log.advance_high_watermark(log.end_offset)
    return written


def end_transaction(
    log: Log,
    *,
    producer_id: int,
    producer_epoch: int = 0,
    commit: bool,
    coordinator_epoch: int = 0,
    leader_epoch: int = 0,
) -> Written:
    batch = marker_batch(
        EndTransactionMarker(commit, coordinator_epoch),
        timestamp=NOW_MS,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )
    written = log.append_as_leader(
        batch, leader_epoch=leader_epoch, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR
    )
    log.advance_high_watermark(log.end_offset)
    return written


def outlived_segments(log: Log, *, now_ms: int = NOW_MS) -> list[LogSegment]:
    """What retention takes out of the log."""
    return [gone.segment for gone in apply_retention(log, now_ms=now_ms)]


def bytes_of(region: FileRegion) -> bytes:
    return files.read_at(region.descriptor, region.length, region.position) if region else b""


def batches_from(log: Log, offset: int, *, up_to: int | None = None) -> list[AnyBatch]:
    """The batches that reads from ``offset`` on return, to the end or before ``up_to``."""
    end = log.end_offset if up_to is None else up_to
    found: list[AnyBatch] = []
    while offset < end:
        region = log.read(offset, max_bytes=1 << 20, up_to=end)
        batches = list(batches_of_any_magic(bytes_of(region)))
        if not batches:
            break
        found += batches
        offset = batches[-1].next_offset
    return found


def records_from(log: Log, offset: int | None = None, *, up_to: int | None = None) -> list[Record]:
    """The data records that a consumer at ``offset`` would see."""
    start = log.start_offset if offset is None else offset
    return [
        record
        for batch in batches_from(log, start, up_to=up_to)
        if not batch.is_control
        for record in batch.records()
        if record.offset >= start
    ]
