"""Runs benchmarks and compares the metrics with their goals.

A benchmark runs for several rounds, in which the targets alternate.  The best value of each metric
counts: other load on the machine can only make a round slower.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from broker_targets import Target
from client_drivers import BenchmarkSkipped, LoadFailed
from measurement import Load, LoadOptions, Metrics
from raw_driver import RequestFailed

from tests.support.kafka_jars import KafkaUnavailable

#: Metrics for which a higher value is better.
HIGHER_IS_BETTER = frozenset({"msg/s", "MB/s", "req/s", "txn/s", "baseline", "share"})


@dataclass(frozen=True, slots=True)
class Goal:
    """A bound on a metric, or on the ratio of our value to Kafka's."""

    metric: str
    bound: float
    relative_to_kafka: bool = True

    def evaluate(self, ours: Metrics, kafka: Metrics | None) -> str | None:
        """Return a line with the verdict, or None if a value that it needs is missing."""
        if self.metric not in ours:
            return None
        value = ours[self.metric]
        if self.relative_to_kafka:
            if not kafka or not kafka.get(self.metric):
                return None
            value /= kafka[self.metric]
        higher_is_better = self.metric in HIGHER_IS_BETTER
        is_met = value >= self.bound if higher_is_better else value <= self.bound
        sign, unit = (
            ">=" if higher_is_better else "<=",
            " of Kafka's" if self.relative_to_kafka else "",
        )
        verdict = "met" if is_met else "MISSED"
        return f"{self.metric} {value:.2f}{unit}, goal {sign} {self.bound}: {verdict}"


@dataclass(frozen=True, slots=True)
class Benchmark:
    load: Load
    goals: tuple[Goal, ...] = ()
    #: Whether the benchmark runs in every round, or only once.
    is_repeated: bool = True


def run_in_temp_directory(run: Callable[[Path], int], *, parent: str | None = None) -> int:
    """Create a temporary directory, call ``run`` with it, and return its exit status."""
    directory = Path(tempfile.mkdtemp(prefix="odradek-benchmark-", dir=parent))
    try:
        return run(directory)
    except KafkaUnavailable as reason:
        print(f"Apache Kafka cannot run here: {reason}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def run_benchmarks(
    benchmarks: Mapping[str, Benchmark],
    targets: Sequence[Target],
    options: LoadOptions,
    rounds: int,
) -> int:
    """Run the benchmarks, print the metrics, and return the exit status: 1 if a load failed."""
    status = 0
    for name, benchmark in benchmarks.items():
        print(f"\n{name}  (load average {os.getloadavg()[0]:.1f})", flush=True)
        try:
            best = _best_metrics(
                benchmark, targets, options, rounds if benchmark.is_repeated else 1
            )
            _print(benchmark, best)
        except (LoadFailed, RequestFailed) as error:
            print(f"  FAILED: {error}")
            status = 1
    return status


def _best_metrics(
    benchmark: Benchmark, targets: Sequence[Target], options: LoadOptions, rounds: int
) -> dict[str, Metrics]:
    """Return the best value of each metric per target.  The targets alternate."""
    best: dict[str, Metrics] = {}
    for _ in range(rounds):
        for target in targets:
            try:
                measurement = benchmark.load(target, options)
            except BenchmarkSkipped as reason:
                print(f"  {target.name}: skipped, {reason}")
            else:
                row = best.setdefault(f"{target.name} ({measurement.driver})", {})
                for metric, value in measurement.metrics.items():
                    better = max if metric in HIGHER_IS_BETTER else min
                    row[metric] = better(row.get(metric, value), value)
                if "share" in row:  # computed from the best rates, not the best share of any round
                    row["share"] = row.get("req/s", row.get("msg/s", 0.0)) / row["baseline"]
    return best


def _print(benchmark: Benchmark, best: dict[str, Metrics]) -> None:
    for name, metrics in best.items():
        text = "  ".join(f"{metric} {_format_number(value)}" for metric, value in metrics.items())
        print(f"  {name}: {text}")
    rows = list(best.values())
    for goal in benchmark.goals if rows else ():
        line = goal.evaluate(rows[0], rows[1] if len(rows) > 1 else None)
        if line is not None:
            print(f"  {line}")


def _format_number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
