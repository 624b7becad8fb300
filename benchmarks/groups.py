"""How fast is the group coordinator?  Beside Apache Kafka in the same run, if wanted.

    python benchmarks/groups.py [--kafka [VERSION]] [--only NAME ...] [--quick] [--list]

Sides, rounds and figures are those of broker.py.  All of it is driven by raw sockets: members whose
requests are written before, so that the driver is not what is measured.  Consumer heartbeats
(KIP-848) are left out where Kafka does not serve them, as 3.9 does not unless it is told to.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
sys.path.insert(0, str(Path(__file__).parent))

import broker_sides
from broker_figures import Tools
from broker_raw_loads import Shape
from broker_runs import Goal, Measure, in_directory, measure_each
from group_loads import commits, commits_in_a_crowd, consumer_heartbeats, heartbeats, sessions
from group_rebalance import rebalance
from group_replay import replay

from tests.support.kafka_jars import KAFKA_3_9

ROUNDS, SECONDS, FILLED_MB = 3, 5.0, 200
QUICK_ROUNDS, QUICK_SECONDS, QUICK_FILLED_MB = 1, 2.0, 20
WARMING_UP = ("commits-1x5", "heartbeats-1x5", "rebalance-200")
#: On all sides: as by default, but for a log that one broker can replicate, and for groups that
#: wait for their first members no longer than those here need to come.
PROPERTIES = {
    **broker_sides.PROPERTIES,
    "offsets.topic.num.partitions": "50",
    "offsets.topic.replication.factor": "1",
    "group.initial.rebalance.delay.ms": "1000",
}

MEASURES: Mapping[str, Measure] = {
    "commits-1x1": Measure(commits(Shape(in_flight=1)), (Goal("req/s", 1.0),)),
    "commits-1x5": Measure(commits(Shape(in_flight=5)), (Goal("req/s", 1.0),)),
    "commits-in-a-crowd": Measure(
        commits_in_a_crowd(Shape(in_flight=5)),
        (Goal("share", 0.9, of_kafka=False), Goal("req/s", 1.0)),
    ),
    "heartbeats-1x5": Measure(heartbeats(Shape(in_flight=5)), (Goal("req/s", 1.0),)),
    "consumer-heartbeats-1x5": Measure(
        consumer_heartbeats(Shape(in_flight=5)), (Goal("req/s", 1.0),)
    ),
    "rebalance-200": Measure(
        rebalance(200), (Goal("over ms", 100, of_kafka=False), Goal("rebalance ms", 1.0))
    ),
    # Once: of several rounds the best would count, and nobody may be lost in any.
    "sessions": Measure(sessions, (Goal("lost", 0, of_kafka=False),), is_repeated=False),
    "replay": Measure(replay(), (Goal("worst ms", 100, of_kafka=False),), is_repeated=False),
}


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
    measures = {name: MEASURES[name] for name in arguments.only or MEASURES}
    with broker_sides.in_turns(directory, arguments.kafka, PROPERTIES) as sides:
        print(f"{os.cpu_count()} processors; the best of {rounds} rounds of {tools.seconds:.0f} s")
        for name in WARMING_UP * rounds:
            for side in sides:
                MEASURES[name].load(side, tools)
        return measure_each(measures, sides, tools, rounds)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kafka", nargs="?", const=KAFKA_3_9, metavar="VERSION")
    parser.add_argument("--only", action="append", choices=MEASURES, metavar="NAME")
    parser.add_argument("--quick", action="store_true", help="one short round of each")
    parser.add_argument("--list", action="store_true", help="the names of all measures")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
