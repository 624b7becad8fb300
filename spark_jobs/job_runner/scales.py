"""Axes of a chart: scale from values to pixels, positions and labels of the ticks.

Owner: none; immutable, any thread.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime

_STEPS = (1, 2, 2.5, 5, 10)
_SECOND, _MINUTE, _HOUR, _DAY = 1000, 60_000, 3_600_000, 86_400_000
_TIME_STEPS = (
    *(step * _SECOND for step in (1, 2, 5, 10, 15, 30)),
    *(step * _MINUTE for step in (1, 2, 5, 10, 15, 30)),
    *(step * _HOUR for step in (1, 2, 3, 6, 12)),
    *(step * _DAY for step in (1, 2, 7, 14, 30, 90, 365)),
)


@dataclass(frozen=True, slots=True)
class Scale:
    """Linear map from the range of values to the range of pixels."""

    low: float
    high: float
    start_pixel: float
    end_pixel: float

    def __call__(self, value: float) -> float:
        span = (self.high - self.low) or 1
        return self.start_pixel + (value - self.low) / span * (self.end_pixel - self.start_pixel)


def value_ticks(high: float, *, count: int = 5) -> list[float]:
    """Return round numbers from zero; the last is at least ``high``."""
    if high <= 0:
        return [0, 1]
    size = 10 ** math.floor(math.log10(high / count))
    step = next(factor * size for factor in _STEPS if factor * size * count >= high * 0.999_999)
    return [step * index for index in range(math.ceil(high / step * 0.999_999) + 1)]


def time_ticks(low_ms: float, high_ms: float, *, count: int = 7) -> list[int]:
    """Return round times between the two."""
    least_step = (high_ms - low_ms) / count
    step = next((size for size in _TIME_STEPS if size >= least_step), None)
    if step is None:  # a span of decades
        step = math.ceil(least_step / _TIME_STEPS[-1]) * _TIME_STEPS[-1]
    first = math.ceil(low_ms / step) * step
    return list(range(int(first), int(high_ms) + 1, int(step)))


def time_label(milliseconds: float, *, span_ms: float) -> str:
    """Return as much of the time as distinguishes ticks within the span."""
    try:
        moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(milliseconds)
    if span_ms > 10 * _DAY:
        return f"{moment:%Y-%m-%d}"
    return f"{moment:%m-%d %H:%M}" if span_ms > 10 * _MINUTE else f"{moment:%H:%M:%S}"
