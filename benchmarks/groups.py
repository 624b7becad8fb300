"""How fast is the group coordinator?  Beside Apache Kafka in the same run, if wanted.

    python benchmarks/groups.py [--kafka [VERSION]] [--only NAME ...] [--quick] [--list]

Sides, rounds and figures are those of broker.py.  All of it is driven by raw sockets: members whose
requests are written before, so that the driver is not what is measured.  Beside classic groups,
Kafka is 3.9.1; beside those of the consumer protocol (KIP-848), which that does not serve, 4.1.1.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
sys.path.insert(0, str(Path(__file__).parent))

import broker_sides
from broker_clients import LeftOut
from broker_figures import Tools
from broker_raw_loads import Shape
from broker_runs import Goal, Measure, in_directory, measure_each
from group_consumers import assignors, consumer_heartbeats, gathering
from group_loads import commits, commits_in_a_crowd, heartbeats, sessions
from group_rebalance import rebalance
from group_replay import replay

from tests.support.kafka_jars import KAFKA_3_9, KAFKA_4_1

BY_FAMILY = "by family"
ROUNDS, SECONDS, FILLED_MB = 3, 5.0, 200
QUICK_ROUNDS, QUICK_SECONDS, QUICK_FILLED_MB = 1, 2.0, 20
#: On all sides: as by default, but for a log that one broker can replicate, and for groups that
#: wait for their first members no longer than those here need to come.
PROPERTIES = {
    **broker_sides.PROPERTIES,
    "offsets.topic.num.partitions": "50",
    "offsets.topic.replication.factor": "1",
    "group.initial.rebalance.delay.ms": "1000",
}

CLASSIC: Mapping[str, Measure] = {
    "commits-1x1": Measure(commits(Shape(in_flight=1)), (Goal("req/s", 1.0),)),
    "commits-1x5": Measure(commits(Shape(in_flight=5)), (Goal("req/s", 1.0),)),
    "commits-in-a-crowd": Measure(
        commits_in_a_crowd(Shape(in_flight=5)),
        (Goal("share", 0.9, of_kafka=False), Goal("req/s", 1.0)),
    ),
    "heartbeats-1x5": Measure(heartbeats(Shape(in_flight=5)), (Goal("req/s", 1.0),)),
    "rebalance-200": Measure(
        rebalance(200), (Goal("over ms", 100, of_kafka=False), Goal("rebalance ms", 1.0))
    ),
    # Once: of several rounds the best would count, and nobody may be lost in any.
    "sessions": Measure(sessions, (Goal("lost", 0, of_kafka=False),), is_repeated=False),
    "replay": Measure(replay(), (Goal("worst ms", 100, of_kafka=False),), is_repeated=False),
}
OF_CONSUMERS: Mapping[str, Measure] = {
    "consumer-heartbeats-1x5": Measure(
        consumer_heartbeats(Shape(in_flight=5)), (Goal("req/s", 1.0),)
    ),
    "consumer-gathering-200": Measure(
        gathering(200, partitions=400), (Goal("gathering ms", 1.0), Goal("departure ms", 1.0))
    ),
    "assignors": Measure(assignors, is_repeated=False),
}
MEASURES = {**CLASSIC, **OF_CONSUMERS}
#: Which release they are compared with, and what brokers do before.
FAMILIES = (
    (KAFKA_3_9, CLASSIC, ("commits-1x5", "heartbeats-1x5", "rebalance-200")),
    (KAFKA_4_1, OF_CONSUMERS, ("consumer-heartbeats-1x5", "consumer-gathering-200")),
)


def main() -> int:
    arguments = _arguments()
    if arguments.list:
        print("\n".join(MEASURES))
        return 0
    return in_directory(partial(_run, arguments))


def _run(arguments: argparse.Namespace, directory: Path) -> int:
    rounds, tools = ROUNDS, Tools(SECONDS, FILLED_MB)
    if arguments.quick:
        rounds, tools = QUICK_ROUNDS, Tools(QUICK_SECONDS, QUICK_FILLED_MB)
    print(f"{os.cpu_count()} processors; the best of {rounds} rounds of {tools.seconds:.0f} s")
    status = 0
    for release, family, warming_up in FAMILIES:
        wanted = {name: family[name] for name in arguments.only or family if name in family}
        if not wanted:
            continue
        version = release if arguments.kafka == BY_FAMILY else arguments.kafka
        with broker_sides.in_turns(directory / release, version, PROPERTIES) as sides:
            for name in warming_up * rounds:
                for side in sides:
                    with suppress(LeftOut):
                        family[name].load(side, tools)
            status |= measure_each(wanted, sides, tools, rounds)
    return status


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kafka", nargs="?", const=BY_FAMILY, metavar="VERSION")
    parser.add_argument("--only", action="append", choices=MEASURES, metavar="NAME")
    parser.add_argument("--quick", action="store_true", help="one short round of each")
    parser.add_argument("--list", action="store_true", help="the names of all measures")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
