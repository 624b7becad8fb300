"""The command line of a benchmark program: options, warm-up, suites and rounds."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import broker_targets
from benchmark_runner import Benchmark, run_benchmarks, run_in_temp_directory
from broker_targets import Target
from client_drivers import BenchmarkSkipped
from measurement import LoadOptions

from tests.support.kafka_jars import KAFKA_3_9, KafkaUnavailable, kafka_jars

ROUNDS, SECONDS = 3, 5.0
QUICK_ROUNDS, QUICK_SECONDS = 1, 2.0


SUITE_DEFAULT = "version of the suite"

#: Starts the targets, given a directory, the Kafka version or None, and broker properties.
StartTargets = Callable[
    [Path, str | None, Mapping[str, str]], AbstractContextManager[Sequence[Target]]
]


@dataclass(frozen=True, slots=True)
class BenchmarkSuite:
    """Benchmarks that are compared with one Kafka version.

    ``warm_up_names`` are the benchmarks that warm up every target, once per round, before the
    first measurement.
    """

    benchmarks: Mapping[str, Benchmark]
    warm_up_names: Sequence[str]
    kafka_version: str = KAFKA_3_9

    def warm_up(self, targets: Sequence[Target], options: LoadOptions, rounds: int) -> None:
        for name in [*self.warm_up_names] * rounds:
            for target in targets:
                with suppress(BenchmarkSkipped):  # the benchmark itself prints the reason
                    self.benchmarks[name].load(target, options)


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkProgram:
    """A benchmark program with its suites.

    Loads that read a topic first fill it with ``filled_mb``, or a tenth of that in a quick run.
    """

    description: str
    suites: Sequence[BenchmarkSuite]
    properties: Mapping[str, str]
    filled_mb: int = 0
    start_targets: StartTargets = broker_targets.start_targets

    def run(self) -> int:
        """Run the program and return its exit status."""
        arguments = self._arguments()
        if arguments.list:
            print("\n".join(self._names()))
            return 0
        return run_in_temp_directory(partial(self._run_suites, arguments))

    def _names(self) -> list[str]:
        return [name for suite in self.suites for name in suite.benchmarks]

    def _arguments(self) -> argparse.Namespace:
        parser = argparse.ArgumentParser(
            description=self.description, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        parser.add_argument("--kafka", nargs="?", const=SUITE_DEFAULT, metavar="VERSION")
        parser.add_argument("--only", action="append", choices=self._names(), metavar="NAME")
        parser.add_argument("--quick", action="store_true", help="one short round per benchmark")
        parser.add_argument("--list", action="store_true", help="list the names of all benchmarks")
        return parser.parse_args()

    def _run_suites(self, arguments: argparse.Namespace, directory: Path) -> int:
        rounds, seconds, filled_mb = ROUNDS, SECONDS, self.filled_mb
        if arguments.quick:
            rounds, seconds, filled_mb = QUICK_ROUNDS, QUICK_SECONDS, self.filled_mb // 10
        print(f"{os.cpu_count()} processors; best of {rounds} rounds of {seconds:.0f} s")
        status = 0
        for number, suite in enumerate(self.suites):
            selected = {
                name: suite.benchmarks[name]
                for name in arguments.only or suite.benchmarks
                if name in suite.benchmarks
            }
            if not selected:
                continue
            version = suite.kafka_version if arguments.kafka == SUITE_DEFAULT else arguments.kafka
            options = LoadOptions(seconds, filled_mb, _find_jars(version or suite.kafka_version))
            suite_directory = directory / str(number)
            with self.start_targets(suite_directory, version, self.properties) as targets:
                suite.warm_up(targets, options, rounds)
                status |= run_benchmarks(selected, targets, options, rounds)
        return status


def _find_jars(version: str) -> Path | None:
    """Find the jars of Kafka's performance tools.  Some benchmarks do not need them."""
    try:
        return kafka_jars(version)
    except KafkaUnavailable as reason:
        print(f"Kafka's performance tools are not available: {reason}")
        return None
