"""From the records of an internal topic to rows that say what they mean.

A record whose key or value cannot be decoded becomes a flaw, at its batch, and the others are read
without it: no record fails the scan, unless the mode says so.  Markers of transactions are rows too
if control records are wanted.  If one group or transactional id is looked for, the values of others
are not decoded.

Owner: none; any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from odradek.protocol.errors import CorruptMessage, DecodeError
from odradek.protocol.records.control import ControlType, control_type_of
from odradek.protocol.records.record import Record
from odradek.protocol.schema import Message
from odradek.spark_jobs.contents import group_records, transaction_records
from odradek.spark_jobs.contents.cells import Cells, ReadKey
from odradek.spark_jobs.contents.columns import COLUMNS
from odradek.spark_jobs.contents.content import HOMES, Content
from odradek.spark_jobs.scan.batch_group import BatchGroup
from odradek.spark_jobs.scan.columns import RECORD_COLUMNS, schema_of
from odradek.spark_jobs.scan.decode import Decoded, flaw_in
from odradek.spark_jobs.scan.options import Options
from odradek.spark_jobs.scan.walk import Flaw, OldMessages


@dataclass(frozen=True, slots=True)
class _Reader:
    """How keys and values are read; both raise DecodeError."""

    read_key: Callable[[bytes], ReadKey]
    value_cells: Callable[[type[Message], bytes], Cells]


_READERS: Mapping[Content, _Reader] = {
    Content.OFFSETS: _Reader(group_records.read_key, group_records.value_cells),
    Content.TRANSACTIONS: _Reader(transaction_records.read_key, transaction_records.value_cells),
}
_MARKERS = {ControlType.COMMIT: "CommitMarker", ControlType.ABORT: "AbortMarker"}


def columns_to_read(options: Options) -> tuple[str, ...]:
    """The scanner's columns that the wanted ones are made from."""
    if options.content is Content.RAW:
        return options.columns
    names = COLUMNS[options.content].to_read(options.columns)
    names |= {"isControl"} if options.include_control else set()
    return tuple(name for name in RECORD_COLUMNS if name in names)


def understood(decoded: Decoded, found: BatchGroup | OldMessages, options: Options) -> Decoded:
    """What the scanner decoded of ``found``, by its meaning; as it is, if that is not asked for."""
    if options.content is Content.RAW:
        yield from decoded
        return
    for rows in decoded:
        if isinstance(rows, Flaw):
            yield rows
            continue
        meanings = list(_meanings(rows, options))
        for each in meanings:
            if isinstance(each.cells, str):
                reason = f"the record at offset {each.offset}: {each.cells}"
                yield replace(_flaw(found, each.offset, reason), first_offset=each.offset)
        yield _table(rows, meanings, options)


class _Meaning(NamedTuple):
    """Of the record in a row; a text says why it cannot be read."""

    row: int
    offset: int
    cells: Cells | str


def _meanings(rows: pa.RecordBatch, options: Options) -> Iterator[_Meaning]:
    """Those that are looked for, and those that cannot be read."""
    has_values = "value" in rows.schema.names
    columns = (_cells_of(rows, name) for name in ("offset", "key", "value", "isControl"))
    for row, (offset, key, value, is_control) in enumerate(zip(*columns, strict=True)):
        try:
            cells = _marker(key) if is_control else _cells(key, value, options, has_values)
        except (DecodeError, CorruptMessage) as wrong:
            yield _Meaning(row, offset, str(wrong))
            continue
        if cells is not None:
            yield _Meaning(row, offset, cells)


def _cells_of(rows: pa.RecordBatch, name: str) -> list[Any]:
    """Nothing, of a column that was not read."""
    is_there = name in rows.schema.names
    return rows.column(name).to_pylist() if is_there else [None] * rows.num_rows


def _marker(key: bytes | None) -> Cells | None:
    kind = control_type_of(Record(0, 0, key, None))
    return {"recordType": _MARKERS[kind], "deleted": False} if kind in _MARKERS else None


def _cells(
    key: bytes | None, value: bytes | None, options: Options, has_values: bool
) -> Cells | None:
    """None for a record of somebody else than who is looked for."""
    reader = _READERS[options.content]
    if key is None:
        raise DecodeError("there is no key")
    cells, kind = reader.read_key(key)
    if options.named is not None and cells.get(HOMES[options.content].option) != options.named:
        return None
    if not has_values:
        return cells
    told = {} if value is None or kind is None else reader.value_cells(kind, value)
    return {**cells, **told, "deleted": value is None}


def _table(rows: pa.RecordBatch, meanings: list[_Meaning], options: Options) -> pa.RecordBatch:
    columns = COLUMNS[options.content]
    readable = [each for each in meanings if not isinstance(each.cells, str)]
    numbers = pa.array([each.row for each in readable], pa.int64())
    cells: list[Any] = [each.cells for each in readable]
    types = columns.types
    arrays = [
        rows.column(columns.of_record[name]).take(numbers)
        if name in columns.of_record
        else pa.array([each.get(name) for each in cells], types[name])
        for name in options.columns
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema_of(options.columns, types))


def _flaw(found: BatchGroup | OldMessages, offset: int, reason: str) -> Flaw:
    """At the batch that has the offset."""
    if isinstance(found, BatchGroup):
        at = int(np.searchsorted(found.field("base_offset"), offset, side="right")) - 1
        return flaw_in(found, at, reason)
    message = next(each for each in found.messages if each.last_offset >= offset)
    position = found.position + message.position
    return Flaw(position, position + message.size_bytes, offset, reason)
