"""The records of an exported partition, in the order of their offsets.

Files are by date, and timestamps are not in order: so the files of a partition are read side by
side, those whose offsets overlap, and always the smallest offset is next.

Owner: whoever iterates.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple

import pyarrow as pa
from pyarrow.parquet import ParquetFile

from odradek.spark_jobs.scan.damage import ScanFailed
from odradek.spark_jobs.transfer.manifest import ExportFile
from odradek.spark_jobs.transfer.places import Place

ROWS_AT_A_TIME = 4096
_COLUMNS = ["offset", "timestamp", "timestampType", "key", "value", "headers"]
_NO_TIMESTAMP_TYPE = -1


@dataclass(frozen=True, slots=True)
class PlacedFile:
    """A file, and the export that it is in."""

    export: str
    file: ExportFile


class ExportedRecord(NamedTuple):
    offset: int
    timestamp_ms: int | None  # None if it has none
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


def exported_records(files: Iterable[PlacedFile]) -> Iterator[ExportedRecord]:
    """``files`` are of one partition."""
    waiting = sorted(files, key=lambda each: each.file.first_offset, reverse=True)
    reading: list[_Reading] = []  # a heap; the number keeps records from being compared
    while waiting or reading:
        while waiting and (not reading or waiting[-1].file.first_offset < reading[0].offset):
            placed = waiting.pop()
            _go_on(reading, _records_in(placed), number=len(waiting))
        _, number, record, rows = heappop(reading)
        yield record
        _go_on(reading, rows, number=number)


class _Reading(NamedTuple):
    """A file that is being read; the record is the next one."""

    offset: int
    number: int
    record: ExportedRecord
    rows: Iterator[ExportedRecord]


def _go_on(reading: list[_Reading], rows: Iterator[ExportedRecord], *, number: int) -> None:
    record = next(rows, None)
    if record is not None:
        heappush(reading, _Reading(record.offset, number, record, rows))


def _records_in(placed: PlacedFile) -> Iterator[ExportedRecord]:
    """ScanFailed if it has not what the export says it has."""
    count = 0
    try:
        with Place(placed.export).open(placed.file.path) as stream:
            for rows in ParquetFile(stream).iter_batches(ROWS_AT_A_TIME, columns=_COLUMNS):
                yield from _records(rows)
                count += rows.num_rows
    except (pa.ArrowException, OSError) as damaged:
        line = str(damaged).splitlines()[0]
        raise ScanFailed(f"{placed.export}/{placed.file.path}: {line}") from damaged
    if count != placed.file.records:
        what = f"{count} records, not {placed.file.records}"
        raise ScanFailed(f"{placed.export}/{placed.file.path}: {what}")


def _records(rows: pa.RecordBatch) -> Iterator[ExportedRecord]:
    times = rows.column("timestamp").cast(pa.int64()).to_pylist()
    columns = {name: rows.column(name).to_pylist() for name in _COLUMNS if name != "timestamp"}
    for at, offset in enumerate(columns["offset"]):
        has_time = times[at] is not None and columns["timestampType"][at] != _NO_TIMESTAMP_TYPE
        headers = columns["headers"][at] or ()
        yield ExportedRecord(
            offset,
            times[at] // 1000 if has_time else None,
            columns["key"][at],
            columns["value"][at],
            [(each["key"], each["value"]) for each in headers],
        )
