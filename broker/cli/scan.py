"""``odradek scan``: read records straight from segment files, with no broker.

Damage is told on standard error, a line for each range of bytes, and makes the exit status 1.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from odradek.broker.cli.examples import examples
from odradek.broker.cli.failed import CommandFailed
from odradek.broker.cli.scan_output import OUTPUTS, PARQUET, write

INSTALL = "scan needs numpy and pyarrow: pip install 'odradek[arrow]'"
DONE, DAMAGED = 0, 1


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
    parser.add_argument(
        "paths",
        nargs="+",
        metavar="PATH",
        help="a log directory or a partition's directory, or a URI of one, such as s3://bucket/logs",
    )
    _add_selection(parser)
    _add_content(parser)
    _add_reading(parser)
    _add_output(parser)
    parser.set_defaults(run=run)


def _add_selection(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("which records")
    group.add_argument("--topics", metavar="A,B", help="all of them, if not given")
    group.add_argument("--topics-pattern", metavar="REGEX", help="topics whose whole name matches")
    group.add_argument("--assign", metavar="JSON", help='partitions: {"orders": [0, 1]}')
    group.add_argument("--starting-offsets", metavar="JSON", help='{"orders": {"0": 23}}')
    group.add_argument("--ending-offsets", metavar="JSON", help="the same; these are not included")
    when = "a time such as 2026-11-16T12:00:00, or milliseconds since 1970"
    group.add_argument(
        "--starting-timestamp",
        metavar="WHEN",
        type=_milliseconds,
        help=f"from the first record of each partition on that is as young: {when}",
    )
    group.add_argument(
        "--ending-timestamp",
        metavar="WHEN",
        type=_milliseconds,
        help="up to the first record of each partition that is as young",
    )
    group.add_argument("--limit", metavar="N", type=_natural, help="no more rows than this")


def _add_content(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what internal topics mean")
    group.add_argument(
        "--content",
        choices=["raw", "offsets", "transactions"],
        help="offsets: what groups have committed, from __consumer_offsets; transactions: the "
        "states of transactional ids, from __transaction_state; raw: bytes, as if not given",
    )
    group.add_argument("--group", metavar="ID", help="only this one's offsets: one partition")
    group.add_argument("--transactional-id", metavar="ID", help="only this one's transactions")
    group.add_argument(
        "--partition-count",
        metavar="N",
        help="how many partitions the internal topic has, where not all of them are in PATH",
    )


def _add_reading(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("how to read them")
    group.add_argument("--view", choices=["records", "batches"], help="a row for each of these")
    group.add_argument(
        "--columns",
        metavar="A,B",
        help="only what these need is decoded; a wrong name is answered with a list",
    )
    group.add_argument("--include-headers", action="store_const", const="true")
    group.add_argument(
        "--include-control",
        action="store_const",
        const="true",
        help="markers of transactions too, and a column that tells them apart",
    )
    group.add_argument("--isolation-level", choices=["read_committed", "read_uncommitted"])
    group.add_argument(
        "--mode",
        choices=["permissive", "dropmalformed", "failfast"],
        help="damage is skipped and told, skipped, or ends the scan",
    )
    group.add_argument(
        "--ignore-high-watermark",
        action="store_const",
        const="true",
        help="read to the end of the files, as of a broker that was killed",
    )


def _add_output(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("where to put them")
    group.add_argument("--output", choices=OUTPUTS, default="table")
    group.add_argument("--to", metavar="FILE", type=Path, help="standard output, if not given")


def _natural(written: str) -> int:
    if not written.isdecimal():
        raise argparse.ArgumentTypeError(f"not a number of that kind: {written!r}")
    return int(written)


def _milliseconds(written: str) -> str:
    if written.isdecimal():
        return written
    try:
        return str(int(datetime.fromisoformat(written).timestamp() * 1000))
    except ValueError as wrong:
        raise argparse.ArgumentTypeError(f"{written!r} is neither a time nor a number") from wrong


_OPTIONS = {
    "topics": "topics",
    "topics_pattern": "topicsPattern",
    "assign": "assign",
    "starting_offsets": "startingOffsets",
    "ending_offsets": "endingOffsets",
    "starting_timestamp": "startingTimestamp",
    "ending_timestamp": "endingTimestamp",
    "view": "view",
    "content": "content",
    "group": "group",
    "transactional_id": "transactionalId",
    "partition_count": "partitionCount",
    "columns": "columns",
    "include_headers": "includeHeaders",
    "include_control": "includeControl",
    "isolation_level": "isolationLevel",
    "mode": "mode",
    "ignore_high_watermark": "ignoreHighWatermark",
}


def run(arguments: argparse.Namespace) -> int:
    try:
        from odradek.spark_jobs.scan.damage import Damage, ScanFailed
        from odradek.spark_jobs.scan.options import options_of
        from odradek.spark_jobs.scan.scanner import scan_all, scan_schema
    except ImportError as missing:
        raise CommandFailed(INSTALL) from missing
    if arguments.output == PARQUET and arguments.to is None:
        raise CommandFailed("parquet is not for a screen: name a file with --to")
    told = {name: getattr(arguments, key) for key, name in _OPTIONS.items()}
    given = {name: value for name, value in told.items() if value is not None}
    damages: list[Damage] = []

    def report(damage: Damage) -> None:
        damages.append(damage)
        print(f"odradek: {damage}", file=sys.stderr)

    try:
        options = options_of({**given, "path": ",".join(arguments.paths)})
        batches = scan_all(options, report)
        if arguments.limit is not None:
            batches = _first(batches, arguments.limit)
        write(batches, scan_schema(options), output=arguments.output, to=arguments.to)
    except BrokenPipeError:
        raise
    except (ScanFailed, OSError) as failure:
        raise CommandFailed(str(failure)) from failure
    return DAMAGED if damages else DONE


def _first(batches: Iterator[Any], count: int) -> Iterator[Any]:
    """No more than so many rows, and no more read than they need."""
    while count > 0 and (batch := next(batches, None)) is not None:
        yield batch.slice(0, count)
        count -= min(count, batch.num_rows)
