"""How fast is a cluster of three brokers?  Beside Apache Kafka's in the same run, if wanted.

    python benchmarks/cluster.py [--kafka] [--only NAME ...] [--quick] [--list]

Sides, rounds and figures are those of broker.py; a side is three brokers, and all sides are on one
ZooKeeper.  What replication costs is measured against topics with one replica on the same brokers.
A failover begins when ZooKeeper gives up the session of a broker that was killed, and ends with the
next write that is acknowledged by all in sync: how long a session lasts is a setting.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
sys.path.insert(0, str(Path(__file__).parent))

import cluster_sides
from broker_raw_loads import Shape
from broker_runs import Goal, Measure
from cluster_failover import failover, startup
from cluster_loads import replicated
from measure_program import Family, Program

#: On all sides: as by default, but for sessions half as long, which brokers survive that start on a
#: busy machine.
PROPERTIES = {
    "zookeeper.session.timeout.ms": "9000",
    "offsets.topic.replication.factor": "3",
    "log.segment.delete.delay.ms": "1000",
    "controlled.shutdown.retry.backoff.ms": "500",
    "auto.leader.rebalance.enable": "false",
}

MEASURES: Mapping[str, Measure] = {
    "acks-all-1x1": Measure(replicated(Shape(in_flight=1)), (Goal("req/s", 1.0),)),
    "acks-all-1x5": Measure(replicated(Shape(in_flight=5)), (Goal("req/s", 1.0),)),
    "acks-all-batches": Measure(
        replicated(Shape(1024, 16 * 1024, in_flight=5)), (Goal("MB/s", 1.0),)
    ),
    "failover-100": Measure(
        failover(100, of_controller=False),
        (Goal("first ms", 1000, of_kafka=False), Goal("all ms", 1000, of_kafka=False)),
    ),
    "controller-failover-1000": Measure(
        failover(1000, of_controller=True), (Goal("all ms", 1.0),), is_repeated=False
    ),
    "startup-1000": Measure(startup(1000), (Goal("whole s", 1.0),), is_repeated=False),
}

CLUSTER = Program(
    description=__doc__,
    families=(Family(MEASURES, ("acks-all-1x5", "acks-all-batches")),),
    properties=PROPERTIES,
    in_turns=cluster_sides.in_turns,
)


if __name__ == "__main__":
    sys.exit(CLUSTER.run())
