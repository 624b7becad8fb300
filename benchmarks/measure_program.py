"""A table of measures as a program: its arguments, what is warmed up, how often is measured."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import broker_sides
from broker_clients import LeftOut
from broker_figures import Tools
from broker_runs import Measure, in_directory, measure_each
from broker_sides import Side

from tests.support.kafka_jars import KAFKA_3_9, KafkaUnavailable, kafka_jars

ROUNDS, SECONDS = 3, 5.0
QUICK_ROUNDS, QUICK_SECONDS = 1, 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """``warming_up`` are the measures that every side is sent before, as often as there are rounds.

    A topic that is read is filled with so much, and with a tenth of it in a quick run.
    """

    description: str
    measures: Mapping[str, Measure]
    warming_up: Sequence[str]
    properties: Mapping[str, str]
    filled_mb: int = 0

    def run(self) -> int:
        """The exit status."""
        arguments = self._arguments()
        if arguments.list:
            print("\n".join(self.measures))
            return 0
        return in_directory(partial(self._measure, arguments))

    def _arguments(self) -> argparse.Namespace:
        parser = argparse.ArgumentParser(
            description=self.description, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        parser.add_argument("--kafka", nargs="?", const=KAFKA_3_9, metavar="VERSION")
        parser.add_argument("--only", action="append", choices=self.measures, metavar="NAME")
        parser.add_argument("--quick", action="store_true", help="one short round of each")
        parser.add_argument("--list", action="store_true", help="the names of all measures")
        return parser.parse_args()

    def _measure(self, arguments: argparse.Namespace, directory: Path) -> int:
        jars = _jars(arguments.kafka or KAFKA_3_9)
        rounds, tools = ROUNDS, Tools(SECONDS, self.filled_mb, jars)
        if arguments.quick:
            rounds, tools = QUICK_ROUNDS, Tools(QUICK_SECONDS, self.filled_mb // 10, jars)
        measures = {name: self.measures[name] for name in arguments.only or self.measures}
        with broker_sides.in_turns(directory, arguments.kafka, self.properties) as sides:
            seconds = f"{tools.seconds:.0f} s"
            print(f"{os.cpu_count()} processors; the best of {rounds} rounds of {seconds}")
            for name in [*self.warming_up] * rounds:
                for side in sides:
                    self._warm_up(side, name, tools)
            return measure_each(measures, sides, tools, rounds)

    def _warm_up(self, side: Side, name: str, tools: Tools) -> None:
        try:
            self.measures[name].load(side, tools)
        except LeftOut:
            return  # the measure itself says why


def _jars(version: str) -> Path | None:
    """For Kafka's performance tools, which some measures can do without."""
    try:
        return kafka_jars(version)
    except KafkaUnavailable as why:
        print(f"without Kafka's performance tools: {why}")
        return None
