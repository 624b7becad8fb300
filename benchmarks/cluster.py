"""Measures a cluster of three brokers, optionally beside one of Apache Kafka in the same run.

    python benchmarks/cluster.py [--kafka] [--only NAME ...] [--quick] [--list]

Rounds and metrics are those of broker.py.  A target is a cluster of three brokers, and all targets
use the same ZooKeeper server.  The cost of replication is measured against topics with one replica
on the same brokers.  A failover starts when ZooKeeper expires the session of a killed broker, since
the session timeout is a setting, and ends with the next write that the whole ISR acknowledges.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
sys.path.insert(0, str(Path(__file__).parent))

import cluster_targets
from benchmark_program import BenchmarkProgram, BenchmarkSuite
from benchmark_runner import Benchmark, Goal
from cluster_failover import failover, startup
from cluster_loads import produce_replicated
from raw_loads import LoadShape

#: For all targets: the defaults, except for a session timeout of half the default, which is long
#: enough for brokers that start on a busy machine.
PROPERTIES = {
    "zookeeper.session.timeout.ms": "9000",
    "offsets.topic.replication.factor": "3",
    "log.segment.delete.delay.ms": "1000",
    "controlled.shutdown.retry.backoff.ms": "500",
    "auto.leader.rebalance.enable": "false",
}

BENCHMARKS: Mapping[str, Benchmark] = {
    "acks-all-1x1": Benchmark(produce_replicated(LoadShape(in_flight=1)), (Goal("req/s", 1.0),)),
    "acks-all-1x5": Benchmark(produce_replicated(LoadShape(in_flight=5)), (Goal("req/s", 1.0),)),
    "acks-all-batches": Benchmark(
        produce_replicated(LoadShape(1024, 16 * 1024, in_flight=5)), (Goal("MB/s", 1.0),)
    ),
    "failover-100": Benchmark(
        failover(100, of_controller=False),
        (
            Goal("first ms", 1000, relative_to_kafka=False),
            Goal("all ms", 1000, relative_to_kafka=False),
        ),
    ),
    "controller-failover-1000": Benchmark(
        failover(1000, of_controller=True), (Goal("all ms", 1.0),), is_repeated=False
    ),
    "startup-1000": Benchmark(startup(1000), (Goal("in-sync s", 1.0),), is_repeated=False),
}

CLUSTER = BenchmarkProgram(
    description=__doc__,
    suites=(BenchmarkSuite(BENCHMARKS, ("acks-all-1x5", "acks-all-batches")),),
    properties=PROPERTIES,
    start_targets=cluster_targets.start_targets,
)


if __name__ == "__main__":
    sys.exit(CLUSTER.run())
