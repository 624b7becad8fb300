"""Records to topics of three replicas, acknowledged by all in sync, against topics of one.

One partition, whose leader is sent raw requests; the same broker leads both topics.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count

from broker_clients import LoadFailed, Served
from broker_figures import (
    ADMIN_TIMEOUT_S,
    POLL_INTERVAL_S,
    TOPIC_SETTINGS,
    Load,
    Measured,
    Tools,
    costed,
)
from broker_raw import ask, batch_of, produce_frame, produce_verdict
from broker_raw_loads import Shape, driven, served
from broker_sides import Side, at
from cluster_sides import BROKERS, ClusterSide
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.protocol.api.metadata import MetadataRequest, MetadataResponse
from odradek.protocol.api_keys import ApiKey

METADATA_VERSION = 7
ALL = -1
CREATE_TIMEOUT_S = 120.0
#: Of the topics that are compared.
LEADER = 0
_numbers = count(1)

Partition = MetadataResponse.Topic.Partition


def replicated(shape: Shape) -> Load:
    def load(side: Side, tools: Tools) -> Measured:
        assert isinstance(side, ClusterSide)
        three = _produced(side, shape, tools.seconds, [LEADER, 1, 2])
        one = _produced(side, shape, tools.seconds, [LEADER])
        figures = dict(three.figures)
        for figure in ("MB/s", "p50 ms", "p99 ms"):
            if figure in one.figures:
                figures[f"alone {figure}"] = one.figures[figure]
        figures["alone"] = one.figures["req/s"]
        figures["share"] = figures["req/s"] / figures["alone"]
        return Measured(three.driver, figures)

    return load


def _produced(side: ClusterSide, shape: Shape, seconds: float, replicas: list[int]) -> Measured:
    batch = batch_of(shape.record_bytes, batch_bytes=shape.batch_bytes)
    with replicated_topic(side, {0: replicas}) as name:
        frames = (produce_frame(name, 0, batch, acks=ALL),)
        leader = at(side.servers[LEADER].address, None)

        def run() -> Served:
            outcome = driven(leader, frames, produce_verdict(name), shape, seconds)
            return served(shape, outcome, outcome.requests * batch.count)

        return costed(side, run)


def spread(partitions: int) -> dict[int, list[int]]:
    """Three replicas of each, evenly led."""
    return {
        number: [(number + step) % BROKERS for step in range(BROKERS)]
        for number in range(partitions)
    }


@contextmanager
def replicated_topic(side: ClusterSide, replicas: Mapping[int, list[int]]) -> Iterator[str]:
    """A topic of this name, all in sync and led by the first of its replicas, until the end.

    It stays if a measure fails: who did not answer to that would not delete it either.
    """
    name = f"benchmark-{time.time_ns() // 1_000_000 % 10**9}-{next(_numbers)}"
    wanted = NewTopic(
        name,
        len(replicas),
        replica_assignment=[replicas[number] for number in sorted(replicas)],
        config=TOPIC_SETTINGS,
    )
    admin = _admin(side)  # kept: with it goes the connection
    admin.create_topics([wanted], request_timeout=CREATE_TIMEOUT_S)[name].result(CREATE_TIMEOUT_S)
    wait_until_whole(side, name)
    yield name
    admin = _admin(side)  # a new one, as another broker may be the controller by now
    admin.delete_topics([name])[name].result(ADMIN_TIMEOUT_S)


def _admin(side: ClusterSide) -> AdminClient:
    return AdminClient({"bootstrap.servers": side.bootstrap, "log_level": 0})


def partitions_of(address: str, name: str) -> list[Partition]:
    """As the broker at this address knows them."""
    asked = [MetadataRequest.Topic(name=name)]
    request = MetadataRequest(topics=asked, allow_auto_topic_creation=False)
    (found,) = ask(address, ApiKey.METADATA, METADATA_VERSION, request).topics
    return list(found.partitions)


def wait_until_whole(side: ClusterSide, name: str, *, timeout_s: float = CREATE_TIMEOUT_S) -> None:
    """All replicas of all partitions are in sync, by what every broker says."""
    deadline = time.monotonic() + timeout_s
    for server in side.servers:
        asked = time.monotonic()
        while not _is_whole(server.address, name):
            now = time.monotonic()
            if now > deadline:
                raise LoadFailed(f"{name} is not in sync after {timeout_s:.0f} s")
            # To tell of a thousand partitions takes its time, which is not to be what is measured.
            time.sleep(min(0.5, max(POLL_INTERVAL_S, 10 * (now - asked))))
            asked = time.monotonic()


def _is_whole(address: str, name: str) -> bool:
    found = partitions_of(address, name)
    return bool(found) and all(
        each.leader_id >= 0 and len(each.isr_nodes) == len(each.replica_nodes) for each in found
    )
