"""Write an export task as Parquet files, such as ``topic=orders/date=2026-11-17/....parquet``.

A file holds records of one partition and one date, in offset order.  Its name contains the
partition and its first offset.  A repeated attempt writes the same files again, or other files if
compaction has removed the first record meanwhile.  When the export is complete, only the files in
the manifest are left.

The date is that of the timestamp, in UTC.  Timestamps are not in order, so several files are open
at a time, but no more than OPEN_FILES_MAX, to bound the memory that scattered timestamps need.

Owner: the process that writes the task.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.parquet import ParquetWriter

from odradek.spark_jobs.scan.options import ScanOptions
from odradek.spark_jobs.scan.scanner import read_split
from odradek.spark_jobs.transfer.export_directory import ExportDirectory, PendingFile
from odradek.spark_jobs.transfer.export_plan import ExportPlan, ExportTask
from odradek.spark_jobs.transfer.manifest import ExportedPartition, ExportFile, Manifest

OPEN_FILES_MAX = 64
ROW_GROUP_BYTES = 16 * 1024 * 1024
COMPRESSION = "zstd"

#: The name that Hive, and therefore Spark, gives to the partition without a value.
NO_DATE = "__HIVE_DEFAULT_PARTITION__"
_DAY_US = 86_400_000_000
_NO_DAY = np.iinfo(np.int64).min
_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()


@dataclass(frozen=True, slots=True)
class ExportTaskResult:
    files: tuple[ExportFile, ...]
    damages: tuple[str, ...]


def write_task(task: ExportTask, options: ScanOptions, export_path: str) -> ExportTaskResult:
    """Write the files of a task; ``export_path`` is the directory of the export."""
    damages: list[str] = []
    first = task.splits[0]
    writer = _PartitionWriter(ExportDirectory(export_path), first.topic, first.partition)
    for split in task.splits:
        for rows in read_split(split, options, lambda damage: damages.append(str(damage))):
            for day, day_rows in _split_by_day(rows):
                writer.add(day, day_rows)
    return ExportTaskResult(tuple(writer.finish()), tuple(damages))


def build_manifest(
    plan: ExportPlan,
    results: Sequence[ExportTaskResult],
    options: Mapping[str, str],
    *,
    created_ms: int,
) -> Manifest:
    """Build the manifest of an export whose tasks have all been written."""
    files = [file for result in results for file in result.files]
    records = dict.fromkeys(plan.ranges, 0)
    for file in files:
        records[file.topic, file.partition] += file.records
    return Manifest(
        created_ms=created_ms,
        options=options,
        partition_counts=plan.partition_counts,
        partitions=tuple(
            ExportedPartition(
                *key, offset_range.start, max(offset_range.start, offset_range.end), records[key]
            )
            for key, offset_range in plan.ranges.items()
        ),
        files=tuple(sorted(files, key=lambda file: file.path)),
        damages=tuple(line for result in results for line in result.damages),
    )


def _split_by_day(rows: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield days since 1970, and the rows of each, in order."""
    times = pc.fill_null(rows.column("timestamp").cast(pa.int64()), _NO_DAY)
    microseconds = times.to_numpy(zero_copy_only=False)
    days = np.where(microseconds == _NO_DAY, _NO_DAY, microseconds // _DAY_US)
    distinct = np.unique(days).tolist()
    for day in distinct:
        yield day, rows if len(distinct) == 1 else rows.filter(pa.array(days == day))


def format_date(day: int) -> str:
    """Return the date for the directory name; NO_DATE if the calendar does not have it."""
    try:
        return date.fromordinal(_EPOCH_ORDINAL + day).isoformat()
    except (ValueError, OverflowError):
        return NO_DATE


@dataclass(slots=True)
class _OpenFile:
    file: PendingFile
    first_offset: int
    writer: ParquetWriter
    last_offset: int = -1
    records: int = 0
    pending: list[pa.RecordBatch] = field(default_factory=list)
    pending_bytes: int = 0

    def add(self, rows: pa.RecordBatch) -> None:
        self.last_offset = rows.column("offset")[-1].as_py()
        self.records += rows.num_rows
        self.pending.append(rows)
        self.pending_bytes += rows.nbytes
        if self.pending_bytes >= ROW_GROUP_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write the pending rows as one row group."""
        if self.pending:
            table = pa.Table.from_batches(self.pending)
            self.writer.write_table(table, row_group_size=table.num_rows)
        self.pending, self.pending_bytes = [], 0


class _PartitionWriter:
    """Writes the files of one task."""

    def __init__(self, directory: ExportDirectory, topic: str, partition: int) -> None:
        self._directory = directory
        self._topic = topic
        self._partition = partition
        self._open_files: OrderedDict[str, _OpenFile] = OrderedDict()  # by date, the last used last
        self._finished_files: list[ExportFile] = []

    def add(self, day: int, rows: pa.RecordBatch) -> None:
        label = format_date(day)
        if label not in self._open_files:
            if len(self._open_files) >= OPEN_FILES_MAX:
                self._close_file(next(iter(self._open_files)))
            self._open_files[label] = self._open_file(label, rows)
        self._open_files.move_to_end(label)
        self._open_files[label].add(rows)

    def _open_file(self, label: str, rows: pa.RecordBatch) -> _OpenFile:
        first_offset = rows.column("offset")[0].as_py()
        file_name = f"{self._partition:05}-{first_offset:020}.parquet"
        name = f"topic={self._topic}/date={label}/{file_name}"
        file = self._directory.create_file(name)
        writer = ParquetWriter(file.stream, rows.schema, compression=COMPRESSION)
        return _OpenFile(file, first_offset, writer)

    def _close_file(self, label: str) -> None:
        open_file = self._open_files.pop(label)
        open_file.flush()
        open_file.writer.close()
        open_file.file.stream.close()
        self._directory.commit_file(open_file.file)
        name = open_file.file.name
        self._finished_files.append(
            ExportFile(
                path=name,
                topic=self._topic,
                partition=self._partition,
                date=label,
                first_offset=open_file.first_offset,
                last_offset=open_file.last_offset,
                records=open_file.records,
                size_bytes=self._directory.size_of(name) or 0,
            )
        )

    def finish(self) -> list[ExportFile]:
        for label in list(self._open_files):
            self._close_file(label)
        return self._finished_files
