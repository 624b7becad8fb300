"""Output of the tables of a job, to standard output or to files.

    table     for display: titles and aligned columns
    json      a line for each row, with the name of its table
    csv       one table: a line of column names, then a line for each row
    parquet   one table, with all columns unchanged
    html      one self-contained page with all tables and charts

A CSV or Parquet file has one table.  For several tables, ``--to`` is a directory with a file for
each; ``--tables`` selects tables.  A name that ends with .csv or .parquet is that of a file.
cell_format.py has the format of each type of cell.

A table of damage exists only if there is damage, and does not change where the other tables are
written.  If it is not written, the caller reports the damage.

Owner: the driver's only thread.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from odradek.spark_jobs.job_runner.cell_format import (
    format_cell,
    timestamp_columns,
    to_csv,
    to_json,
    to_rows,
)
from odradek.spark_jobs.job_runner.html_page import render_page
from odradek.spark_jobs.job_runner.result import Table
from odradek.spark_jobs.scan.damage import ScanFailed

OUTPUTS = ("table", "json", "csv", "parquet", "html")
SINGLE_TABLE_FORMATS = ("csv", "parquet")
#: ``--tables`` may name these even if the result does not have them.
DAMAGE_TABLES = ("damage", "unreadable")
_NUMBER_TYPES = (int, float)


def add_arguments(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--output",
        choices=OUTPUTS,
        default="table",
        help="default: table; html is a page with charts",
    )
    parser.add_argument(
        "--to",
        metavar="PATH",
        type=Path,
        help="a file, or a directory for several tables as csv or parquet, whose name must not "
        "end with .csv or .parquet; default: standard output",
    )
    parser.add_argument(
        "--tables",
        metavar="A,B",
        help="only these tables of the result; an unknown name lists the tables",
    )


def check_arguments(args: argparse.Namespace) -> None:
    """Raise ScanFailed, before the job starts, if its result could not be written."""
    if args.output == "parquet" and args.to is None:
        raise ScanFailed("--output parquet: name a file with --to")
    if args.to is not None and not args.to.absolute().parent.is_dir():
        raise ScanFailed(f"--to {args.to}: no such directory {args.to.absolute().parent}")


def select_tables(tables: Sequence[Table], args: argparse.Namespace) -> Sequence[Table]:
    """Return the tables to write; raise ScanFailed if the output cannot hold them."""
    selected = tables if args.tables is None else _tables_by_name(tables, args.tables)
    is_directory = args.to is not None and args.to.is_dir()
    if args.output not in SINGLE_TABLE_FORMATS or is_directory:
        return selected
    required = [table for table in selected if args.tables is not None or not table.is_damage]
    if len(required) <= 1:
        return required
    if args.to is None or args.to.suffix.lower() == f".{args.output}":
        names = ", ".join(table.name for table in required)
        target = args.to or args.output
        raise ScanFailed(
            f"{target} holds one table: choose one of {names} with --tables, or use --to DIR"
        )
    return selected


def write_tables(tables: Sequence[Table], args: argparse.Namespace, *, title: str) -> None:
    """Each table is computed when it is written."""
    try:
        if args.output in SINGLE_TABLE_FORMATS:
            _write_files(tables, args.output, args.to)
            return
        with _open_output(args.to) as file:
            if args.output == "html":
                materialized = [table.materialize() for table in tables]
                file.write(render_page(materialized, title=title, subtitle=_subtitle(args)))
            else:
                print_one = _print_json_lines if args.output == "json" else _print_table
                for table in tables:
                    print_one(table.materialize(), file)
    except OSError as error:
        raise ScanFailed(str(error)) from error


def _tables_by_name(tables: Sequence[Table], names: str) -> Sequence[Table]:
    by_name = {table.name: table for table in tables}
    requested = [name.strip() for name in names.split(",")]
    for name in requested:
        if name not in by_name and name not in DAMAGE_TABLES:
            raise ScanFailed(f"--tables: no table {name!r}; the tables are {', '.join(by_name)}")
    return [by_name[name] for name in requested if name in by_name]


def _subtitle(args: argparse.Namespace) -> str:
    return ", ".join(args.paths)


@contextmanager
def _open_output(path: Path | None) -> Iterator[TextIO]:
    if path is None:
        yield sys.stdout
        sys.stdout.flush()
    else:
        with path.open("w", encoding="utf-8", newline="") as file:
            yield file


def _write_files(tables: Sequence[Table], output: str, path: Path | None) -> None:
    if len(tables) == 1 and not (path is not None and path.is_dir()):
        _write_file(tables[0].materialize(), output, path)
    elif path is not None:
        path.mkdir(exist_ok=True)
        for table in tables:
            _write_file(table.materialize(), output, path / f"{table.name}.{output}")


def _write_file(table: Table, output: str, path: Path | None) -> None:
    if output == "parquet":
        from pyarrow.parquet import write_table

        write_table(table.rows, path)
        return
    with _open_output(path) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(table.rows.column_names)
        for row in to_rows(table.rows):
            writer.writerow([to_csv(cell) for cell in row.values()])


def _print_json_lines(table: Table, file: TextIO) -> None:
    for row in to_rows(table.rows):
        cells = {name: to_json(cell) for name, cell in row.items()}
        print(json.dumps({"table": table.name, **cells}), file=file)


def _print_table(table: Table, file: TextIO) -> None:
    names, rows = table.rows.column_names, to_rows(table.rows)
    times = timestamp_columns(table.rows)
    texts = [
        [format_cell(name, row[name], is_timestamp=name in times) for name in names] for row in rows
    ]
    if len(rows) == 1:
        lines = _align_columns(list(map(list, zip(names, texts[0], strict=True))), set())
    else:
        right_aligned = {
            index
            for index, name in enumerate(names)
            if name not in times and any(isinstance(row[name], _NUMBER_TYPES) for row in rows)
        }
        lines = _align_columns([names, *texts], right_aligned)
    print(table.title, "", *(f"  {line}" for line in lines), "", sep="\n", file=file)


def _align_columns(rows: list[list[str]], right_aligned: set[int]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if index in right_aligned else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
