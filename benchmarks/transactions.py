"""Measures transactions, optionally beside Apache Kafka in the same run.

    python benchmarks/transactions.py [--kafka [VERSION]] [--only NAME] [--quick] [--list]

Targets, rounds and metrics are those of broker.py.

    transactions-N      of N records to one partition, by one producer, one after the other; by raw
                        sockets, with AddPartitionsToTxn, Produce and EndTxn.  The latency is that
                        of a whole transaction, with the wait for the markers of the previous one
    transactions-10x10  the same by ten producers at once
    transactions-v2-N   transactions version 2 (KIP-890), beside Kafka 4.1.1, since 3.9.1 does not
                        support it
    every-100-ms        records of 1 KB by librdkafka, committed every 100 ms, and the share of the
                        rate of the same producer without transactions
    java-every-100-ms   the same by Kafka's producer (ProducerPerformance)
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
from transaction_loads import (
    TransactionShape,
    java_periodic_commits,
    periodic_commits,
    transactions,
)

from tests.support.kafka_jars import KAFKA_3_9, KAFKA_4_1

#: For all targets: the defaults, except for a transaction log that one broker can replicate.
PROPERTIES = {
    **broker_targets.PROPERTIES,
    "transaction.state.log.num.partitions": "50",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
THROUGHPUT_GOALS = (Goal("share", 0.8, relative_to_kafka=False), Goal("msg/s", 1.0))
PARITY_GOALS = (Goal("txn/s", 1.0), Goal("p50 ms", 1.0), Goal("p99 ms", 1.0))

TRANSACTION_V1: Mapping[str, Benchmark] = {
    **{
        f"transactions-{records}": Benchmark(transactions(TransactionShape(records)), PARITY_GOALS)
        for records in (1, 10, 100)
    },
    "transactions-10x10": Benchmark(transactions(TransactionShape(10, producers=10)), PARITY_GOALS),
    "every-100-ms": Benchmark(periodic_commits(), THROUGHPUT_GOALS),
    "java-every-100-ms": Benchmark(java_periodic_commits(), THROUGHPUT_GOALS),
}
TRANSACTION_V2: Mapping[str, Benchmark] = {
    f"transactions-v2-{records}": Benchmark(
        transactions(TransactionShape(records, is_transaction_v2=True)), PARITY_GOALS
    )
    for records in (1, 10, 100)
}

TRANSACTIONS = BenchmarkProgram(
    description=__doc__,
    suites=(
        BenchmarkSuite(TRANSACTION_V1, ("transactions-1", "transactions-10x10"), KAFKA_3_9),
        BenchmarkSuite(TRANSACTION_V2, ("transactions-v2-10",), KAFKA_4_1),
    ),
    properties=PROPERTIES,
)


if __name__ == "__main__":
    sys.exit(TRANSACTIONS.run())
