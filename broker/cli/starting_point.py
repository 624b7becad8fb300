"""Where does reading begin?

beginning              the first record that is still there
end                    what is written from now on
120                    this offset
-5                     as many records before the end, in each partition
2026-11-16T12:00:00    the first record from this time on; UTC if it has no zone
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
    """``number`` is an offset, a count of records or milliseconds, as ``kind`` says."""

    kind: StartKind
    number: int


def parse_starting_point(argument: str) -> StartingPoint:
    """As the type of an argument."""
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
