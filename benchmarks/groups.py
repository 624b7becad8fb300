"""How fast is the group coordinator?  Beside Apache Kafka in the same run, if wanted.

    python benchmarks/groups.py [--kafka [VERSION]] [--only NAME ...] [--quick] [--list]

Sides, rounds and figures are those of broker.py.  All of it is driven by raw sockets: members whose
requests are written before, so that the driver is not what is measured.  Beside classic groups,
Kafka is 3.9.1; beside those of the consumer protocol (KIP-848), which that does not serve, 4.1.1.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
sys.path.insert(0, str(Path(__file__).parent))

import broker_sides
from broker_raw_loads import Shape
from broker_runs import Goal, Measure
from group_consumers import assignors, consumer_heartbeats, gathering
from group_loads import commits, commits_in_a_crowd, heartbeats, sessions
from group_rebalance import rebalance
from group_replay import replay
from measure_program import Family, Program

from tests.support.kafka_jars import KAFKA_3_9, KAFKA_4_1

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

GROUPS = Program(
    description=__doc__,
    families=(
        Family(CLASSIC, ("commits-1x5", "heartbeats-1x5", "rebalance-200"), KAFKA_3_9),
        Family(OF_CONSUMERS, ("consumer-heartbeats-1x5", "consumer-gathering-200"), KAFKA_4_1),
    ),
    properties=PROPERTIES,
    filled_mb=200,
)


if __name__ == "__main__":
    sys.exit(GROUPS.run())
