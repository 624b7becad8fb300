"""Times two or more contenders against each other on a noisy machine.

The contenders alternate in short rounds, and the fastest round of each counts.  Other load on the
machine disturbs all contenders alike, and can only make a round slower.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import perf_counter

ROUNDS = 60
SECONDS_PER_ROUND = 0.005


def seconds_per_call(contenders: Mapping[str, Callable[[], object]]) -> dict[str, float]:
    """Return the best time of each contender, in seconds per call."""
    counts = {name: _calls_per_round(call) for name, call in contenders.items()}
    best = dict.fromkeys(contenders, float("inf"))
    for _ in range(ROUNDS):
        for name, call in contenders.items():
            best[name] = min(best[name], _time(call, counts[name]) / counts[name])
    return best


def _calls_per_round(call: Callable[[], object]) -> int:
    calls = 1
    while (elapsed := _time(call, calls)) < SECONDS_PER_ROUND / 4:
        calls *= 2
    return max(1, round(calls * SECONDS_PER_ROUND / elapsed))


def _time(call: Callable[[], object], calls: int) -> float:
    start = perf_counter()
    for _ in range(calls):
        call()
    return perf_counter() - start
