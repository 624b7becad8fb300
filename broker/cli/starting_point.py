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


class Start(Enum):
    OFFSET = "offset"
    BEFORE_END = "before the end"
    TIMESTAMP = "timestamp"


@dataclass(frozen=True, slots=True)
class StartingPoint:
    """``number`` is an offset, a count of records or milliseconds, as ``kind`` says."""

    kind: Start
    number: int


def starting_point(written: str) -> StartingPoint:
    """As the type of an argument."""
    if written == "beginning":
        return StartingPoint(Start.OFFSET, 0)
    if written == "end":
        return StartingPoint(Start.BEFORE_END, 0)
    if written.isdecimal():
        return StartingPoint(Start.OFFSET, int(written))
    if written[:1] == "-" and written[1:].isdecimal():
        return StartingPoint(Start.BEFORE_END, int(written[1:]))
    if written[:1] == "@" and written[1:].isdecimal():
        return StartingPoint(Start.TIMESTAMP, int(written[1:]))
    try:
        at = datetime.fromisoformat(written)
    except ValueError as wrong:
        raise argparse.ArgumentTypeError(
            f"{written!r} is not beginning, end, an offset, -COUNT, a time or @MILLISECONDS"
        ) from wrong
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    return StartingPoint(Start.TIMESTAMP, int(at.timestamp() * 1000))
