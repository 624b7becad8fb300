"""A log directory that our own logs wrote, put in the place of a broker's."""

import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count, cycle
from pathlib import Path

from odradek.config.definition import ConfigSource
from odradek.protocol.records.batch import RecordBatch
from odradek.protocol.records.builder import BatchBuilder, BatchFields
from odradek.protocol.records.compression import Codec
from odradek.protocol.records.control_records import EndTransactionMarker, build_marker_batch
from odradek.protocol.records.legacy_builder import LegacyFormat, build_legacy_set
from odradek.protocol.records.record import Header, Record
from odradek.protocol.types import TopicPartition
from odradek.storage import clean_shutdown, meta_properties, partition_metadata
from odradek.storage.log_loader import LoadLogParams, LogLoadReport, open_log
from odradek.storage.log_settings import LogSettings
from odradek.storage.offset_checkpoints import HIGH_WATERMARKS, LOG_START_OFFSETS, RECOVERY_POINTS
from odradek.storage.producer_state.producer_state_entry import AppendOrigin
from odradek.storage.settings import TopicSettings
from odradek.storage.unified_log import UnifiedLog
from tests.interop.data_directory_recipes import ROLLED
from tests.interop.data_directory_scene import HOUR_MS, Batch, batches
from tests.support.compaction import compact

FIRST_EPOCH, SECOND_EPOCH = 0, 2  # the second is that of the broker which takes over
COORDINATOR_EPOCH = 0
PRODUCERS = range(100_000, 100_010)

#: Without the check with a coordinator, which is none of a log's business.
SERVER = LogSettings(transaction_partition_verification_enable=False)


class Writer:
    """Appends to one log as its leader does."""

    def __init__(self, log: UnifiedLog, now_ms: int) -> None:
        self.log = log
        self.now_ms = now_ms
        self.leader_epoch = FIRST_EPOCH
        self._sequences = dict.fromkeys(PRODUCERS, 0)

    def batches(self, count: int, *, start: int = 0) -> Iterator[Batch]:
        return batches(count, start=start, since_ms=self.now_ms - HOUR_MS)

    def append(self, batch: Batch, codec: Codec = Codec.NONE) -> None:
        self._append(batch, BatchFields(codec=codec))

    def append_as(self, producer_id: int, batch: Batch, *, is_transactional: bool = True) -> None:
        sequence = self._sequences[producer_id]
        self._sequences[producer_id] += len(batch)
        fields = BatchFields(
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=sequence,
            is_transactional=is_transactional,
        )
        self._append(batch, fields)

    def end(self, producer_id: int, *, commit: bool) -> None:
        marker = build_marker_batch(
            EndTransactionMarker(commit, COORDINATOR_EPOCH),
            timestamp=self.now_ms,
            producer_id=producer_id,
            producer_epoch=0,
        )
        self._write(marker, AppendOrigin.COORDINATOR)

    def append_old(self, batch: Batch, form: LegacyFormat) -> None:
        """As a follower, which takes what its leader has."""
        offsets = count(self.log.log_end_offset)
        records = [
            Record(offset, sent.timestamp, sent.key, sent.value)
            for offset, sent in zip(offsets, batch, strict=False)
        ]
        self.log.append_as_follower(build_legacy_set(records, form), now_ms=self.now_ms)
        self.log.update_high_watermark(self.log.log_end_offset)

    def replicate(self, *fetched: Batch) -> None:
        """As a follower, which gets several batches at once."""
        numbered = bytearray()
        end_offset = self.log.log_end_offset
        for batch in fetched:
            built = RecordBatch(self._built(batch, BatchFields()))
            built.assign_offsets(end_offset, self.leader_epoch)
            end_offset = built.next_offset
            numbered += built.view
        self.log.append_as_follower(numbered, now_ms=self.now_ms)
        self.log.update_high_watermark(self.log.log_end_offset)

    def _append(self, batch: Batch, fields: BatchFields) -> None:
        self._write(self._built(batch, fields), AppendOrigin.CLIENT)

    def _built(self, batch: Batch, fields: BatchFields) -> bytearray:
        builder = BatchBuilder(fields)
        for sent in batch:
            headers = [Header(name, value) for name, value in sent.headers]
            builder.append(
                timestamp=sent.timestamp, key=sent.key, value=sent.value, headers=headers
            )
        return builder.build()

    def _write(self, batch: bytearray, origin: AppendOrigin) -> None:
        self.log.append_as_leader(
            batch, leader_epoch=self.leader_epoch, now_ms=self.now_ms, origin=origin
        )
        self.log.update_high_watermark(self.log.log_end_offset)


def write_plain(writer: Writer) -> None:
    """Every codec, and two leaders."""
    codecs = cycle(Codec)
    for epoch in (FIRST_EPOCH, SECOND_EPOCH):
        writer.leader_epoch = epoch
        for batch in writer.batches(12, start=epoch * 6):
            writer.append(batch, next(codecs))


