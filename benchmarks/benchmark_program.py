"""A table of measures as a program: its arguments, what is warmed up, how often is measured."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
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


BY_FAMILY = "by family"

#: The sides, given a folder, the release of Kafka, if any, and settings.
InTurns = Callable[[Path, str | None, Mapping[str, str]], AbstractContextManager[Sequence[Side]]]


@dataclass(frozen=True, slots=True)
class Family:
    """Measures that are compared with one release of Kafka.

    ``warming_up`` are those that every side is sent before, as often as there are rounds.
    """

    measures: Mapping[str, Measure]
    warming_up: Sequence[str]
    release: str = KAFKA_3_9

    def warm_up(self, sides: Sequence[Side], tools: Tools, rounds: int) -> None:
        for name in [*self.warming_up] * rounds:
            for side in sides:
                with suppress(LeftOut):  # the measure itself says why
                    self.measures[name].load(side, tools)


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A topic that is read is filled with so much, and with a tenth of it in a quick run."""

    description: str
    families: Sequence[Family]
    properties: Mapping[str, str]
    filled_mb: int = 0
    in_turns: InTurns = broker_sides.in_turns

    def run(self) -> int:
        """The exit status."""
        arguments = self._arguments()
        if arguments.list:
            print("\n".join(self._names()))
            return 0
        return in_directory(partial(self._measure, arguments))

    def _names(self) -> list[str]:
        return [name for family in self.families for name in family.measures]

    def _arguments(self) -> argparse.Namespace:
        parser = argparse.ArgumentParser(
            description=self.description, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        parser.add_argument("--kafka", nargs="?", const=BY_FAMILY, metavar="VERSION")
        parser.add_argument("--only", action="append", choices=self._names(), metavar="NAME")
        parser.add_argument("--quick", action="store_true", help="one short round of each")
        parser.add_argument("--list", action="store_true", help="the names of all measures")
        return parser.parse_args()

    def _measure(self, arguments: argparse.Namespace, directory: Path) -> int:
        rounds, seconds, filled_mb = ROUNDS, SECONDS, self.filled_mb
        if arguments.quick:
            rounds, seconds, filled_mb = QUICK_ROUNDS, QUICK_SECONDS, self.filled_mb // 10
        print(f"{os.cpu_count()} processors; the best of {rounds} rounds of {seconds:.0f} s")
        status = 0
        for number, family in enumerate(self.families):
            wanted = {
                name: family.measures[name]
                for name in arguments.only or family.measures
                if name in family.measures
            }
            if not wanted:
                continue
            version = family.release if arguments.kafka == BY_FAMILY else arguments.kafka
            tools = Tools(seconds, filled_mb, _jars(version or family.release))
            place = directory / str(number)
            with self.in_turns(place, version, self.properties) as sides:
                family.warm_up(sides, tools, rounds)
                status |= measure_each(wanted, sides, tools, rounds)
        return status


def _jars(version: str) -> Path | None:
    """For Kafka's performance tools, which some measures can do without."""
    try:
        return kafka_jars(version)
    except KafkaUnavailable as why:
        print(f"without Kafka's performance tools: {why}")
        return None
