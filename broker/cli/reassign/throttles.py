"""Sets and removes replication throttles, with the same settings as kafka-reassign-partitions.

    topic     leader.replication.throttled.replicas     ``0:1,0:2``: the original replicas of
                                                        partition 0, throttled as leaders
              follower.replication.throttled.replicas   the new replicas, throttled as followers
    broker    leader.replication.throttled.rate         bytes per second of all those replicas
              follower.replication.throttled.rate

A broker's settings are altered at the broker, so an offline broker keeps them until it is back.
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

#: The new value of each setting; None deletes the setting.
ConfigChanges = Mapping[str, str | None]


class PartitionMove(NamedTuple):
    """The brokers that a partition is fetched from, and the brokers that fetch it."""

    sources: tuple[int, ...]
    destinations: tuple[int, ...]


def calculate_moves(
    plan: Plan,
    current: Mapping[TopicAndPartition, tuple[int, ...]],
    reassignments: Mapping[TopicAndPartition, PartitionReassignment],
) -> dict[TopicAndPartition, PartitionMove]:
    """Return the moves of the plan, and those of other ongoing reassignments."""
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
    """Return the brokers that are throttled now."""
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
    """Remove the throttles of these topics and of every live broker."""
    for broker in sorted((await cluster.fetch_metadata([])).brokers):
        await _alter_broker(cluster, broker, dict.fromkeys(THROTTLED_RATES))
    for topic in sorted(topics):
        await _alter_topic(
            cluster, topic, dict.fromkeys((LEADER_THROTTLED_REPLICAS, FOLLOWER_THROTTLED_REPLICAS))
        )


async def throttled_topics(cluster: ClusterClient, topics: Iterable[str]) -> list[str]:
    """Return the topics with throttled replicas; throttles of brokers are not looked up."""
    settings = await fetch_topic_settings(
        cluster, sorted(topics), [LEADER_THROTTLED_REPLICAS, FOLLOWER_THROTTLED_REPLICAS]
    )
    return [topic for topic, values in settings.items() if any(values.values())]


def _throttled_replicas_by_topic(
    moves: Mapping[TopicAndPartition, PartitionMove],
) -> dict[str, ConfigChanges]:
    """A partition without new replicas is not throttled."""
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
