"""Starts, cancels and lists reassignments, and finds the state of each partition of a plan."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, NamedTuple

from odradek.broker.cli.cluster_client import (
    ClusterClient,
    check_error,
    format_error,
    group_by_topic,
)
from odradek.broker.cli.partitions import TopicAndPartition
from odradek.broker.cli.reassign.log_dirs import describe_replicas
from odradek.broker.cli.reassign.plans import LogDirs, ReassignmentPlan, TopicPartitionReplica

#: The controller's timeout is this much shorter than the timeout of the request.
TIMEOUT_MARGIN_MS = 1000


class PartitionReassignment(NamedTuple):
    """``replicas`` has the original replicas and the target replicas until the end."""

    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]

    @property
    def original_replicas(self) -> tuple[int, ...]:
        return tuple(each for each in self.replicas if each not in self.adding_replicas)


class ReassignmentState(Enum):
    """The state of a partition, compared with the plan."""

    MOVED = "moved"
    MOVING = "moving"
    ELSEWHERE = "elsewhere"


async def list_reassignments(
    cluster: ClusterClient,
) -> dict[TopicAndPartition, PartitionReassignment]:
    """Return all reassignments that the controller knows."""
    from odradek.protocol.api.list_partition_reassignments import ListPartitionReassignmentsRequest

    request = ListPartitionReassignmentsRequest(timeout_ms=_timeout_ms(cluster))
    response = await cluster.send_to_controller(
        request, version=0, error_codes=lambda response: [response.error_code]
    )
    check_error(response.error_code, response.error_message, subject="reassignments")
    return {
        TopicAndPartition(topic.name, each.partition_index): PartitionReassignment(
            tuple(each.replicas), tuple(each.adding_replicas), tuple(each.removing_replicas)
        )
        for topic in response.topics
        for each in topic.partitions
    }


async def alter_reassignments(
    cluster: ClusterClient, targets: Mapping[TopicAndPartition, tuple[int, ...] | None]
) -> dict[TopicAndPartition, str]:
    """Start reassignments, or cancel them where the target is None.

    Return an error message for each partition that failed.
    """
    from odradek.protocol.api.alter_partition_reassignments import (
        AlterPartitionReassignmentsRequest,
    )

    topic_entry = AlterPartitionReassignmentsRequest.Topic
    topics = [
        topic_entry(
            name=topic,
            partitions=[
                topic_entry.Partition(
                    partition_index=number, replicas=_target_replicas(targets, topic, number)
                )
                for number in numbers
            ],
        )
        for topic, numbers in group_by_topic(targets).items()
    ]
    request = AlterPartitionReassignmentsRequest(timeout_ms=_timeout_ms(cluster), topics=topics)
    response = await cluster.send_to_controller(request, version=0, error_codes=_error_codes)
    check_error(response.error_code, response.error_message, subject="reassignments")
    return {
        TopicAndPartition(topic.name, each.partition_index): format_error(
            each.error_code, each.error_message
        )
        for topic in response.responses
        for each in topic.partitions
        if each.error_code
    }


async def reassignment_states(
    cluster: ClusterClient, plan: ReassignmentPlan
) -> dict[TopicAndPartition, ReassignmentState]:
    """Return the state of each partition of a plan."""
    ongoing = await list_reassignments(cluster)
    partitions = (await cluster.fetch_metadata(group_by_topic(plan.replicas))).partitions
    states = {}
    for partition, replicas in plan.replicas.items():
        if partition in ongoing:
            states[partition] = ReassignmentState.MOVING
        else:
            current = partitions[partition].replicas if partition in partitions else ()
            states[partition] = (
                ReassignmentState.MOVED if current == replicas else ReassignmentState.ELSEWHERE
            )
    for at, state in (await _log_dir_states(cluster, plan.log_dirs)).items():
        if states[at.topic_partition] is ReassignmentState.MOVED:
            states[at.topic_partition] = state
    return states


async def _log_dir_states(
    cluster: ClusterClient, log_dirs: LogDirs
) -> dict[TopicPartitionReplica, ReassignmentState]:
    """Return the state of each replica that is not in its target directory."""
    states = {}
    for at, replicas in (await describe_replicas(cluster, log_dirs)).items():
        in_target = [each for each in replicas if each.log_dir == log_dirs[at]]
        if not in_target:
            states[at] = ReassignmentState.ELSEWHERE
        elif any(each.is_future for each in in_target):
            states[at] = ReassignmentState.MOVING
    return states


def _target_replicas(
    targets: Mapping[TopicAndPartition, tuple[int, ...] | None], topic: str, partition: int
) -> list[int] | None:
    target = targets[TopicAndPartition(topic, partition)]
    return None if target is None else list(target)


def _error_codes(response: Any) -> list[int]:
    partitions = [each for topic in response.responses for each in topic.partitions]
    return [response.error_code, *(each.error_code for each in partitions)]


def _timeout_ms(cluster: ClusterClient) -> int:
    return max(1, int(cluster.timeout_s * 1000) - TIMEOUT_MARGIN_MS)
