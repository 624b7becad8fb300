"""How fast is the broker, and what does it cost?  Beside Apache Kafka in the same run, if wanted.

    python benchmarks/broker.py [--kafka [VERSION]] [--only NAME ...] [--quick] [--list]
    python benchmarks/broker.py --bootstrap HOST:PORT [--pid PID]     any broker that runs already

    --kafka                  starts Apache Kafka too (KRaft, one node, 1 GB heap); the sides take
                             turns, and ratios are printed against the goals
    --kafka-home             where an Apache Kafka is unpacked, for its broker and its performance
                             tools; without it, Maven brings the jars into the cache
    --rdkafka-performance    the program of that name, if there is one: it is the leanest client

Every measure of broker_measures.py has a fresh topic.  Of some rounds the best of each figure
counts: whatever else runs here only ever makes a round slower.  Before the first, all sides are
warmed up, which in a quick run is not enough for Kafka: the ratios flatter us then.  The CPU time
of the broker's process suffers least from other loads:

    CPU us/req   for each request     CPU s/GB   for each GB of record values, in or out

A load has one driver, which is printed, since it may be the bottleneck on few cores; the same
drives both sides.
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

import broker_sides
from broker_figures import Tools
from broker_measures import MEASURES
from broker_runs import in_directory, measure_each
from broker_sides import Side

from tests.support.kafka_jars import KAFKA_3_9, KafkaUnavailable, kafka_jars

ROUNDS, SECONDS, FILLED_MB = 3, 5.0, 200
WARMING_UP = ("requests-10x5", "batches-16KB-1KB", "consume-16KB-batches")
QUICK_ROUNDS, QUICK_SECONDS, QUICK_FILLED_MB = 1, 2.0, 50


def main() -> int:
    arguments = _arguments()
    if arguments.list:
        print("\n".join(MEASURES))
        return 0
    return in_directory(partial(_run, arguments), parent=arguments.directory)


def _run(arguments: argparse.Namespace, directory: Path) -> int:
    if arguments.kafka_home:
        _use_unpacked(arguments, directory)
    with ExitStack() as endings:
        return _measure_all(_sides(arguments, directory, endings), arguments)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kafka", nargs="?", const=KAFKA_3_9, metavar="VERSION")
    parser.add_argument("--kafka-home", type=Path, metavar="FOLDER")
    parser.add_argument("--rdkafka-performance", type=Path, metavar="PROGRAM")
    parser.add_argument("--bootstrap", metavar="HOST:PORT")
    parser.add_argument("--pid", type=int, help="of the broker at --bootstrap, for what it costs")
    parser.add_argument("--only", action="append", choices=MEASURES, metavar="NAME")
    parser.add_argument("--quick", action="store_true", help="one short round of each")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--list", action="store_true", help="the names of all measures")
    parser.add_argument("--directory", help="where to write; a temporary folder by default")
    return parser.parse_args()


def _use_unpacked(arguments: argparse.Namespace, directory: Path) -> None:
    """As if it were in the cache, which is where all others look for it."""
    version = arguments.kafka or KAFKA_3_9
    (directory / version).symlink_to((arguments.kafka_home / "libs").resolve())
    os.environ["ODRADEK_KAFKA_CACHE"] = str(directory)


def _sides(arguments: argparse.Namespace, directory: Path, endings: ExitStack) -> list[Side]:
    if arguments.bootstrap:
        return [broker_sides.at(arguments.bootstrap, arguments.pid)]
    return endings.enter_context(broker_sides.in_turns(directory, arguments.kafka))


def _measure_all(sides: Sequence[Side], arguments: argparse.Namespace) -> int:
    """The exit status: 1 if a load has failed."""
    tools = _tools(arguments)
    rounds = arguments.rounds or (QUICK_ROUNDS if arguments.quick else ROUNDS)
    print(f"{os.cpu_count()} processors; the best of {rounds} rounds of {tools.seconds:.0f} s")
    for _ in range(rounds):
        _warm_up(sides, tools)
    measures = {name: MEASURES[name] for name in arguments.only or MEASURES}
    return measure_each(measures, sides, tools, rounds)


def _warm_up(sides: Sequence[Side], tools: Tools) -> None:
    """A virtual machine is slow until it has compiled what it runs."""
    for name in WARMING_UP:
        for side in sides:
            MEASURES[name].load(side, tools)


def _tools(arguments: argparse.Namespace) -> Tools:
    jars: Path | None = None
    try:
        jars = kafka_jars(arguments.kafka or KAFKA_3_9)
    except KafkaUnavailable as why:
        print(f"without Kafka's performance tools: {why}")
    quick = arguments.quick
    return Tools(
        QUICK_SECONDS if quick else SECONDS,
        QUICK_FILLED_MB if quick else FILLED_MB,
        jars,
        arguments.rdkafka_performance,
    )


if __name__ == "__main__":
    sys.exit(main())