def write_transactions(writer: Writer) -> None:
    """Committed, aborted, open and none, across segments."""
    committer, aborter, across, last, idempotent = PRODUCERS[:5]
    for number, batch in enumerate(writer.batches(16)):
        for producer_id in (committer, aborter, across):
            writer.append_as(producer_id, batch)
        writer.append_as(idempotent, batch, is_transactional=False)
        if number > 11:
            writer.append_as(last, batch)
        if number % 3 == 2:
            writer.end(aborter, commit=False)
            writer.end(committer, commit=True)
        if number == 8:
            writer.end(across, commit=False)
    writer.end(across, commit=True)


def write_replicated(writer: Writer) -> None:
    """Four batches to a fetch."""
    written = [*writer.batches(24)]
    for first in range(0, len(written), 4):
        writer.replicate(*written[first : first + 4])


def write_trimmed(writer: Writer) -> None:
    write_plain(writer)
    writer.log.maybe_increment_log_start_offset(19)


def write_old_formats(writer: Writer) -> None:
    forms = [
        LegacyFormat(magic=magic, codec=codec) for magic in (0, 1) for codec in list(Codec)[:4]
    ]
    for number, batch in enumerate(writer.batches(16)):
        writer.append_old(batch, forms[number // 2])
    for batch in writer.batches(3, start=16):
        writer.append(batch)


def write_compacted(writer: Writer) -> None:
    """Tombstones and aborted transactions among it; compacted twice."""
    producer_id = PRODUCERS[5]
    for half in (0, 1):
        for number, batch in enumerate(writer.batches(12, start=half * 12)):
            keyed = [record for record in batch if record.key is not None]
            if keyed:
                writer.append_as(producer_id, keyed)
                writer.end(producer_id, commit=number % 3 != 1)
        compact(writer.log, now_ms=writer.now_ms)


def write_nothing(writer: Writer) -> None:
    """Made, and never appended to."""


@dataclass(frozen=True, slots=True)
class WrittenTopic:
    """``while_written`` are settings that only we have, while we write."""

    write: Callable[[Writer], None]
    configs: Mapping[str, str] = field(default_factory=lambda: ROLLED)
    while_written: Mapping[str, str] = field(default_factory=dict)


NOT_BY_KAFKA = {"min.compaction.lag.ms": str(2**63 - 1)}

TOPICS = {
    "plain": WrittenTopic(write_plain),
    "replicated": WrittenTopic(write_replicated),
    "transactions": WrittenTopic(write_transactions),
    "trimmed": WrittenTopic(write_trimmed),
    "old-formats": WrittenTopic(write_old_formats),
    "empty": WrittenTopic(write_nothing),
    "preallocated": WrittenTopic(write_plain, {**ROLLED, "preallocate": "true"}),
    "append-time": WrittenTopic(write_plain, {**ROLLED, "message.timestamp.type": "LogAppendTime"}),
    "recompressed": WrittenTopic(write_plain, {**ROLLED, "compression.type": "lz4"}),
    "full-index": WrittenTopic(
        write_plain, {**ROLLED, "segment.index.bytes": "24", "index.interval.bytes": "0"}
    ),
    "compacted": WrittenTopic(
        write_compacted,
        {**ROLLED, "cleanup.policy": "compact", **NOT_BY_KAFKA},
        while_written={"min.compaction.lag.ms": "0", "min.cleanable.dirty.ratio": "0.01"},
    ),
}


def write_instead(data_directory: Path, *, now_ms: int, is_closed: bool) -> None:
    """Write the logs of all TOPICS over those that a broker, now stopped, has made there.

    Unless they are closed, the files are left as if the process had been killed.
    """
    owner = meta_properties.read(data_directory)
    assert owner is not None
    meta_properties.write(data_directory, owner)
    clean_shutdown.remove(data_directory)
    logs = [_write_log(data_directory, topic, now_ms) for topic in TOPICS]
    starts = {log.partition: log.log_start_offset for log in logs if log.log_start_offset}
    LOG_START_OFFSETS.write(data_directory, starts)
    HIGH_WATERMARKS.write(data_directory, {log.partition: log.high_watermark for log in logs})
    for log in logs:
        if is_closed:
            log.close(now_ms=now_ms)
        else:
            log.close_handlers()
    RECOVERY_POINTS.write(data_directory, {log.partition: log.recovery_point for log in logs})
    if is_closed:
        clean_shutdown.write(data_directory)


def _write_log(data_directory: Path, topic: str, now_ms: int) -> UnifiedLog:
    directory = data_directory / f"{topic}-0"
    topic_id = partition_metadata.read(directory)
    assert topic_id is not None
    shutil.rmtree(directory)
    directory.mkdir()
    partition_metadata.write(directory, topic_id)
    written = TOPICS[topic]
    configs = {ConfigSource.TOPIC: {**written.configs, **written.while_written}}
    place = LoadLogParams(
        directory=directory,
        partition=TopicPartition(topic, 0),
        settings=TopicSettings.read(configs, server_tables=[SERVER]),
        producer_settings=SERVER,
        now_ms=now_ms,
    )
    log = open_log(place, LogLoadReport())
    written.write(Writer(log, now_ms))
    return log
