"""Results of a job, on the screen or in files.

    table     for a person: titles, and columns that stand in line
    json      a line for each row, which names its table
    csv       one table: the names of the columns, then a line for each row
    parquet   one table, with all columns as they are
    html      one page of all tables and charts, which needs nothing else

CSV and Parquet have one table in a file.  If there are several, ``--to`` is a directory that gets a
file for each; ``--tables`` chooses.  A name that ends as such a file does is that of a file.
cells.py says how each kind of cell is written.

A table of damage, which may be there or not, makes no difference to where the others go: where it
is not written, whoever called is to tell of it.

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

from odradek.spark_jobs.running.cells import (
    for_a_person,
    for_csv,
    for_json,
    rows_of,
    timestamps_of,
)
from odradek.spark_jobs.running.html_page import html_page
from odradek.spark_jobs.running.result import Table
from odradek.spark_jobs.scan.damage import ScanFailed

OUTPUTS = ("table", "json", "csv", "parquet", "html")
ONE_TABLE_A_FILE = ("csv", "parquet")
#: May be asked for though there are none.
DAMAGE_TABLES = ("damage", "unreadable")
_NUMBERS = (int, float)


def add_arguments(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--output",
        choices=OUTPUTS,
        default="table",
        help="a table, if not given; html is a page with charts",
    )
    parser.add_argument(
        "--to",
        metavar="PATH",
        type=Path,
        help="a file; or, for csv or parquet of several tables, a directory, whose name does not "
        "end with .csv or .parquet; standard output, if not given",
    )
    parser.add_argument(
        "--tables",
        metavar="A,B",
        help="only these of the result's tables; a wrong name is answered with a list",
    )


def check(args: argparse.Namespace) -> None:
    """ScanFailed, before the work begins, if its result could not be written."""
    if args.output == "parquet" and args.to is None:
        raise ScanFailed("parquet is not for a screen: name a file with --to")
    if args.to is not None and not args.to.absolute().parent.is_dir():
        raise ScanFailed(f"--to {args.to}: there is no directory {args.to.absolute().parent}")


def chosen(tables: Sequence[Table], args: argparse.Namespace) -> Sequence[Table]:
    """Those that are to be written; ScanFailed if they have no room where they are to go."""
    wanted = tables if args.tables is None else _named(tables, args.tables)
    is_directory = args.to is not None and args.to.is_dir()
    if args.output not in ONE_TABLE_A_FILE or is_directory:
        return wanted
    always = [table for table in wanted if args.tables is not None or not table.of_damage]
    if len(always) <= 1:
        return always
    if args.to is None or args.to.suffix.lower() == f".{args.output}":
        names = ", ".join(table.name for table in always)
        place = args.to or args.output
        raise ScanFailed(f"{place} has one table: choose with --tables one of {names}, or --to DIR")
    return wanted


def write(tables: Sequence[Table], args: argparse.Namespace, *, title: str) -> None:
    """Each of those chosen is computed when its turn has come."""
    try:
        if args.output in ONE_TABLE_A_FILE:
            _write_each(tables, args.output, args.to)
            return
        with _opened(args.to) as file:
            if args.output == "html":
                collected = [table.collected() for table in tables]
                file.write(html_page(collected, title=title, about=_about(args)))
            else:
                print_one = _print_lines if args.output == "json" else _print_table
                for table in tables:
                    print_one(table.collected(), file)
    except OSError as failure:
        raise ScanFailed(str(failure)) from failure


def _named(tables: Sequence[Table], names: str) -> Sequence[Table]:
    named = {table.name: table for table in tables}
    wanted = [name.strip() for name in names.split(",")]
    for name in wanted:
        if name not in named and name not in DAMAGE_TABLES:
            raise ScanFailed(f"--tables: no table is called {name!r}; there are {', '.join(named)}")
    return [named[name] for name in wanted if name in named]


def _about(args: argparse.Namespace) -> str:
    return ", ".join(args.paths)


@contextmanager
def _opened(to: Path | None) -> Iterator[TextIO]:
    if to is None:
        yield sys.stdout
        sys.stdout.flush()
    else:
        with to.open("w", encoding="utf-8", newline="") as file:
            yield file


def _write_each(tables: Sequence[Table], output: str, to: Path | None) -> None:
    if len(tables) == 1 and not (to is not None and to.is_dir()):
        _write_one(tables[0].collected(), output, to)
    elif to is not None:
        to.mkdir(exist_ok=True)
        for table in tables:
            _write_one(table.collected(), output, to / f"{table.name}.{output}")


def _write_one(table: Table, output: str, to: Path | None) -> None:
    if output == "parquet":
        from pyarrow.parquet import write_table

        write_table(table.rows, to)
        return
    with _opened(to) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(table.rows.column_names)
        for row in rows_of(table.rows):
            writer.writerow([for_csv(cell) for cell in row.values()])


def _print_lines(table: Table, file: TextIO) -> None:
    for row in rows_of(table.rows):
        told = {name: for_json(cell) for name, cell in row.items()}
        print(json.dumps({"table": table.name, **told}), file=file)


def _print_table(table: Table, file: TextIO) -> None:
    names, rows = table.rows.column_names, rows_of(table.rows)
    times = timestamps_of(table.rows)
    texts = [
        [for_a_person(name, row[name], is_timestamp=name in times) for name in names]
        for row in rows
    ]
    if len(rows) == 1:
        lines = _in_columns(list(map(list, zip(names, texts[0], strict=True))), set())
    else:
        to_the_right = {
            at
            for at, name in enumerate(names)
            if name not in times and any(isinstance(row[name], _NUMBERS) for row in rows)
        }
        lines = _in_columns([names, *texts], to_the_right)
    print(table.title, "", *(f"  {line}" for line in lines), "", sep="\n", file=file)


def _in_columns(rows: list[list[str]], to_the_right: set[int]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if at in to_the_right else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
