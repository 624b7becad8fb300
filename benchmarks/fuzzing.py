"""Measures the time and the memory of the most expensive damaged frames.

    python benchmarks/fuzzing.py

The frames are those of the fuzz tests.  The slowest frames of each subject are timed again, as the
best of several calls, since garbage collection may have disturbed the first call.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.support.all_messages import all_messages
from tests.support.fuzzed_records import DAMAGED_RECORDS
from tests.support.fuzzing import (
    Sample,
    Subject,
    fuzz,
    is_refused,
    message_subject,
    mutated_samples,
    record_subject,
)
from tests.support.memory import peak_bytes

FRAMES_PER_SUBJECT = 1_000
MEMORY_FRAMES_PER_SUBJECT = 20
SEED = 0
CALLS = 5


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one frame, in seconds or bytes."""

    subject: str
    frame_bytes: int
    amount: float


def main() -> None:
    messages = [message_subject(message) for message in all_messages()]
    record_sets = [record_subject(name) for name in DAMAGED_RECORDS]
    for name, subjects in (("message", messages), ("record set", record_sets)):
        slowest = max(map(_slowest, subjects), key=lambda cost: cost.amount)
        print(
            f"slowest of {FRAMES_PER_SUBJECT * len(subjects):,} damaged frames, {name}: "
            f"{slowest.amount * 1e6:.0f} us ({slowest.subject}, {slowest.frame_bytes} bytes)"
        )
        greediest = max(map(_most_memory, subjects), key=lambda cost: cost.amount)
        print(
            f"most memory for a damaged {name}: {greediest.amount / 1024:.0f} KB "
            f"({greediest.subject}, {greediest.frame_bytes} bytes)"
        )


def _slowest(subject: Subject) -> Cost:
    report = fuzz(subject, seed=SEED, count=FRAMES_PER_SUBJECT)
    costs = [
        Cost(subject.name, len(sample.frame), min(_time_s(sample) for _ in range(CALLS)))
        for _, _, sample in report.slowest
    ]
    return max(costs, key=lambda cost: cost.amount)


def _most_memory(subject: Subject) -> Cost:
    costs = [
        Cost(subject.name, len(sample.frame), peak_bytes(partial(is_refused, sample)))
        for sample in mutated_samples(subject, seed=SEED, count=MEMORY_FRAMES_PER_SUBJECT)
    ]
    return max(costs, key=lambda cost: cost.amount)


def _time_s(sample: Sample) -> float:
    start = time.perf_counter()
    is_refused(sample)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
