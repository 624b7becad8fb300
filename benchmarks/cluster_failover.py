"""Measures the time until all partitions are served after a failover or a cluster restart.

The clock of a failover starts when ZooKeeper deletes the broker's znode.  From then on, both other
brokers repeatedly receive a record for each partition that the killed broker led, until all records
are acknowledged.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from typing import Any

from broker_targets import Target
from client_drivers import LoadFailed
from cluster_loads import (
    ACKS_ALL,
    describe_partitions,
    replicated_topic,
    spread_replicas,
    wait_until_in_sync,
)
from cluster_targets import ClusterBroker, ClusterTarget
from kazoo.client import KazooClient
from measurement import Load, LoadOptions, Measurement
from raw_driver import (
    CLIENT_ID,
    PRODUCE_VERSION,
    build_batch,
    connect,
    receive_response,
    send_and_receive,
)

from odradek.protocol.api.elect_leaders import ElectLeadersRequest
from odradek.protocol.api.metadata import MetadataRequest
from odradek.protocol.api.produce import ProduceRequest
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.header import request_frame

FAILOVER_TIMEOUT_S = 120.0
PRODUCE_TIMEOUT_MS = 10_000
POLL_INTERVAL_S = 0.002
CHECK_INTERVAL_S = 0.02
METADATA_VERSION = 7
PREFERRED = 0


def failover(partitions: int, *, of_controller: bool) -> Load:
    """Kill the controller, or a broker that is not the controller."""

    def load(target: Target, _: LoadOptions) -> Measurement:
        assert isinstance(target, ClusterTarget)
        started, cpu_before_s = time.perf_counter(), target.cpu_s()
        with replicated_topic(target, spread_replicas(partitions)) as name:
            metrics = {
                "create s": time.perf_counter() - started,
                "create CPU s": target.cpu_s() - cpu_before_s,
            }
            controller = controller_id(target)
            victim = controller if of_controller else (controller + 1) % len(target.servers)
            metrics |= _measure_failover(target, name, victim)
            _restart_broker(target, name, victim)
        return Measurement(f"raw sockets, {partitions} partitions", metrics)

    return load


def startup(partitions: int) -> Load:
    """Stop all brokers by controlled shutdown, then start all of them at once."""

    def load(target: Target, _: LoadOptions) -> Measurement:
        assert isinstance(target, ClusterTarget)
        with replicated_topic(target, spread_replicas(partitions)) as name:
            started = time.perf_counter()
            for server in target.servers:
                server.stop()
            stopped = time.perf_counter()
            for server in target.servers:
                server.launch()
            for server in target.servers:
                server.wait_until_ready()
            ready_s = time.perf_counter() - stopped
            wait_until_in_sync(target, name)
            in_sync_s = time.perf_counter() - stopped
            metrics = {
                "stop s": stopped - started,
                "ready s": ready_s,
                "in-sync s": in_sync_s,
                "CPU s": target.cpu_s(),
            }
        return Measurement(f"{partitions} partitions", metrics)

    return load


def controller_id(target: ClusterTarget) -> int:
    request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
    address = target.servers[0].address
    return int(send_and_receive(address, ApiKey.METADATA, METADATA_VERSION, request).controller_id)


def _measure_failover(target: ClusterTarget, name: str, victim: int) -> dict[str, float]:
    victim_broker = target.servers[victim]
    survivors = [each for each in target.servers if each is not victim_broker]
    partitions = describe_partitions(survivors[0].address, name)
    led_partitions = {each.partition_index for each in partitions if each.leader_id == victim}
    with _watch_broker_node(target, victim) as node_deleted:
        killed_at = time.perf_counter()
        victim_broker.kill()
        if not node_deleted.wait(FAILOVER_TIMEOUT_S):
            raise LoadFailed(f"ZooKeeper has not expired the session of broker {victim}")
        deleted_at, cpu_before_s = time.perf_counter(), target.cpu_s()
        first, last = _wait_for_acks(survivors, name, led_partitions)
    return {
        "first ms": (first - deleted_at) * 1000,
        "all ms": (last - deleted_at) * 1000,
        "CPU s": target.cpu_s() - cpu_before_s,
        "session s": deleted_at - killed_at,
        "partitions led": len(led_partitions),
    }


@contextmanager
def _watch_broker_node(target: ClusterTarget, broker_id: int) -> Iterator[Event]:
    """Yield an event that is set when ZooKeeper deletes the znode of the broker."""
    node_deleted = Event()
    client = KazooClient(target.zookeeper)
    client.start()
    try:
        assert client.exists(f"/brokers/ids/{broker_id}", watch=lambda _: node_deleted.set())
        yield node_deleted
    finally:
        client.stop()
        client.close()


def _wait_for_acks(
    survivors: list[ClusterBroker], name: str, led_partitions: set[int]
) -> tuple[float, float]:
    """Return when the first of these partitions acknowledged a record, and when the last did.

    Until the first acknowledgement the requests contain one partition only: rejecting hundreds
    of partitions repeatedly would slow the brokers down.
    """
    missing, first = set(led_partitions), None
    deadline = time.perf_counter() + FAILOVER_TIMEOUT_S
    connections = [connect(each.address) for each in survivors]
    try:
        while missing:
            for connection in connections:
                connection.settimeout(FAILOVER_TIMEOUT_S)
                requested = {min(missing)} if first is None else missing
                connection.sendall(_encode_produce_request(name, requested))
                acked = _acked_partitions(
                    receive_response(connection, ApiKey.PRODUCE, PRODUCE_VERSION)
                )
                if acked and first is None:
                    first = time.perf_counter()
                missing -= acked
                if not missing:
                    break
            if time.perf_counter() > deadline:
                raise LoadFailed(f"{len(missing)} partition(s) do not accept records")
            time.sleep(POLL_INTERVAL_S)
    finally:
        for connection in connections:
            connection.close()
    assert first is not None
    return first, time.perf_counter()


def _encode_produce_request(name: str, partitions: set[int]) -> bytes:
    records = build_batch(10, batch_bytes=0).records
    entries = [
        ProduceRequest.Topic.Partition(index=each, records=records) for each in sorted(partitions)
    ]
    request = ProduceRequest(
        acks=ACKS_ALL,
        timeout_ms=PRODUCE_TIMEOUT_MS,
        topic_data=[ProduceRequest.Topic(name=name, partition_data=entries)],
    )
    return b"".join(request_frame(ApiKey.PRODUCE, PRODUCE_VERSION, 1, CLIENT_ID, request))


def _acked_partitions(response: Any) -> set[int]:
    (topic,) = response.responses
    return {each.index for each in topic.partition_responses if not each.error_code}


def _restart_broker(target: ClusterTarget, name: str, victim: int) -> None:
    """Restore the initial state: all replicas in sync, preferred replicas leading."""
    server = target.servers[victim]
    server.launch()
    server.wait_until_ready()
    wait_until_in_sync(target, name)
    request = ElectLeadersRequest(election_type=PREFERRED, topic_partitions=None)
    address = target.servers[controller_id(target)].address
    send_and_receive(address, ApiKey.ELECT_LEADERS, 1, request)
