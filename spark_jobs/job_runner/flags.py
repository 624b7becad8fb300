"""Command-line flags that select records, of ``odradek scan`` and of every job.

A flag sets the option of the same name: ``--topics-pattern`` sets ``topicsPattern``.  An option
without its flag is not set: only the source knows the defaults.

Owner: none; immutable, any thread.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta


@dataclass(frozen=True, slots=True)
class Flag:
    option: str  # as in docs/spark.md
    help: str | None = None
    metavar: str | None = None
    choices: tuple[str, ...] | None = None
    converter: Callable[[str], str] = str
    is_switch: bool = False  # takes no value and means "true"

    @property
    def name(self) -> str:
        return "--" + re.sub("[A-Z]", lambda capital: f"-{capital[0].lower()}", self.option)

    def add_to(self, parser: argparse._ActionsContainer) -> None:
        if self.is_switch:
            parser.add_argument(
                self.name, dest=self.option, action="store_const", const="true", help=self.help
            )
        else:
            parser.add_argument(
                self.name,
                dest=self.option,
                metavar=self.metavar,
                choices=self.choices,
                type=self.converter,
                help=self.help,
            )


def parse_timestamp_ms(text: str) -> str:
    """Parse ISO 8601 or milliseconds since 1970; return milliseconds, as the options have them.

    A time without a zone is UTC, as are all times in reports and as in Kafka's own tools.
    """
    if text.isdecimal():
        return text
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f"{text!r}: must be a time such as 2026-11-16T12:00:00, or milliseconds since 1970"
        ) from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return str((moment - datetime.fromtimestamp(0, UTC)) // timedelta(milliseconds=1))


SELECTION_FLAGS = (
    Flag("topics", "names of topics; default: all", "A,B"),
    Flag("topicsPattern", "topics whose whole name matches", "REGEX"),
    Flag("assign", 'partitions, such as {"orders": [0, 1]}', "JSON"),
    Flag("startingOffsets", 'first offsets, such as {"orders": {"0": 23}}', "JSON"),
    Flag("endingOffsets", "end offsets (exclusive), in the same form", "JSON"),
    Flag(
        "startingTimestamp",
        "start each partition at its first record with this timestamp or a later one: a time such "
        "as 2026-11-16T12:00:00, in UTC unless it has a zone, or milliseconds since 1970",
        "WHEN",
        converter=parse_timestamp_ms,
    ),
    Flag(
        "endingTimestamp",
        "end each partition before its first record with this timestamp or a later one",
        "WHEN",
        converter=parse_timestamp_ms,
    ),
)

READ_FLAGS = (
    Flag("isolationLevel", choices=("read_committed", "read_uncommitted")),
    Flag(
        "mode",
        "handling of damage: skip and report it, skip it, or fail",
        choices=("permissive", "dropmalformed", "failfast"),
    ),
    Flag(
        "ignoreHighWatermark",
        "read to the end of the files; for a broker that was killed",
        is_switch=True,
    ),
    Flag(
        "failOnDataLoss",
        "whether a segment that retention deletes during the scan is an error; default: true",
        choices=("true", "false"),
    ),
    Flag("maxSplitBytes", "largest part of a segment in one split; default: 128 MB", "N"),
)


def add_paths(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "paths",
        nargs="+",
        metavar="PATH",
        help="log directory or partition directory, or the URI of one, such as s3://bucket/logs",
    )


def add_flags(parser: argparse._ActionsContainer, flags: Iterable[Flag]) -> None:
    for flag in flags:
        flag.add_to(parser)


def collect_options(arguments: argparse.Namespace, flags: Iterable[Flag]) -> dict[str, str]:
    """Return the options that the paths and the flags set."""
    values = {flag.option: getattr(arguments, flag.option) for flag in flags}
    options = {option: value for option, value in values.items() if value is not None}
    return {**options, "path": ",".join(arguments.paths)}
