"""``odradek scan``: read records directly from segment files, without a broker.

Damage is reported on standard error, one line for each range of bytes; the exit code is then 1.
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

#: The meaning of a row; a Spark job defines that itself.
VIEW_FLAGS = (
    Flag("view", "print a row for each of these", choices=("records", "batches")),
    Flag("columns", "decode only these columns; an unknown name lists the known ones", "A,B"),
    Flag("includeHeaders", is_switch=True),
    Flag(
        "includeControl",
        "include transaction markers, and a column that identifies them",
        is_switch=True,
    ),
)

#: How the keys and values of internal topics are decoded.
CONTENT_FLAGS = (
    Flag(
        "content",
        "offsets: committed offsets of groups, from __consumer_offsets; transactions: the states "
        "of transactional ids, from __transaction_state; raw: bytes (the default)",
        choices=("raw", "offsets", "transactions"),
    ),
    Flag("group", "only the offsets of this group, from its partition alone", "ID"),
    Flag("transactionalId", "only the transactions of this id, from its partition alone", "ID"),
    Flag(
        "partitionCount",
        "the partition count of the internal topic, if PATH does not have all partitions",
        "N",
    ),
)


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "scan",
        help="read records directly from segment files, without a broker",
        description="Read the records in log directories of Odradek or Apache Kafka, while the "
        "broker runs or not.  Nothing is changed.  Records beyond the checkpointed high watermark "
        "are omitted, and so are the records of aborted and open transactions.  Damage is skipped "
        "and reported on standard error; the exit code is then 1.",
        **examples(
            "odradek scan /var/lib/kafka --topics orders --columns offset,key,value --limit 10",
            "odradek scan /var/lib/kafka --view batches --output csv",
            "odradek scan s3://bucket/logs --topics orders --output parquet --to orders.parquet",
            "odradek scan /var/lib/kafka --content offsets --group billing",
        ),
    )
    add_paths(parser)
    _add_selection(parser)
    add_flags(parser.add_argument_group("internal topics"), CONTENT_FLAGS)
    add_flags(parser.add_argument_group("reading"), (*VIEW_FLAGS, *READ_FLAGS))
    _add_output(parser)
    parser.set_defaults(run=run)


def _add_selection(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("selection")
    add_flags(group, SELECTION_FLAGS)
    group.add_argument("--limit", metavar="N", type=_parse_count, help="the maximum number of rows")


def _add_output(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("output")
    group.add_argument("--output", choices=OUTPUTS, default="table")
    group.add_argument("--to", metavar="FILE", type=Path, help="the file (standard output)")


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
        raise CommandFailed("--output parquet needs a file: give --to")
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
    """Yield at most ``count`` rows, and read no more batches than they need."""
    while count > 0 and (batch := next(batches, None)) is not None:
        yield batch.slice(0, count)
        count -= min(count, batch.num_rows)
