"""Measures the speed and cost of one broker, optionally beside Apache Kafka in the same run.

    python benchmarks/broker.py [--kafka [VERSION]] [--only NAME ...] [--quick] [--list]
    python benchmarks/broker.py --bootstrap HOST:PORT [--pid PID]     a broker that already runs

    --kafka                  also starts Apache Kafka (KRaft, one node, 1 GB heap); the targets
                             alternate, and ratios are printed against the goals
    --kafka-home             an unpacked Apache Kafka, used for its broker and its performance
                             tools; without it, Maven downloads the jars into the cache
    --rdkafka-performance    the path of that program, if installed: it is the leanest client

Every benchmark of broker_benchmarks.py uses a new topic.  The best value of each metric over all
rounds counts, because other load on the machine can only make a round slower.  All targets are
warmed up before the first benchmark.  In a quick run the warm-up is too short for Kafka, so the
ratios are too favourable to Odradek.  The CPU time of the broker process is the metric that other
load disturbs least:

    CPU us/req   per request          CPU s/GB   per GB of record values, in or out

Each load has one driver, whose name is printed, since it may be the bottleneck on few cores.  The
same driver is used for all targets.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
sys.path.insert(0, str(Path(__file__).parent))

import broker_targets
from benchmark_runner import run_benchmarks, run_in_temp_directory
from broker_benchmarks import BENCHMARKS
from broker_targets import Target
from measurement import LoadOptions

from tests.support.kafka_jars import KAFKA_3_9, KafkaUnavailable, kafka_jars

ROUNDS, SECONDS, FILLED_MB = 3, 5.0, 200
WARM_UP_BENCHMARKS = ("requests-10x5", "batches-16KB-1KB", "consume-16KB-batches")
QUICK_ROUNDS, QUICK_SECONDS, QUICK_FILLED_MB = 1, 2.0, 50


def main() -> int:
    arguments = _arguments()
    if arguments.list:
        print("\n".join(BENCHMARKS))
        return 0
    return run_in_temp_directory(partial(_run, arguments), parent=arguments.directory)


def _run(arguments: argparse.Namespace, directory: Path) -> int:
    if arguments.kafka_home:
        _use_kafka_home(arguments, directory)
    with ExitStack() as exit_stack:
        return _run_benchmarks(_start_targets(arguments, directory, exit_stack), arguments)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kafka", nargs="?", const=KAFKA_3_9, metavar="VERSION")
    parser.add_argument("--kafka-home", type=Path, metavar="FOLDER")
    parser.add_argument("--rdkafka-performance", type=Path, metavar="PROGRAM")
    parser.add_argument("--bootstrap", metavar="HOST:PORT")
    parser.add_argument(
        "--pid", type=int, help="process id of the broker at --bootstrap, for CPU and memory"
    )
    parser.add_argument("--only", action="append", choices=BENCHMARKS, metavar="NAME")
    parser.add_argument("--quick", action="store_true", help="one short round per benchmark")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--list", action="store_true", help="list the names of all benchmarks")
    parser.add_argument("--directory", help="data directory; default: a temporary directory")
    return parser.parse_args()


def _use_kafka_home(arguments: argparse.Namespace, directory: Path) -> None:
    """Link the jars of --kafka-home into a cache directory, where the harness looks for them."""
    version = arguments.kafka or KAFKA_3_9
    (directory / version).symlink_to((arguments.kafka_home / "libs").resolve())
    os.environ["ODRADEK_KAFKA_CACHE"] = str(directory)


def _start_targets(
    arguments: argparse.Namespace, directory: Path, exit_stack: ExitStack
) -> list[Target]:
    if arguments.bootstrap:
        return [broker_targets.existing_broker(arguments.bootstrap, arguments.pid)]
    return exit_stack.enter_context(broker_targets.start_targets(directory, arguments.kafka))


def _run_benchmarks(targets: Sequence[Target], arguments: argparse.Namespace) -> int:
    """Run the benchmarks and return the exit status: 1 if a load failed."""
    options = _load_options(arguments)
    rounds = arguments.rounds or (QUICK_ROUNDS if arguments.quick else ROUNDS)
    print(f"{os.cpu_count()} processors; best of {rounds} rounds of {options.seconds:.0f} s")
    for _ in range(rounds):
        _warm_up(targets, options)
    benchmarks = {name: BENCHMARKS[name] for name in arguments.only or BENCHMARKS}
    return run_benchmarks(benchmarks, targets, options, rounds)


def _warm_up(targets: Sequence[Target], options: LoadOptions) -> None:
    """Run some loads first, because a JVM is slow until it has compiled its code."""
    for name in WARM_UP_BENCHMARKS:
        for target in targets:
            BENCHMARKS[name].load(target, options)


def _load_options(arguments: argparse.Namespace) -> LoadOptions:
    jars: Path | None = None
    try:
        jars = kafka_jars(arguments.kafka or KAFKA_3_9)
    except KafkaUnavailable as reason:
        print(f"Kafka's performance tools are not available: {reason}")
    quick = arguments.quick
    return LoadOptions(
        QUICK_SECONDS if quick else SECONDS,
        QUICK_FILLED_MB if quick else FILLED_MB,
        jars,
        arguments.rdkafka_performance,
    )


if __name__ == "__main__":
    sys.exit(main())
