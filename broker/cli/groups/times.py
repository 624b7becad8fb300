"""Parses a time, or a duration before now, to milliseconds since 1970.

2026-11-16T12:00:00.000   UTC if it has no time zone, as in Kafka's tool
@1700000000000            milliseconds since 1970
P1DT2H30M                 a duration before now: days, hours, minutes, seconds
"""

from __future__ import annotations

import argparse
import re
import time
from datetime import UTC, datetime, timedelta

DURATION = re.compile(
    r"P(?=\d|T\d)(?:(?P<days>\d+)D)?"
    r"(?:T(?=\d)(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?",
    re.IGNORECASE | re.ASCII,
)


def parse_time_ms(argument: str) -> int:
    """Parse a command-line argument."""
    if argument[:1] == "@" and argument[1:].isdecimal():
        return int(argument[1:])
    try:
        parsed = datetime.fromisoformat(argument)
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f"{argument!r} is not a time such as 2026-11-16T12:00:00.000, nor @MILLISECONDS"
        ) from error
    if parsed.tzinfo is None:
        parsed = parsed.replace(tzinfo=UTC)
    # Negative timestamps have special meanings in the protocol, and no records are that old.
    return max(0, (parsed - datetime.fromtimestamp(0, UTC)) // timedelta(milliseconds=1))


def parse_duration_ago_ms(argument: str) -> int:
    """Parse a command-line argument; return 0 if the result is before 1970."""
    parts = DURATION.fullmatch(argument)
    if parts is None:
        raise argparse.ArgumentTypeError(
            f"{argument!r} is not a duration such as P7D, PT12H or P1DT2H30M15.5S"
        )
    units = {unit: float(number) for unit, number in parts.groupdict(default="0").items()}
    seconds = (units["days"] * 24 + units["hours"]) * 3600 + units["minutes"] * 60
    return max(0, int((time.time() - seconds - units["seconds"]) * 1000))
