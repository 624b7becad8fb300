"""Which records are wanted, on a command line: the flags of ``odradek scan`` and of every job.

A flag is named after the option that it sets: ``topicsPattern`` is ``--topics-pattern``.  An option
that is not given is not set, so that the source alone knows the defaults.

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
    """Of a time as ISO 8601 has it, or milliseconds already; as the options have it.

    One without a zone is of UTC, as are all times in reports, and as Kafka's own tools read it.
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
    Flag("topics", "all of them, if not given", "A,B"),
    Flag("topicsPattern", "topics whose whole name matches", "REGEX"),
    Flag("assign", 'partitions: {"orders": [0, 1]}', "JSON"),
    Flag("startingOffsets", 'first offsets, such as {"orders": {"0": 23}}', "JSON"),
    Flag("endingOffsets", "the same; these are not included", "JSON"),
    Flag(
        "startingTimestamp",
        "from the first record of each partition on that is as young: a time such as "
        "2026-11-16T12:00:00, UTC unless it has a zone, or milliseconds since 1970",
        "WHEN",
        converter=parse_timestamp_ms,
    ),
    Flag(
        "endingTimestamp",
        "up to the first record of each partition that is as young",
        "WHEN",
        converter=parse_timestamp_ms,
    ),
)

READ_FLAGS = (
    Flag("isolationLevel", choices=("read_committed", "read_uncommitted")),
    Flag(
        "mode",
        "damage is skipped and told, skipped, or ends the reading",
        choices=("permissive", "dropmalformed", "failfast"),
    ),
    Flag(
        "ignoreHighWatermark",
        "read to the end of the files, as of a broker that was killed",
        is_switch=True,
    ),
    Flag(
        "failOnDataLoss",
        "whether a segment that retention removes meanwhile is an error; it is, if not given",
        choices=("true", "false"),
    ),
    Flag("maxSplitBytes", "how much of a segment is read by itself; 128 MB, if not given", "N"),
)


def add_paths(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "paths",
        nargs="+",
        metavar="PATH",
        help="a log directory or a partition's directory, or a URI of one, such as s3://bucket/logs",
    )


def add_flags(parser: argparse._ActionsContainer, flags: Iterable[Flag]) -> None:
    for flag in flags:
        flag.add_to(parser)


def collect_options(arguments: argparse.Namespace, flags: Iterable[Flag]) -> dict[str, str]:
    """The options that the paths and the flags set."""
    values = {flag.option: getattr(arguments, flag.option) for flag in flags}
    options = {option: value for option, value in values.items() if value is not None}
    return {**options, "path": ",".join(arguments.paths)}
