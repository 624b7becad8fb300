"""Log directories made for a scan, and what plain Python reads in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from odradek.protocol.records.record_set import AnyBatch, batches_of_any_magic, magic_of
from odradek.spark_jobs.scan.damage import Damage
from odradek.spark_jobs.scan.scanner import scan
from odradek.storage.offset_checkpoints import HIGH_WATERMARKS
from odradek.storage.offset_index import ENTRY as OFFSET_ENTRY
from odradek.storage.paths import LogFileType, file_path
from odradek.storage.time_index import ENTRY as TIME_ENTRY

TOPIC = "orders"
ALL_COLUMNS = (
    "key,value,topic,partition,offset,timestamp,timestampType,headers,producerId,producerEpoch,"
    "sequence,isTransactional,leaderEpoch,codec,keySize,valueSize,segment"
)


class LogDirectory:
    """A log directory with one partition, whose segments are written as bytes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.partition = path / f"{TOPIC}-0"
        self.partition.mkdir(parents=True)

    def file(self, base_offset: int, content: LogFileType = LogFileType.LOG) -> Path:
        return file_path(self.partition, base_offset, content)

    def write(self, base_offset: int, batches: Iterable[bytes], *, indexed: bool = False) -> Path:
        """A segment; its indexes have an entry for each batch but the first."""
        stored = [bytes(batch) for batch in batches]
        path = self.file(base_offset)
        path.write_bytes(b"".join(stored))
        if indexed:
            self._write_indexes(base_offset)
        return path

    def _write_indexes(self, base_offset: int) -> None:
        offsets, times = b"", b""
        largest = -1
        for at, batch in enumerate(batches_of_any_magic(self.file(base_offset).read_bytes())):
            relative = batch.last_offset - base_offset
            if at:
                offsets += OFFSET_ENTRY.pack(relative, batch.position)
            if batch.max_timestamp > largest:
                largest = batch.max_timestamp
                times += TIME_ENTRY.pack(largest, relative)
        self.file(base_offset, LogFileType.OFFSET_INDEX).write_bytes(offsets)
        self.file(base_offset, LogFileType.TIME_INDEX).write_bytes(times)

    def set_high_watermark(self, offset: int) -> None:
        from odradek.protocol.types import TopicPartition

        HIGH_WATERMARKS.write(self.path, {TopicPartition(TOPIC, 0): offset})

    def scan(self, **options: str) -> Scanned:
        return Scanned(str(self.path), **options)


class Scanned:
    """The rows of a scan, timestamps in milliseconds, and what was reported."""

    def __init__(self, path: str, **options: str) -> None:
        self.damages: list[Damage] = []
        self.batches = list(scan(self.damages.append, path=path, **options))
        self.rows = [row for batch in self.batches for row in rows_of(batch)]

    @property
    def offsets(self) -> list[int]:
        return [row["offset"] for row in self.rows]


def rows_of(batch: Any) -> Iterator[dict[str, Any]]:
    import pyarrow as pa

    for at, field in enumerate(batch.schema):
        if pa.types.is_timestamp(field.type):
            times = pc.divide(batch.column(at).cast(pa.int64()), 1000)
            batch = batch.set_column(at, field.name, times)
    yield from batch.to_pylist()


def plain_rows(log: bytes, *, segment: str, topic: str = TOPIC) -> Iterator[dict[str, Any]]:
    """What protocol/records reads, in all columns; control batches are left out."""
    for batch in batches_of_any_magic(log):
        batch.check_crc()
        if not batch.is_control:
            yield from _plain_rows(batch, segment, topic)


def _plain_rows(batch: AnyBatch, segment: str, topic: str) -> Iterator[dict[str, Any]]:
    for record in batch:
        sequence = batch.base_sequence
        yield {
            "key": record.key,
            "value": record.value,
            "topic": topic,
            "partition": 0,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "timestampType": -1 if magic_of(batch) == 0 else int(batch.timestamp_type),
            "headers": [{"key": each.key, "value": each.value} for each in record.headers] or None,
            "producerId": _or_none(batch.producer_id),
            "producerEpoch": _or_none(batch.producer_epoch),
            "sequence": None
            if sequence < 0
            else (sequence + record.offset - batch.base_offset) % 2**31,
            "isTransactional": batch.is_transactional,
            "leaderEpoch": _or_none(batch.partition_leader_epoch),
            "codec": batch.codec.name.lower(),
            "keySize": None if record.key is None else len(record.key),
            "valueSize": None if record.value is None else len(record.value),
            "segment": segment,
        }


def _or_none(number: int) -> int | None:
    return None if number < 0 else number
