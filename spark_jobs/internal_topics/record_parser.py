"""Parser of the records of an internal topic into rows.

A record whose key or value cannot be decoded becomes a damaged range at its batch, and the other
records are returned without it: it fails the scan only in mode FAILFAST.  Transaction markers are
rows if control records are included.  With a group or transactional id selected, the values of
others are not decoded.

Owner: none; any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from odradek.protocol.errors import CorruptMessage, DecodeError
from odradek.protocol.records.control_records import ControlRecordType, parse_control_record_type
from odradek.protocol.records.record import Record
from odradek.protocol.schema import Message
from odradek.spark_jobs.internal_topics import group_records, transaction_records
from odradek.spark_jobs.internal_topics.columns import CONTENT_COLUMNS
from odradek.spark_jobs.internal_topics.content import INTERNAL_TOPICS, Content
from odradek.spark_jobs.internal_topics.record_cells import ParsedKey, RecordCells
from odradek.spark_jobs.scan.batch_group import BatchGroup
from odradek.spark_jobs.scan.columns import RECORD_COLUMNS, build_schema
from odradek.spark_jobs.scan.options import ScanOptions
from odradek.spark_jobs.scan.record_decoder import DecodedRows, damaged_batch
from odradek.spark_jobs.scan.segment_reader import DamagedRange, LegacyBatchGroup


@dataclass(frozen=True, slots=True)
class _RecordParser:
    """Functions that decode keys and values; both raise DecodeError."""

    parse_key: Callable[[bytes], ParsedKey]
    parse_value: Callable[[type[Message], bytes], RecordCells]


_PARSERS: Mapping[Content, _RecordParser] = {
    Content.OFFSETS: _RecordParser(group_records.parse_key, group_records.parse_value),
    Content.TRANSACTIONS: _RecordParser(
        transaction_records.parse_key, transaction_records.parse_value
    ),
}
_MARKER_RECORD_TYPES = {
    ControlRecordType.COMMIT: "CommitMarker",
    ControlRecordType.ABORT: "AbortMarker",
}


def columns_to_read(options: ScanOptions) -> tuple[str, ...]:
    """Return the scanner's columns that the columns of the options are computed from."""
    if options.content is Content.RAW:
        return options.columns
    names = CONTENT_COLUMNS[options.content].scan_columns(options.columns)
    names |= {"isControl"} if options.include_control else set()
    return tuple(name for name in RECORD_COLUMNS if name in names)


def parse_internal_records(
    decoded: DecodedRows, scanned: BatchGroup | LegacyBatchGroup, options: ScanOptions
) -> DecodedRows:
    """Parse the rows that the scanner decoded from ``scanned``; raw content stays as it is."""
    if options.content is Content.RAW:
        yield from decoded
        return
    for rows in decoded:
        if isinstance(rows, DamagedRange):
            yield rows
            continue
        records = list(_parse_rows(rows, options))
        for record in records:
            if isinstance(record.cells, str):
                reason = f"the record at offset {record.offset}: {record.cells}"
                yield replace(
                    _damaged_batch_of(scanned, record.offset, reason), first_offset=record.offset
                )
        yield _build_batch(rows, records, options)


class _ParsedRecord(NamedTuple):
    """The cells of the record in a row, or the error text if it cannot be decoded."""

    row: int
    offset: int
    cells: RecordCells | str


def _parse_rows(rows: pa.RecordBatch, options: ScanOptions) -> Iterator[_ParsedRecord]:
    """Yield the selected records, and those that cannot be decoded."""
    has_values = "value" in rows.schema.names
    columns = (_column_values(rows, name) for name in ("offset", "key", "value", "isControl"))
    for row, (offset, key, value, is_control) in enumerate(zip(*columns, strict=True)):
        try:
            cells = (
                _marker_cells(key) if is_control else _record_cells(key, value, options, has_values)
            )
        except (DecodeError, CorruptMessage) as error:
            yield _ParsedRecord(row, offset, str(error))
            continue
        if cells is not None:
            yield _ParsedRecord(row, offset, cells)


def _column_values(rows: pa.RecordBatch, name: str) -> list[Any]:
    """Return None for each row if the column was not read."""
    is_present = name in rows.schema.names
    return rows.column(name).to_pylist() if is_present else [None] * rows.num_rows


def _marker_cells(key: bytes | None) -> RecordCells | None:
    marker_type = parse_control_record_type(Record(0, 0, key, None))
    return (
        {"recordType": _MARKER_RECORD_TYPES[marker_type], "deleted": False}
        if marker_type in _MARKER_RECORD_TYPES
        else None
    )


def _record_cells(
    key: bytes | None, value: bytes | None, options: ScanOptions, has_values: bool
) -> RecordCells | None:
    """Return None for a record of a group or transactional id that is not selected."""
    parser = _PARSERS[options.content]
    if key is None:
        raise DecodeError("the key is null")
    cells, value_type = parser.parse_key(key)
    if (
        options.coordinator_key is not None
        and cells.get(INTERNAL_TOPICS[options.content].id_option) != options.coordinator_key
    ):
        return None
    if not has_values:
        return cells
    value_cells = (
        {} if value is None or value_type is None else parser.parse_value(value_type, value)
    )
    return {**cells, **value_cells, "deleted": value is None}


def _build_batch(
    rows: pa.RecordBatch, parsed_records: list[_ParsedRecord], options: ScanOptions
) -> pa.RecordBatch:
    columns = CONTENT_COLUMNS[options.content]
    readable = [record for record in parsed_records if not isinstance(record.cells, str)]
    row_indexes = pa.array([record.row for record in readable], pa.int64())
    cells: list[Any] = [record.cells for record in readable]
    types = columns.types
    arrays = [
        rows.column(columns.log_columns[name]).take(row_indexes)
        if name in columns.log_columns
        else pa.array([row_cells.get(name) for row_cells in cells], types[name])
        for name in options.columns
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=build_schema(options.columns, types))


def _damaged_batch_of(
    scanned: BatchGroup | LegacyBatchGroup, offset: int, reason: str
) -> DamagedRange:
    """Return a damaged range for the batch that contains the offset."""
    if isinstance(scanned, BatchGroup):
        index = int(np.searchsorted(scanned.field("base_offset"), offset, side="right")) - 1
        return damaged_batch(scanned, index, reason)
    batch = next(batch for batch in scanned.batches if batch.last_offset >= offset)
    position = scanned.position + batch.position
    return DamagedRange(position, position + batch.size_bytes, offset, reason)
