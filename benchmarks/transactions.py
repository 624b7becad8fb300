"""How fast are transactions?  Beside Apache Kafka in the same run, if wanted.

    python benchmarks/transactions.py [--kafka [VERSION]] [--only NAME] [--quick] [--list]

Sides, rounds and figures are those of broker.py.

    transactions-N      of N records to one partition, by one producer, one after the other; by raw
                        sockets, with AddPartitionsToTxn, Produce and EndTxn.  The latency is that
                        of a whole transaction, with the wait for the markers of the one before
    transactions-10x10  the same by ten producers at once
    second-N            of the second version of transactions (KIP-890), beside Kafka 4.1.1, since
                        3.9.1 does not serve it
    every-100-ms        records of 1 KB by librdkafka, committed every 100 ms, and the share of what
                        the same producer sends without transactions
    java-every-100-ms   the same by Kafka's producer (ProducerPerformance)
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
sys.path.insert(0, str(Path(__file__).parent))

import broker_sides
from broker_runs import Goal, Measure
from measure_program import Family, Program
from transaction_loads import (
    Transactions,
    committed_every_so_often,
    java_committed_every_so_often,
    transactions,
)

from tests.support.kafka_jars import KAFKA_3_9, KAFKA_4_1

#: On all sides: as by default, but for a log that one broker can replicate.
PROPERTIES = {
    **broker_sides.PROPERTIES,
    "transaction.state.log.num.partitions": "50",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
HARDLY_SLOWER = (Goal("share", 0.8, of_kafka=False), Goal("msg/s", 1.0))
AS_GOOD = (Goal("txn/s", 1.0), Goal("p50 ms", 1.0), Goal("p99 ms", 1.0))

FIRST: Mapping[str, Measure] = {
    **{
        f"transactions-{records}": Measure(transactions(Transactions(records)), AS_GOOD)
        for records in (1, 10, 100)
    },
    "transactions-10x10": Measure(transactions(Transactions(10, producers=10)), AS_GOOD),
    "every-100-ms": Measure(committed_every_so_often(), HARDLY_SLOWER),
    "java-every-100-ms": Measure(java_committed_every_so_often(), HARDLY_SLOWER),
}
SECOND: Mapping[str, Measure] = {
    f"second-{records}": Measure(transactions(Transactions(records, is_second=True)), AS_GOOD)
    for records in (1, 10, 100)
}

TRANSACTIONS = Program(
    description=__doc__,
    families=(
        Family(FIRST, ("transactions-1", "transactions-10x10"), KAFKA_3_9),
        Family(SECOND, ("second-10",), KAFKA_4_1),
    ),
    properties=PROPERTIES,
)


if __name__ == "__main__":
    sys.exit(TRANSACTIONS.run())
