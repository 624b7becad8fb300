"""Finds the problems of partitions: offline, under-replicated, under min ISR.

A replica that a reassignment is adding does not count as missing yet, as in Kafka's tools.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from odradek.broker.cli.cluster_client import MetadataSnapshot, PartitionInfo
from odradek.broker.cli.partitions import TopicAndPartition
from odradek.broker.cli.reassign.reassignments import PartitionReassignment

OFFLINE, UNDER_REPLICATED, UNDER_MIN_ISR = "offline", "under-replicated", "under min ISR"


@dataclass(frozen=True, slots=True)
class Health:
    """The problems of each partition that has any."""

    problems: Mapping[TopicAndPartition, list[str]]

    def count(self, problem: str) -> int:
        return sum(problem in found for found in self.problems.values())


def check_health(
    snapshot: MetadataSnapshot,
    reassignments: Mapping[TopicAndPartition, PartitionReassignment] = {},
    min_isr: Mapping[str, int] = {},
) -> Health:
    """``min_isr`` maps topics to their min.insync.replicas."""
    problems = {
        topic_partition: _find_problems(
            partition, reassignments.get(topic_partition), min_isr.get(topic_partition.topic, 0)
        )
        for topic_partition, partition in snapshot.partitions.items()
    }
    return Health({topic_partition: found for topic_partition, found in problems.items() if found})


def _find_problems(
    partition: PartitionInfo, reassignment: PartitionReassignment | None, min_isr: int
) -> list[str]:
    expected = set(partition.replicas if reassignment is None else reassignment.original_replicas)
    problems = []
    if partition.leader is None:
        problems.append(OFFLINE)
    if expected.difference(partition.isr):
        problems.append(UNDER_REPLICATED)
    # As in a leader: the number of replicas limits the effective min ISR.
    if len(partition.isr) < min(min_isr, len(partition.replicas)):
        problems.append(UNDER_MIN_ISR)
    return problems
