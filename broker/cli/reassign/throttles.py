"""How fast replicas may move: settings that kafka-reassign-partitions sets and removes too.

    of a topic    leader.replication.throttled.replicas     who is slowed down when it is read:
                                                            ``0:1,0:2``, where partition 0 was
                  follower.replication.throttled.replicas   and when it reads: where it will be
    of a broker   leader.replication.throttled.rate         bytes in a second, of all of those
                  follower.replication.throttled.rate

A broker's are changed by itself, so one that is gone keeps them until it is back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from odradek.broker.cli.cluster_client import ClusterClient, format_error
from odradek.broker.cli.errors import CommandFailed
from odradek.broker.cli.partitions import TopicAndPartition
from odradek.broker.cli.reassign.plans import Plan
from odradek.broker.cli.reassign.reassignments import PartitionReassignment
from odradek.broker.cli.topic_settings import fetch_topic_settings

LEADER_THROTTLED_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_THROTTLED_REPLICAS = "follower.replication.throttled.replicas"
THROTTLED_RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
SET, DELETE = 0, 1

#: A value for each setting; None: none any more.
ConfigChanges = Mapping[str, str | None]


class PartitionMove(NamedTuple):
    """Of a partition: which brokers it is read from, and which ones read it."""

    sources: tuple[int, ...]
    destinations: tuple[int, ...]


def calculate_moves(
    plan: Plan,
    current: Mapping[TopicAndPartition, tuple[int, ...]],
    reassignments: Mapping[TopicAndPartition, PartitionReassignment],
) -> dict[TopicAndPartition, PartitionMove]:
    """Those of a plan, and those under way that it leaves alone."""
    moves = {
        partition: PartitionMove(each.original_replicas, each.adding_replicas)
        for partition, each in reassignments.items()
    }
    for partition, replicas in plan.items():
        sources = (
            reassignments[partition].original_replicas
            if partition in reassignments
            else current[partition]
        )
        destinations = tuple(each for each in replicas if each not in sources)
        moves[partition] = PartitionMove(sources, destinations)
    return moves


async def apply_throttles(
    cluster: ClusterClient, moves: Mapping[TopicAndPartition, PartitionMove], rate: int
) -> list[int]:
    """The brokers that are throttled now."""
    for topic, changes in _throttled_replicas_by_topic(moves).items():
        await _alter_topic(cluster, topic, changes)
    brokers = sorted(
        {each for move in moves.values() for each in (*move.sources, *move.destinations)}
    )
    alive = (await cluster.fetch_metadata([])).brokers
    throttled = [each for each in brokers if each in alive]
    for broker in throttled:
        await _alter_broker(cluster, broker, dict.fromkeys(THROTTLED_RATES, str(rate)))
    return throttled


async def remove_throttles(cluster: ClusterClient, topics: Iterable[str]) -> None:
    """From these topics, and from every broker that is there."""
    for broker in sorted((await cluster.fetch_metadata([])).brokers):
        await _alter_broker(cluster, broker, dict.fromkeys(THROTTLED_RATES))
    for topic in sorted(topics):
        await _alter_topic(
            cluster, topic, dict.fromkeys((LEADER_THROTTLED_REPLICAS, FOLLOWER_THROTTLED_REPLICAS))
        )


async def throttled_topics(cluster: ClusterClient, topics: Iterable[str]) -> list[str]:
    """Those of them whose replicas are; of brokers nobody tells."""
    settings = await fetch_topic_settings(
        cluster, sorted(topics), [LEADER_THROTTLED_REPLICAS, FOLLOWER_THROTTLED_REPLICAS]
    )
    return [topic for topic, values in settings.items() if any(values.values())]


def _throttled_replicas_by_topic(
    moves: Mapping[TopicAndPartition, PartitionMove],
) -> dict[str, ConfigChanges]:
    """A partition that nobody new reads is throttled nowhere."""
    by_topic: dict[str, dict[str, list[str]]] = {}
    for partition, move in sorted(moves.items()):
        if move.destinations:
            throttled = by_topic.setdefault(
                partition.topic, {LEADER_THROTTLED_REPLICAS: [], FOLLOWER_THROTTLED_REPLICAS: []}
            )
            throttled[LEADER_THROTTLED_REPLICAS] += [
                f"{partition.partition}:{each}" for each in move.sources
            ]
            throttled[FOLLOWER_THROTTLED_REPLICAS] += [
                f"{partition.partition}:{each}" for each in move.destinations
            ]
    return {
        topic: {name: ",".join(replicas) for name, replicas in throttled.items()}
        for topic, throttled in by_topic.items()
    }


async def _alter_topic(cluster: ClusterClient, topic: str, changes: ConfigChanges) -> None:
    request = _alter_configs_request(TOPIC_RESOURCE, topic, changes)
    response = await cluster.send_to_controller(request, version=0, error_codes=_error_codes)
    _check_errors(response, f"topic {topic}")


async def _alter_broker(cluster: ClusterClient, broker_id: int, changes: ConfigChanges) -> None:
    request = _alter_configs_request(BROKER_RESOURCE, str(broker_id), changes)
    _check_errors(
        await cluster.send_to_broker(broker_id, request, version=0), f"broker {broker_id}"
    )


def _alter_configs_request(resource_type: int, name: str, changes: ConfigChanges) -> Any:
    from odradek.protocol.api.incremental_alter_configs import IncrementalAlterConfigsRequest

    resource_entry = IncrementalAlterConfigsRequest.Resource
    configs = [
        resource_entry.Config(
            name=setting, config_operation=DELETE if value is None else SET, value=value
        )
        for setting, value in changes.items()
    ]
    resource = resource_entry(resource_type=resource_type, resource_name=name, configs=configs)
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)


def _error_codes(response: Any) -> list[int]:
    return [each.error_code for each in response.responses]


def _check_errors(response: Any, subject: str) -> None:
    for each in response.responses:
        if each.error_code:
            raise CommandFailed(f"{subject}: {format_error(each.error_code, each.error_message)}")
