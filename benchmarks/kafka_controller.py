"""Measures a broker failure under Apache Kafka's controller, on the znodes that ours has written.

One real Kafka broker runs, without replicas, so it only acts as the controller.  It connects to the
same stand-in brokers as ours did, at their ports, and the same interval is measured.  The
stand-ins run in the process of the benchmark: they share a thread with our controller, but run in
parallel with Kafka's.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path

from failover import BROKER_IDS, Failover, Layout, register_brokers
from stand_in_brokers import StandInBrokers

from odradek.controller.store.base import MetadataStore
from tests.support.apache_kafka import ApacheKafka, zookeeper_broker

#: The test harness runs brokers with the C1 compiler; these options override that.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=4 -Xmx768m"
PROPERTIES: Mapping[str, str] = {"auto.leader.rebalance.enable": "false"}
KAFKA_ID = 101


async def measure_failures_s(
    broker_session: MetadataStore, layout: Layout, *, zookeeper: str, directory: Path, rounds: int
) -> list[float]:
    """Return the time of each round; in the first rounds the JVM has just started.

    Raises KafkaUnavailable.
    """
    os.environ["_JAVA_OPTIONS"] = JAVA_OPTIONS
    broker = zookeeper_broker(
        directory, zookeeper=zookeeper, broker_id=KAFKA_ID, properties=PROPERTIES
    )
    brokers = StandInBrokers(BROKER_IDS)
    async with AsyncExitStack() as exit_stack:
        for server in await brokers.listen():
            exit_stack.callback(server.close)
        await register_brokers(broker_session, brokers, BROKER_IDS)
        exit_stack.push_async_callback(_stop, broker)
        await asyncio.to_thread(broker.start)
        return await _rounds(Failover(broker_session, brokers, layout), rounds)


async def _rounds(failover: Failover, rounds: int) -> list[float]:
    failure_times_s = []
    await failover.wait_until_all_updated()
    for _ in range(rounds):
        failure_times_s.append(await failover.measure_failure_s())
        await failover.measure_return_s()
        await failover.recover()
    return failure_times_s


async def _stop(broker: ApacheKafka) -> None:
    """Kill the broker: a controlled shutdown takes long and is not measured."""
    await asyncio.to_thread(broker.kill)
