"""A broker's failure under Apache Kafka's controller, on the tree that ours has left.

One real broker, which has no replicas and so nothing to do but to be the controller.  It finds the
same stand-ins as ours did, at ports as ours did: what is measured, and from when to when, is the
same.  The stand-ins are in the benchmark's process: they take turns with our controller, and run
beside Kafka's.
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

#: The harness runs brokers with the quick compiler; this comes after its options.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=4 -Xmx768m"
PROPERTIES: Mapping[str, str] = {"auto.leader.rebalance.enable": "false"}
KAFKA_ID = 101


async def measure_failures_s(
    broker_session: MetadataStore, layout: Layout, *, zookeeper: str, directory: Path, rounds: int
) -> list[float]:
    """Of every round: the first are those of a virtual machine that has just started.

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
    """At once: what it would do to stop in order is not to be measured, and takes long."""
    await asyncio.to_thread(broker.kill)
