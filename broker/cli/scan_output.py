"""Writes the rows of a scan to standard output or to a file.

    table     a table on a terminal, tab-separated lines in a pipe
    json      one line for each row; bytes that are not UTF-8 are {"base64": "..."}
    csv       the column names, then one line for each row; null is empty
    parquet   all columns with their own types

Timestamps are milliseconds since 1970, except in Parquet, which has a timestamp type.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack, redirect_stdout
from pathlib import Path
from typing import Any

from odradek.broker.cli import tables
from odradek.broker.cli.record_lines import json_value

PARQUET = "parquet"
OUTPUTS = ("table", "json", "csv", PARQUET)
#: Readers of Parquet read or skip whole row groups; a group should be neither small nor huge.
ROW_GROUP_BYTES = 64 * 1024 * 1024


def write(batches: Iterator[Any], schema: Any, *, output: str, path: Path | None) -> None:
    """``path`` is None for standard output, which is not possible with Parquet."""
    if output == PARQUET:
        _write_parquet(batches, schema, path)
        return
    with ExitStack() as stack:
        if path is not None:
            file = stack.enter_context(path.open("w", newline=""))
            stack.enter_context(redirect_stdout(file))
        _print(_rows(batches), schema.names, output)


def _write_parquet(batches: Iterator[Any], schema: Any, path: Path | None) -> None:
    from pyarrow import Table
    from pyarrow.parquet import ParquetWriter

    with ParquetWriter(path, schema) as writer:
        pending: list[Any] = []
        for batch in batches:
            pending.append(batch)
            if sum(each.nbytes for each in pending) >= ROW_GROUP_BYTES:
                writer.write_table(Table.from_batches(pending, schema))
                pending.clear()
        if pending:
            writer.write_table(Table.from_batches(pending, schema))


def _print(rows: Iterator[dict[str, Any]], columns: list[str], output: str) -> None:
    if output == "json":
        for row in rows:
            print(json.dumps({name: _to_json(cell) for name, cell in row.items()}))
        return
    cells = ([_text(cell) for cell in row.values()] for row in rows)
    if output == "csv":
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(cells)
    else:
        tables.show(columns, cells, title="", as_json=False)


def _rows(batches: Iterator[Any]) -> Iterator[dict[str, Any]]:
    for batch in batches:
        yield from _in_milliseconds(batch).to_pylist()


def _in_milliseconds(batch: Any) -> Any:
    """Convert timestamps to integers: Python's datetime ends with the year 9999."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for index, field in enumerate(batch.schema):
        if pa.types.is_timestamp(field.type):
            milliseconds = pc.divide(batch.column(index).cast(pa.int64()), 1000)
            batch = batch.set_column(index, field.name, milliseconds)
    return batch


def _to_json(cell: Any) -> Any:
    """Convert a cell to a value that JSON can represent."""
    if isinstance(cell, bytes):
        return json_value(cell)
    if isinstance(cell, list):
        return [_element_to_json(element) for element in cell]
    return cell


def _element_to_json(element: dict[str, Any]) -> Any:
    """Convert a header, or a partition of a transaction."""
    if "key" in element:
        return [element["key"], json_value(element["value"])]
    return element


def _text(cell: Any) -> Any:
    """Convert a cell to text; ``tables`` prints numbers and None itself."""
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, bytes):
        return cell.decode("utf-8", "backslashreplace")
    if isinstance(cell, list):
        return ",".join(_element_text(element) for element in cell)
    return cell


def _element_text(element: dict[str, Any]) -> str:
    if "key" in element:
        return f"{element['key']}={_text(element['value'] or b'')}"
    return f"{element['topic']}-{element['partition']}"
