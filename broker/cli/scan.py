"""``odradek scan``: read records straight from segment files, with no broker.

Damage is told on standard error, a line for each range of bytes, and makes the exit status 1.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from odradek.broker.cli.errors import CommandFailed
from odradek.broker.cli.examples import examples
from odradek.broker.cli.scan_output import OUTPUTS, PARQUET, write
from odradek.spark_jobs.job_runner.flags import (
    READ_FLAGS,
    SELECTION_FLAGS,
    Flag,
    add_flags,
    add_paths,
    collect_options,
)

INSTALL_HINT = "scan needs numpy and pyarrow: pip install 'odradek[arrow]'"
DONE, DAMAGED = 0, 1

#: What a row is; a Spark job decides that by itself.
VIEW_FLAGS = (
    Flag("view", "a row for each of these", choices=("records", "batches")),
    Flag("columns", "only what these need is decoded; a wrong name is answered with a list", "A,B"),
    Flag("includeHeaders", is_switch=True),
    Flag(
        "includeControl",
        "markers of transactions too, and a column that tells them apart",
        is_switch=True,
    ),
)

#: What the keys and values of internal topics stand for.
CONTENT_FLAGS = (
    Flag(
        "content",
        "offsets: what groups have committed, from __consumer_offsets; transactions: the states of "
        "transactional ids, from __transaction_state; raw: bytes, as if not given",
        choices=("raw", "offsets", "transactions"),
    ),
    Flag("group", "only this one's offsets, from the one partition that has them", "ID"),
    Flag("transactionalId", "only this one's transactions, likewise", "ID"),
    Flag(
        "partitionCount",
        "how many partitions the internal topic has, where not all of them are in PATH",
        "N",
    ),
)


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "scan",
        help="read records straight from segment files, with no broker",
        description="Read the records in log directories of Odradek or Apache Kafka, running or "
        "not.  Nothing is changed.  What lies beyond the high watermark that the directory has on "
        "record is left out, and so are transactions that were aborted or are still open.  "
        "Damage is skipped and told on standard error; the exit status is then 1.",
        **examples(
            "odradek scan /var/lib/kafka --topics orders --columns offset,key,value --limit 10",
            "odradek scan /var/lib/kafka --view batches --output csv",
            "odradek scan s3://bucket/logs --topics orders --output parquet --to orders.parquet",
            "odradek scan /var/lib/kafka --content offsets --group billing",
        ),
    )
    add_paths(parser)
    _add_selection(parser)
    add_flags(parser.add_argument_group("what internal topics mean"), CONTENT_FLAGS)
    add_flags(parser.add_argument_group("how to read them"), (*VIEW_FLAGS, *READ_FLAGS))
    _add_output(parser)
    parser.set_defaults(run=run)


def _add_selection(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("which records")
    add_flags(group, SELECTION_FLAGS)
    group.add_argument("--limit", metavar="N", type=_parse_count, help="no more rows than this")


def _add_output(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("where to put them")
    group.add_argument("--output", choices=OUTPUTS, default="table")
    group.add_argument("--to", metavar="FILE", type=Path, help="standard output, if not given")


def _parse_count(argument: str) -> int:
    if not argument.isdecimal():
        raise argparse.ArgumentTypeError(f"{argument!r} is not a number of rows")
    return int(argument)


def run(arguments: argparse.Namespace) -> int:
    try:
        from odradek.spark_jobs.scan.damage import Damage, ScanFailed
        from odradek.spark_jobs.scan.options import parse_options
        from odradek.spark_jobs.scan.scanner import scan_all, scan_schema
    except ImportError as missing:
        raise CommandFailed(INSTALL_HINT) from missing
    if arguments.output == PARQUET and arguments.to is None:
        raise CommandFailed("parquet is not for a screen: name a file with --to")
    damages: list[Damage] = []

    def report(damage: Damage) -> None:
        damages.append(damage)
        print(f"odradek: {damage}", file=sys.stderr)

    try:
        options = parse_options(
            collect_options(arguments, (*SELECTION_FLAGS, *CONTENT_FLAGS, *VIEW_FLAGS, *READ_FLAGS))
        )
        batches = scan_all(options, report)
        if arguments.limit is not None:
            batches = _limit_rows(batches, arguments.limit)
        write(batches, scan_schema(options), output=arguments.output, path=arguments.to)
    except BrokenPipeError:
        raise
    except (ScanFailed, OSError) as error:
        raise CommandFailed(str(error)) from error
    return DAMAGED if damages else DONE


def _limit_rows(batches: Iterator[Any], count: int) -> Iterator[Any]:
    """No more than so many rows, and no more read than they need."""
    while count > 0 and (batch := next(batches, None)) is not None:
        yield batch.slice(0, count)
        count -= min(count, batch.num_rows)
