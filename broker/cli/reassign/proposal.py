"""Generates a plan: assigns the replicas of topics to brokers.

The algorithm is that of new topics (``controller/replica_placement.py``), which spreads leaders and
followers evenly.  Each topic starts at a random broker and keeps its replication factor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from odradek.broker.cli.cluster_client import MetadataSnapshot, group_by_topic
from odradek.broker.cli.errors import CommandFailed
from odradek.broker.cli.partitions import TopicAndPartition
from odradek.broker.cli.reassign.plans import Plan


def generate_plan(
    snapshot: MetadataSnapshot,
    brokers: Sequence[int],
    *,
    is_rack_aware: bool = True,
    random: Random,
) -> Plan:
    """Return a plan for all partitions of the snapshot; raises CommandFailed."""
    from odradek.controller.replica_placement import PlacementStart, assign_replicas_to_brokers
    from odradek.protocol.errors import KafkaError

    racks = _racks(snapshot, brokers, is_rack_aware=is_rack_aware)
    plan: Plan = {}
    for topic, numbers in group_by_topic(snapshot.partitions).items():
        first = snapshot.partitions[TopicAndPartition(topic, numbers[0])]
        try:
            assignment = assign_replicas_to_brokers(
                racks,
                PlacementStart.draw(random, racks),
                partition_count=len(numbers),
                replication_factor=len(first.replicas),
            )
        except KafkaError as error:
            hint = (
                "; --disable-rack-aware ignores racks"
                if is_rack_aware and _has_racks(racks)
                else ""
            )
            raise CommandFailed(f"{topic}: {error.message}{hint}") from error
        plan |= {
            TopicAndPartition(topic, number): replicas for number, replicas in assignment.items()
        }
    return plan


def _racks(
    snapshot: MetadataSnapshot, brokers: Sequence[int], *, is_rack_aware: bool
) -> Mapping[int, str | None]:
    unknown = [each for each in brokers if each not in snapshot.brokers]
    if unknown:
        raise CommandFailed(f"broker {unknown[0]}: there is no such broker")
    return {each: snapshot.brokers[each].rack if is_rack_aware else None for each in brokers}


def _has_racks(racks: Mapping[int, str | None]) -> bool:
    return any(racks.values())
