"""Read the records of an exported partition, in offset order.

Files are grouped by date, and timestamps are not in order.  Therefore files whose offsets overlap
are read side by side, and the record with the smallest offset is next.

Owner: the caller that iterates.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple

import pyarrow as pa
from pyarrow.parquet import ParquetFile

from odradek.spark_jobs.scan.damage import ScanFailed
from odradek.spark_jobs.transfer.export_directory import ExportDirectory
from odradek.spark_jobs.transfer.manifest import ExportFile

ROWS_PER_BATCH = 4096
_COLUMNS = ["offset", "timestamp", "timestampType", "key", "value", "headers"]
_NO_TIMESTAMP_TYPE = -1


@dataclass(frozen=True, slots=True)
class ExportFileRef:
    """A file, and the export that contains it."""

    export_path: str
    file: ExportFile


class ExportedRecord(NamedTuple):
    offset: int
    timestamp_ms: int | None  # None if the record has no timestamp
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


def read_exported_records(files: Iterable[ExportFileRef]) -> Iterator[ExportedRecord]:
    """Yield the records of ``files``, which belong to one partition."""
    unopened = sorted(files, key=lambda ref: ref.file.first_offset, reverse=True)
    cursors: list[_FileCursor] = []  # a heap; file_index prevents the comparison of records
    while unopened or cursors:
        while unopened and (not cursors or unopened[-1].file.first_offset < cursors[0].offset):
            file_ref = unopened.pop()
            _push_next(cursors, _read_file(file_ref), file_index=len(unopened))
        _, file_index, record, records = heappop(cursors)
        yield record
        _push_next(cursors, records, file_index=file_index)


class _FileCursor(NamedTuple):
    """A file that is being read, and its next record."""

    offset: int
    file_index: int
    record: ExportedRecord
    records: Iterator[ExportedRecord]


def _push_next(
    cursors: list[_FileCursor], records: Iterator[ExportedRecord], *, file_index: int
) -> None:
    record = next(records, None)
    if record is not None:
        heappush(cursors, _FileCursor(record.offset, file_index, record, records))


def _read_file(file_ref: ExportFileRef) -> Iterator[ExportedRecord]:
    """Yield the records of a file.  Raises ScanFailed if it differs from the manifest."""
    count = 0
    try:
        with ExportDirectory(file_ref.export_path).open(file_ref.file.path) as stream:
            for rows in ParquetFile(stream).iter_batches(ROWS_PER_BATCH, columns=_COLUMNS):
                yield from _to_records(rows)
                count += rows.num_rows
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise ScanFailed(f"{file_ref.export_path}/{file_ref.file.path}: {reason}") from error
    if count != file_ref.file.records:
        mismatch = f"{count} records, not {file_ref.file.records}"
        raise ScanFailed(f"{file_ref.export_path}/{file_ref.file.path}: {mismatch}")


def _to_records(rows: pa.RecordBatch) -> Iterator[ExportedRecord]:
    times = rows.column("timestamp").cast(pa.int64()).to_pylist()
    columns = {name: rows.column(name).to_pylist() for name in _COLUMNS if name != "timestamp"}
    for row, offset in enumerate(columns["offset"]):
        has_time = times[row] is not None and columns["timestampType"][row] != _NO_TIMESTAMP_TYPE
        headers = columns["headers"][row] or ()
        yield ExportedRecord(
            offset,
            times[row] // 1000 if has_time else None,
            columns["key"][row],
            columns["value"][row],
            [(header["key"], header["value"]) for header in headers],
        )
