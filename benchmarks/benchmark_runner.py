"""Measures taken: of some rounds the best of each figure, the sides in turn, against the goals.

Whatever else runs here only ever makes a round slower.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from broker_clients import LeftOut, LoadFailed
from broker_figures import Figures, Load, Tools
from broker_raw import Refused
from broker_sides import Side

from tests.support.kafka_jars import KafkaUnavailable

#: Of these, more is better.
RISING = frozenset({"msg/s", "MB/s", "req/s", "txn/s", "alone", "share"})


@dataclass(frozen=True, slots=True)
class Goal:
    """A bound on a figure, or on its ratio to Kafka's."""

    figure: str
    bound: float
    of_kafka: bool = True

    def judged(self, ours: Figures, kafka: Figures | None) -> str | None:
        """A line, if it can be told."""
        if self.figure not in ours:
            return None
        reached = ours[self.figure]
        if self.of_kafka:
            if not kafka or not kafka.get(self.figure):
                return None
            reached /= kafka[self.figure]
        is_rising = self.figure in RISING
        is_met = reached >= self.bound if is_rising else reached <= self.bound
        sign, unit = ">=" if is_rising else "<=", " of Kafka's" if self.of_kafka else ""
        verdict = "met" if is_met else "MISSED"
        return f"{self.figure} {reached:.2f}{unit}, goal {sign} {self.bound}: {verdict}"


@dataclass(frozen=True, slots=True)
class Measure:
    load: Load
    goals: tuple[Goal, ...] = ()
    #: What is the same however often it is looked at.
    is_repeated: bool = True


def in_directory(run: Callable[[Path], int], *, parent: str | None = None) -> int:
    """The exit status of ``run``, which is given a new folder."""
    directory = Path(tempfile.mkdtemp(prefix="odradek-benchmark-", dir=parent))
    try:
        return run(directory)
    except KafkaUnavailable as why:
        print(f"Apache Kafka cannot run here: {why}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def measure_each(
    measures: Mapping[str, Measure], sides: Sequence[Side], tools: Tools, rounds: int
) -> int:
    """The exit status: 1 if a load has failed."""
    status = 0
    for name, measure in measures.items():
        print(f"\n{name}  (load average {os.getloadavg()[0]:.1f})", flush=True)
        try:
            best = _best(measure, sides, tools, rounds if measure.is_repeated else 1)
            _print(measure, best)
        except (LoadFailed, Refused) as failure:
            print(f"  FAILED: {failure}")
            status = 1
    return status


def _best(measure: Measure, sides: Sequence[Side], tools: Tools, rounds: int) -> dict[str, Figures]:
    """Of each side, the best of every figure; the sides take turns."""
    best: dict[str, Figures] = {}
    for _ in range(rounds):
        for side in sides:
            try:
                measured = measure.load(side, tools)
            except LeftOut as why:
                print(f"  {side.name}: left out, {why}")
            else:
                row = best.setdefault(f"{side.name} ({measured.driver})", {})
                for figure, reached in measured.figures.items():
                    better = max if figure in RISING else min
                    row[figure] = better(row.get(figure, reached), reached)
                if "share" in row:  # of the best ones: the best share would be that of the worst
                    row["share"] = row.get("req/s", row.get("msg/s", 0.0)) / row["alone"]
    return best


def _print(measure: Measure, best: dict[str, Figures]) -> None:
    for name, figures in best.items():
        told = "  ".join(f"{figure} {_rounded(reached)}" for figure, reached in figures.items())
        print(f"  {name}: {told}")
    rows = list(best.values())
    for goal in measure.goals if rows else ():
        line = goal.judged(rows[0], rows[1] if len(rows) > 1 else None)
        if line is not None:
            print(f"  {line}")


def _rounded(reached: float) -> str:
    return f"{reached:,.0f}" if reached >= 100 else f"{reached:.3g}"
