"""Validation of reassignments, and the requests and responses that carry them.

    plan_reassignment   a partition and its target replicas -> ReplicaAssignment

plan_reassignment raises the KafkaError that Kafka returns.  It checks in Kafka's order, because a
request may contain several errors.  It also rejects a reassignment that would leave no in-sync
replica; Kafka of this version accepts that, and loses the partition's records.

The other functions parse AlterPartitionReassignments and ListPartitionReassignments requests, and
build their responses.  If a request names a partition twice, the last entry counts.

Owner: none; pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TypeVar

from odradek.controller.controller_context import ControllerContext
from odradek.controller.replica_assignment import ReplicaAssignment
from odradek.protocol.api.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from odradek.protocol.api.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import (
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    KafkaError,
    NoReassignmentInProgress,
    UnknownTopicOrPartition,
    code_of,
)
from odradek.protocol.types import TopicPartition

#: The target replicas of each partition; None cancels its reassignment.
ReassignmentTargets = Mapping[TopicPartition, tuple[int, ...] | None]
ReassignmentResults = Mapping[TopicPartition, KafkaError | None]
Value = TypeVar("Value")


def plan_reassignment(
    context: ControllerContext,
    partition: TopicPartition,
    target_replicas: Sequence[int] | None,
    *,
    allow_offline_brokers: bool = False,
    allow_replication_factor_change: bool = True,
) -> ReplicaAssignment:
    """Return the assignment during the reassignment; a target of None cancels it.

    Raises a KafkaError.  A request may add only live brokers.  The znode may also name brokers that
    are offline, because they may start later (``allow_offline_brokers``).  A request may forbid a
    change of the replication factor (KIP-860).
    """
    current = context.assignment(partition)
    if target_replicas is not None:
        _check_target_replicas(target_replicas)
        offline = (
            set(current.reassign_to(target_replicas).adding_replicas) - context.live_broker_ids
        )
        if offline and not allow_offline_brokers:
            raise InvalidReplicaAssignment(
                f"Replica assignment has brokers that are not alive: {sorted(offline)}."
            )
    elif not current.is_being_reassigned:
        raise NoReassignmentInProgress(f"No reassignment of {partition} is in progress.")
    if partition.topic in context.topics_to_be_deleted or not current.replicas:
        raise UnknownTopicOrPartition("The partition does not exist.")
    if target_replicas is not None and not allow_replication_factor_change:
        _check_replication_factor(current, target_replicas)
    new = current.reassign_to(
        current.origin_replicas if target_replicas is None else target_replicas
    )
    _check_isr_retained(context, partition, new)
    return new


def _check_target_replicas(target_replicas: Sequence[int]) -> None:
    if not target_replicas:
        raise InvalidReplicaAssignment(
            "Empty replica list in partition reassignment: at least one replica is required."
        )
    if len(set(target_replicas)) < len(target_replicas):
        raise InvalidReplicaAssignment(
            f"Duplicate broker ids in partition reassignment: {list(target_replicas)}."
        )
    if min(target_replicas) < 0:
        raise InvalidReplicaAssignment(
            f"Negative broker id in partition reassignment: {list(target_replicas)}."
        )


def _check_replication_factor(current: ReplicaAssignment, target_replicas: Sequence[int]) -> None:
    """Compare with the target of the reassignment in progress, if there is one."""
    if len(target_replicas) != len(current.target_replicas):
        raise InvalidReplicationFactor(
            f"The target has {len(target_replicas)} replicas, but the replication factor is "
            f"{len(current.target_replicas)} and the request does not allow to change it."
        )


def _check_isr_retained(
    context: ControllerContext, partition: TopicPartition, planned: ReplicaAssignment
) -> None:
    leadership = context.partition_leadership_info.get(partition)
    if leadership is not None and not set(leadership.isr).intersection(planned.replicas):
        raise InvalidReplicaAssignment(
            f"The target contains no replica of the ISR {list(leadership.isr)}: "
            "all records would be lost."
        )


# AlterPartitionReassignments


def parse_alter_request(request: AlterPartitionReassignmentsRequest) -> ReassignmentTargets:
    return {
        TopicPartition(topic.name, each.partition_index): (
            None if each.replicas is None else tuple(each.replicas)
        )
        for topic in request.topics
        for each in topic.partitions
    }


def build_alter_response(
    results: ReassignmentResults, *, allow_replication_factor_change: bool = True
) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(
        throttle_time_ms=0,
        allow_replication_factor_change=allow_replication_factor_change,
        error_code=ErrorCode.NONE.code,
        error_message="",
        responses=[
            AlterPartitionReassignmentsResponse.Topic(
                name=topic,
                partitions=[
                    AlterPartitionReassignmentsResponse.Topic.Partition(
                        partition_index=number,
                        error_code=code_of(error),
                        error_message=None if error is None else error.message,
                    )
                    for number, error in partitions.items()
                ],
            )
            for topic, partitions in _group_by_topic(results).items()
        ],
    )


# ListPartitionReassignments


def parse_list_request(
    request: ListPartitionReassignmentsRequest,
) -> tuple[TopicPartition, ...] | None:
    """Return the requested partitions; None means all."""
    if request.topics is None:
        return None
    return tuple(
        TopicPartition(topic.name, number)
        for topic in request.topics
        for number in topic.partition_indexes
    )


def build_list_response(
    reassignments: Mapping[TopicPartition, ReplicaAssignment],
) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(
        throttle_time_ms=0,
        error_code=ErrorCode.NONE.code,
        error_message="",
        topics=[
            ListPartitionReassignmentsResponse.Topic(
                name=topic,
                partitions=[
                    ListPartitionReassignmentsResponse.Topic.Partition(
                        partition_index=number,
                        replicas=list(assignment.replicas),
                        adding_replicas=list(assignment.adding_replicas),
                        removing_replicas=list(assignment.removing_replicas),
                    )
                    for number, assignment in partitions.items()
                ],
            )
            for topic, partitions in _group_by_topic(reassignments).items()
        ],
    )


def _group_by_topic(
    by_partition: Mapping[TopicPartition, Value],
) -> Mapping[str, Mapping[int, Value]]:
    groups: defaultdict[str, dict[int, Value]] = defaultdict(dict)
    for partition, value in by_partition.items():
        groups[partition.topic][partition.partition] = value
    return groups
