"""Durations on the command line, and the length of the time buckets of a report.

Owner: none; any thread.
"""

from __future__ import annotations

import argparse
import re

_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION_PATTERN = re.compile(r"(\d+)(ms|s|m|h|d)")
#: Round lengths of a time bucket.
_BUCKET_SIZES_MS = (
    *(1000, 5000, 10_000, 30_000, 60_000, 300_000, 900_000),
    *(3_600_000, 3 * 3_600_000, 6 * 3_600_000, 86_400_000),
)
BUCKETS_MAX = 150  # a chart has no room for more


def parse_duration_ms(text: str) -> int:
    match = _DURATION_PATTERN.fullmatch(text)
    if match is None or int(match[1]) == 0:
        raise argparse.ArgumentTypeError(f"{text!r}: must be a duration such as 500ms, 10s or 5m")
    return int(match[1]) * _UNITS_MS[match[2]]


def choose_bucket_ms(span_ms: int) -> int:
    """Return a round length of which at most BUCKETS_MAX + 1 buckets cover the span."""
    for size_ms in _BUCKET_SIZES_MS:
        if span_ms <= size_ms * BUCKETS_MAX:
            return size_ms
    days = -(-span_ms // (_BUCKET_SIZES_MS[-1] * BUCKETS_MAX))
    return _BUCKET_SIZES_MS[-1] * days
