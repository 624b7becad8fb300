"""Measures the group coordinator, optionally beside Apache Kafka in the same run.

    python benchmarks/groups.py [--kafka [VERSION]] [--only NAME ...] [--quick] [--list]

Targets, rounds and metrics are those of broker.py.  All loads use raw sockets with requests that
are encoded in advance, so the driver is not the bottleneck.  Classic groups are compared with Kafka
3.9.1.  Groups of the consumer protocol (KIP-848), which 3.9.1 does not support, are compared with
4.1.1.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
sys.path.insert(0, str(Path(__file__).parent))

import broker_targets
from benchmark_program import BenchmarkProgram, BenchmarkSuite
from benchmark_runner import Benchmark, Goal
from group_consumers import assignors, consumer_heartbeats, group_formation
from group_loads import commits, commits_with_background_heartbeats, heartbeats, sessions
from group_rebalance import rebalance
from group_replay import replay
from raw_loads import LoadShape

from tests.support.kafka_jars import KAFKA_3_9, KAFKA_4_1

#: For all targets: the defaults, except for an offsets topic that one broker can replicate, and an
#: initial rebalance delay that is just long enough for these members to join.
PROPERTIES = {
    **broker_targets.PROPERTIES,
    "offsets.topic.num.partitions": "50",
    "offsets.topic.replication.factor": "1",
    "group.initial.rebalance.delay.ms": "1000",
}

CLASSIC_PROTOCOL: Mapping[str, Benchmark] = {
    "commits-1x1": Benchmark(commits(LoadShape(in_flight=1)), (Goal("req/s", 1.0),)),
    "commits-1x5": Benchmark(commits(LoadShape(in_flight=5)), (Goal("req/s", 1.0),)),
    "commits-with-heartbeats": Benchmark(
        commits_with_background_heartbeats(LoadShape(in_flight=5)),
        (Goal("share", 0.9, relative_to_kafka=False), Goal("req/s", 1.0)),
    ),
    "heartbeats-1x5": Benchmark(heartbeats(LoadShape(in_flight=5)), (Goal("req/s", 1.0),)),
    "rebalance-200": Benchmark(
        rebalance(200),
        (Goal("overhead ms", 100, relative_to_kafka=False), Goal("rebalance ms", 1.0)),
    ),
    # Run once: the best of several rounds would hide sessions that another round lost.
    "sessions": Benchmark(
        sessions, (Goal("lost sessions", 0, relative_to_kafka=False),), is_repeated=False
    ),
    "replay": Benchmark(
        replay(), (Goal("max stall ms", 100, relative_to_kafka=False),), is_repeated=False
    ),
}
CONSUMER_PROTOCOL: Mapping[str, Benchmark] = {
    "consumer-heartbeats-1x5": Benchmark(
        consumer_heartbeats(LoadShape(in_flight=5)), (Goal("req/s", 1.0),)
    ),
    "consumer-group-formation-200": Benchmark(
        group_formation(200, partitions=400), (Goal("join ms", 1.0), Goal("leave ms", 1.0))
    ),
    "assignors": Benchmark(assignors, is_repeated=False),
}

GROUPS = BenchmarkProgram(
    description=__doc__,
    suites=(
        BenchmarkSuite(
            CLASSIC_PROTOCOL, ("commits-1x5", "heartbeats-1x5", "rebalance-200"), KAFKA_3_9
        ),
        BenchmarkSuite(
            CONSUMER_PROTOCOL,
            ("consumer-heartbeats-1x5", "consumer-group-formation-200"),
            KAFKA_4_1,
        ),
    ),
    properties=PROPERTIES,
    filled_mb=200,
)


if __name__ == "__main__":
    sys.exit(GROUPS.run())
