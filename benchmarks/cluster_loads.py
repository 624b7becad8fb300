"""Produces with acks=all to topics with three replicas, compared with topics with one replica.

The raw requests go to the leader of one partition.  The same broker leads both topics.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count

from broker_targets import Target, existing_broker
from client_drivers import LoadFailed, LoadResult
from cluster_targets import BROKER_COUNT, ClusterTarget
from confluent_kafka.admin import AdminClient, NewTopic
from measurement import (
    ADMIN_TIMEOUT_S,
    POLL_INTERVAL_S,
    TOPIC_SETTINGS,
    Load,
    LoadOptions,
    Measurement,
    measure_load,
)
from raw_driver import build_batch, produce_error_code_position, produce_frame, send_and_receive
from raw_loads import LoadShape, run_raw_load_in_process, to_load_result

from odradek.protocol.api.metadata import MetadataRequest, MetadataResponse
from odradek.protocol.api_keys import ApiKey

METADATA_VERSION = 7
ACKS_ALL = -1
CREATE_TIMEOUT_S = 120.0
#: The leader of the topics that are compared.
LEADER_ID = 0
_topic_numbers = count(1)

Partition = MetadataResponse.Topic.Partition


def produce_replicated(shape: LoadShape) -> Load:
    def load(target: Target, options: LoadOptions) -> Measurement:
        assert isinstance(target, ClusterTarget)
        replicated = _run_produce(target, shape, options.seconds, [LEADER_ID, 1, 2])
        single = _run_produce(target, shape, options.seconds, [LEADER_ID])
        metrics = dict(replicated.metrics)
        for metric in ("MB/s", "p50 ms", "p99 ms"):
            if metric in single.metrics:
                metrics[f"baseline {metric}"] = single.metrics[metric]
        metrics["baseline"] = single.metrics["req/s"]
        metrics["share"] = metrics["req/s"] / metrics["baseline"]
        return Measurement(replicated.driver, metrics)

    return load


def _run_produce(
    target: ClusterTarget, shape: LoadShape, seconds: float, replicas: list[int]
) -> Measurement:
    batch = build_batch(shape.record_bytes, batch_bytes=shape.batch_bytes)
    with replicated_topic(target, {0: replicas}) as name:
        frames = (produce_frame(name, 0, batch, acks=ACKS_ALL),)
        leader = existing_broker(target.servers[LEADER_ID].address, None)

        def run() -> LoadResult:
            result = run_raw_load_in_process(
                leader, frames, produce_error_code_position(name), shape, seconds
            )
            return to_load_result(shape, result, result.requests * batch.count)

        return measure_load(target, run)


def spread_replicas(partitions: int) -> dict[int, list[int]]:
    """Assign three replicas to each partition, with leaders spread evenly."""
    return {
        number: [(number + step) % BROKER_COUNT for step in range(BROKER_COUNT)]
        for number in range(partitions)
    }


@contextmanager
def replicated_topic(target: ClusterTarget, replicas: Mapping[int, list[int]]) -> Iterator[str]:
    """Create a topic, yield its name once all replicas are in sync, and delete it at the end.

    The first replica of each partition leads it.  The topic is not deleted if a benchmark fails,
    because brokers that failed there would not delete it either.
    """
    name = f"benchmark-{time.time_ns() // 1_000_000 % 10**9}-{next(_topic_numbers)}"
    new_topic = NewTopic(
        name,
        len(replicas),
        replica_assignment=[replicas[number] for number in sorted(replicas)],
        config=TOPIC_SETTINGS,
    )
    admin = _admin_client(target)  # a variable: the connection closes with the object
    admin.create_topics([new_topic], request_timeout=CREATE_TIMEOUT_S)[name].result(
        CREATE_TIMEOUT_S
    )
    wait_until_in_sync(target, name)
    yield name
    admin = _admin_client(target)  # a new client: the controller may have moved
    admin.delete_topics([name])[name].result(ADMIN_TIMEOUT_S)


def _admin_client(target: ClusterTarget) -> AdminClient:
    return AdminClient({"bootstrap.servers": target.bootstrap, "log_level": 0})


def describe_partitions(address: str, name: str) -> list[Partition]:
    """Return the partitions of a topic from the metadata of the broker at this address."""
    topics = [MetadataRequest.Topic(name=name)]
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
    (topic,) = send_and_receive(address, ApiKey.METADATA, METADATA_VERSION, request).topics
    return list(topic.partitions)


def wait_until_in_sync(
    target: ClusterTarget, name: str, *, timeout_s: float = CREATE_TIMEOUT_S
) -> None:
    """Wait until the metadata of every broker shows all replicas of all partitions in the ISR."""
    deadline = time.monotonic() + timeout_s
    for server in target.servers:
        requested_at = time.monotonic()
        while not _is_in_sync(server.address, name):
            now = time.monotonic()
            if now > deadline:
                raise LoadFailed(f"{name} is not in sync after {timeout_s:.0f} s")
            # Metadata of a thousand partitions is expensive; polling must not affect the result.
            time.sleep(min(0.5, max(POLL_INTERVAL_S, 10 * (now - requested_at))))
            requested_at = time.monotonic()


def _is_in_sync(address: str, name: str) -> bool:
    partitions = describe_partitions(address, name)
    return bool(partitions) and all(
        each.leader_id >= 0 and len(each.isr_nodes) == len(each.replica_nodes)
        for each in partitions
    )
