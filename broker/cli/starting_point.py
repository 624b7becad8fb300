"""The position from which records are read.

beginning              the first record of the log
end                    records produced from now on
120                    this offset
-5                     this many records before the end, in each partition
2026-11-16T12:00:00    the first record at or after this time; UTC if it has no time zone
@1700000000000         the same, in milliseconds since 1970
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum


class StartKind(Enum):
    OFFSET = "offset"
    BEFORE_END = "before the end"
    TIMESTAMP = "timestamp"


@dataclass(frozen=True, slots=True)
class StartingPoint:
    """``number`` is an offset, a count of records or milliseconds, depending on ``kind``."""

    kind: StartKind
    number: int


def parse_starting_point(argument: str) -> StartingPoint:
    """Parse a command-line argument."""
    if argument == "beginning":
        return StartingPoint(StartKind.OFFSET, 0)
    if argument == "end":
        return StartingPoint(StartKind.BEFORE_END, 0)
    if argument.isdecimal():
        return StartingPoint(StartKind.OFFSET, int(argument))
    if argument[:1] == "-" and argument[1:].isdecimal():
        return StartingPoint(StartKind.BEFORE_END, int(argument[1:]))
    if argument[:1] == "@" and argument[1:].isdecimal():
        return StartingPoint(StartKind.TIMESTAMP, int(argument[1:]))
    try:
        time = datetime.fromisoformat(argument)
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f"{argument!r} is not beginning, end, an offset, -COUNT, a time or @MILLISECONDS"
        ) from error
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    return StartingPoint(StartKind.TIMESTAMP, int(time.timestamp() * 1000))
