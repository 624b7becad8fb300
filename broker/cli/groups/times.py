"""A time, or a duration before now, in milliseconds since 1970.

2026-11-16T12:00:00.000   UTC if it has no zone, as Kafka's own tool reads it
@1700000000000            milliseconds since 1970
P1DT2H30M                 so long ago: days, hours, minutes, seconds
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


def time_ms(written: str) -> int:
    """As the type of an argument."""
    if written[:1] == "@" and written[1:].isdecimal():
        return int(written[1:])
    try:
        at = datetime.fromisoformat(written)
    except ValueError as wrong:
        raise argparse.ArgumentTypeError(
            f"{written!r} is not a time such as 2026-11-16T12:00:00.000, nor @MILLISECONDS"
        ) from wrong
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    # Before 1970, numbers have other meanings in the protocol, and there are no records.
    return max(0, (at - datetime.fromtimestamp(0, UTC)) // timedelta(milliseconds=1))


def ago_ms(written: str) -> int:
    """As the type of an argument: so long before now, or 0 if that is before 1970."""
    parts = DURATION.fullmatch(written)
    if parts is None:
        raise argparse.ArgumentTypeError(
            f"{written!r} is not a duration such as P7D, PT12H or P1DT2H30M15.5S"
        )
    given = {unit: float(number) for unit, number in parts.groupdict(default="0").items()}
    seconds = (given["days"] * 24 + given["hours"]) * 3600 + given["minutes"] * 60
    return max(0, int((time.time() - seconds - given["seconds"]) * 1000))
