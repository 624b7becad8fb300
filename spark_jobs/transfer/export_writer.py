"""A piece of an export as files of Parquet, such as ``topic=orders/date=2026-11-17/....parquet``.

A file has records of one partition and one date, in the order of offsets, and is named for its
partition and its first offset: an attempt that is made again writes the same files once more, or,
if compaction has taken the first record away meanwhile, others.  Only those that the manifest names
are left when the export is whole.

The date is that of the timestamp, in UTC.  Timestamps are not in order; so several files are open
at a time, but not more than OPEN_MAX, lest wild timestamps take all memory.

Owner: whoever writes the piece.
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

from odradek.spark_jobs.scan.options import Options
from odradek.spark_jobs.scan.scanner import read_split
from odradek.spark_jobs.transfer.export_plan import ExportPlan, Piece
from odradek.spark_jobs.transfer.manifest import ExportedPartition, ExportFile, Manifest
from odradek.spark_jobs.transfer.places import NewFile, Place

OPEN_MAX = 64
ROW_GROUP_BYTES = 16 * 1024 * 1024
COMPRESSION = "zstd"

#: What Hive, and Spark after it, call the partition of those that have no value.
NO_DATE = "__HIVE_DEFAULT_PARTITION__"
_DAY_US = 86_400_000_000
_NO_DAY = np.iinfo(np.int64).min
_DAY_ZERO = date(1970, 1, 1).toordinal()


@dataclass(frozen=True, slots=True)
class WrittenPiece:
    files: tuple[ExportFile, ...]
    damages: tuple[str, ...]


def write_piece(piece: Piece, options: Options, target: str) -> WrittenPiece:
    """``target`` is the directory of the export."""
    damages: list[str] = []
    first = piece.splits[0]
    writing = _Writing(Place(target), first.topic, first.partition)
    for split in piece.splits:
        for rows in read_split(split, options, lambda damage: damages.append(str(damage))):
            for day, of_day in _by_day(rows):
                writing.add(day, of_day)
    return WrittenPiece(tuple(writing.finish()), tuple(damages))


def manifest_of(
    planned: ExportPlan,
    written: Sequence[WrittenPiece],
    options: Mapping[str, str],
    *,
    created_ms: int,
) -> Manifest:
    """Of an export all of whose pieces are written."""
    files = [file for piece in written for file in piece.files]
    records = dict.fromkeys(planned.ranges, 0)
    for file in files:
        records[file.topic, file.partition] += file.records
    return Manifest(
        created_ms=created_ms,
        options=options,
        partition_counts=planned.partition_counts,
        partitions=tuple(
            ExportedPartition(*key, wanted.start, max(wanted.start, wanted.end), records[key])
            for key, wanted in planned.ranges.items()
        ),
        files=tuple(sorted(files, key=lambda file: file.path)),
        damages=tuple(line for piece in written for line in piece.damages),
    )


def _by_day(rows: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Days since 1970, and the rows of each, in their order."""
    times = pc.fill_null(rows.column("timestamp").cast(pa.int64()), _NO_DAY)
    microseconds = times.to_numpy(zero_copy_only=False)
    days = np.where(microseconds == _NO_DAY, _NO_DAY, microseconds // _DAY_US)
    distinct = np.unique(days).tolist()
    for day in distinct:
        yield day, rows if len(distinct) == 1 else rows.filter(pa.array(days == day))


def date_of(day: int) -> str:
    """As the directory is named; what no calendar has is as good as none."""
    try:
        return date.fromordinal(_DAY_ZERO + day).isoformat()
    except (ValueError, OverflowError):
        return NO_DATE


@dataclass(slots=True)
class _OpenFile:
    file: NewFile
    first_offset: int
    writer: ParquetWriter
    last_offset: int = -1
    records: int = 0
    waiting: list[pa.RecordBatch] = field(default_factory=list)
    waiting_bytes: int = 0

    def add(self, rows: pa.RecordBatch) -> None:
        self.last_offset = rows.column("offset")[-1].as_py()
        self.records += rows.num_rows
        self.waiting.append(rows)
        self.waiting_bytes += rows.nbytes
        if self.waiting_bytes >= ROW_GROUP_BYTES:
            self.write()

    def write(self) -> None:
        """What has been waiting, as one group of rows."""
        if self.waiting:
            table = pa.Table.from_batches(self.waiting)
            self.writer.write_table(table, row_group_size=table.num_rows)
        self.waiting, self.waiting_bytes = [], 0


class _Writing:
    """The files of one piece."""

    def __init__(self, place: Place, topic: str, partition: int) -> None:
        self._place = place
        self._topic = topic
        self._partition = partition
        self._open: OrderedDict[str, _OpenFile] = OrderedDict()  # by date, the last used last
        self._done: list[ExportFile] = []

    def add(self, day: int, rows: pa.RecordBatch) -> None:
        label = date_of(day)
        if label not in self._open:
            if len(self._open) >= OPEN_MAX:
                self._close(next(iter(self._open)))
            self._open[label] = self._opened(label, rows)
        self._open.move_to_end(label)
        self._open[label].add(rows)

    def _opened(self, label: str, rows: pa.RecordBatch) -> _OpenFile:
        first_offset = rows.column("offset")[0].as_py()
        file_name = f"{self._partition:05}-{first_offset:020}.parquet"
        name = f"topic={self._topic}/date={label}/{file_name}"
        file = self._place.create(name)
        writer = ParquetWriter(file.stream, rows.schema, compression=COMPRESSION)
        return _OpenFile(file, first_offset, writer)

    def _close(self, label: str) -> None:
        written = self._open.pop(label)
        written.write()
        written.writer.close()
        written.file.stream.close()
        self._place.keep(written.file)
        name = written.file.name
        self._done.append(
            ExportFile(
                path=name,
                topic=self._topic,
                partition=self._partition,
                date=label,
                first_offset=written.first_offset,
                last_offset=written.last_offset,
                records=written.records,
                size_bytes=self._place.size_of(name) or 0,
            )
        )

    def finish(self) -> list[ExportFile]:
        for label in list(self._open):
            self._close(label)
        return self._done
