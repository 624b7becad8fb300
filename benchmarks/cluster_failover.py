"""A broker of a cluster is killed, or all are started again: how long until all is served?

The clock of a failover begins when ZooKeeper deletes the broker's node.  From then on both others
are sent a record for each partition that it led, again and again, until all are acknowledged.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from typing import Any

from broker_clients import LoadFailed
from broker_figures import Load, Measured, Tools
from broker_raw import CLIENT_ID, PRODUCE_VERSION, ask, batch_of, connect, next_answer
from broker_sides import Side
from cluster_loads import ALL, partitions_of, replicated_topic, spread, wait_until_whole
from cluster_sides import ClusterSide, Server
from kazoo.client import KazooClient

from odradek.protocol.api.elect_leaders import ElectLeadersRequest
from odradek.protocol.api.metadata import MetadataRequest
from odradek.protocol.api.produce import ProduceRequest
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.header import request_frame

FAILOVER_TIMEOUT_S = 120.0
PRODUCE_TIMEOUT_MS = 10_000
POLL_INTERVAL_S = 0.002
LOOK_INTERVAL_S = 0.02
METADATA_VERSION = 7
PREFERRED = 0


def failover(partitions: int, *, of_controller: bool) -> Load:
    """Of the controller, or of a broker that is not it."""

    def load(side: Side, _: Tools) -> Measured:
        assert isinstance(side, ClusterSide)
        began, spent_s = time.perf_counter(), side.cpu_s()
        with replicated_topic(side, spread(partitions)) as name:
            figures = {
                "create s": time.perf_counter() - began,
                "create CPU s": side.cpu_s() - spent_s,
            }
            controller = controller_of(side)
            victim = controller if of_controller else (controller + 1) % len(side.servers)
            figures |= _failed(side, name, victim)
            _bring_back(side, name, victim)
        return Measured(f"raw sockets, {partitions} partitions", figures)

    return load


def startup(partitions: int) -> Load:
    """Of all brokers at once, after all were stopped in order."""

    def load(side: Side, _: Tools) -> Measured:
        assert isinstance(side, ClusterSide)
        with replicated_topic(side, spread(partitions)) as name:
            began = time.perf_counter()
            for server in side.servers:
                server.stop()
            stopped = time.perf_counter()
            for server in side.servers:
                server.launch()
            for server in side.servers:
                server.wait_until_ready()
            ready_s = time.perf_counter() - stopped
            wait_until_whole(side, name)
            whole_s = time.perf_counter() - stopped
            figures = {
                "stop s": stopped - began,
                "ready s": ready_s,
                "whole s": whole_s,
                "CPU s": side.cpu_s(),
            }
        return Measured(f"{partitions} partitions", figures)

    return load


def controller_of(side: ClusterSide) -> int:
    request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
    address = side.servers[0].address
    return int(ask(address, ApiKey.METADATA, METADATA_VERSION, request).controller_id)


def _failed(side: ClusterSide, name: str, victim: int) -> dict[str, float]:
    dead = side.servers[victim]
    others = [each for each in side.servers if each is not dead]
    found = partitions_of(others[0].address, name)
    led = {each.partition_index for each in found if each.leader_id == victim}
    with _forgotten(side, victim) as is_forgotten:
        killed = time.perf_counter()
        dead.kill()
        if not is_forgotten.wait(FAILOVER_TIMEOUT_S):
            raise LoadFailed(f"ZooKeeper still knows broker {victim}")
        forgotten, spent_s = time.perf_counter(), side.cpu_s()
        first, last = _acknowledged(others, name, led)
    return {
        "first ms": (first - forgotten) * 1000,
        "all ms": (last - forgotten) * 1000,
        "CPU s": side.cpu_s() - spent_s,
        "session s": forgotten - killed,
        "led": len(led),
    }


@contextmanager
def _forgotten(side: ClusterSide, broker: int) -> Iterator[Event]:
    """Set as soon as the node of a broker is deleted."""
    is_forgotten = Event()
    client = KazooClient(side.zookeeper)
    client.start()
    try:
        assert client.exists(f"/brokers/ids/{broker}", watch=lambda _: is_forgotten.set())
        yield is_forgotten
    finally:
        client.stop()
        client.close()


def _acknowledged(others: list[Server], name: str, led: set[int]) -> tuple[float, float]:
    """When the first of these partitions had a record acknowledged, and when the last.

    Until then only one is asked for: to refuse hundreds again and again would hold brokers up.
    """
    missing, first = set(led), None
    deadline = time.perf_counter() + FAILOVER_TIMEOUT_S
    connections = [connect(each.address) for each in others]
    try:
        while missing:
            for connection in connections:
                connection.settimeout(FAILOVER_TIMEOUT_S)
                asked = {min(missing)} if first is None else missing
                connection.sendall(_produce(name, asked))
                done = _written(next_answer(connection, ApiKey.PRODUCE, PRODUCE_VERSION))
                if done and first is None:
                    first = time.perf_counter()
                missing -= done
                if not missing:
                    break
            if time.perf_counter() > deadline:
                raise LoadFailed(f"{len(missing)} partitions cannot be written")
            time.sleep(POLL_INTERVAL_S)
    finally:
        for connection in connections:
            connection.close()
    assert first is not None
    return first, time.perf_counter()


def _produce(name: str, partitions: set[int]) -> bytes:
    records = batch_of(10, batch_bytes=0).records
    entries = [
        ProduceRequest.Topic.Partition(index=each, records=records) for each in sorted(partitions)
    ]
    request = ProduceRequest(
        acks=ALL,
        timeout_ms=PRODUCE_TIMEOUT_MS,
        topic_data=[ProduceRequest.Topic(name=name, partition_data=entries)],
    )
    return b"".join(request_frame(ApiKey.PRODUCE, PRODUCE_VERSION, 1, CLIENT_ID, request))


def _written(answer: Any) -> set[int]:
    (topic,) = answer.responses
    return {each.index for each in topic.partition_responses if not each.error_code}


def _bring_back(side: ClusterSide, name: str, victim: int) -> None:
    """So that the next round is like the first: all in sync, and led by the first replica."""
    server = side.servers[victim]
    server.launch()
    server.wait_until_ready()
    wait_until_whole(side, name)
    request = ElectLeadersRequest(election_type=PREFERRED, topic_partitions=None)
    address = side.servers[controller_of(side)].address
    ask(address, ApiKey.ELECT_LEADERS, 1, request)
