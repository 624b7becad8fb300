"""What is asked of reassignments, checked: may it be done, and what will be assigned then?

    decide_assignment   a partition and where it shall go -> Assignment

raises the KafkaError that Kafka answers, and looks for mistakes in Kafka's order, since a request
may contain several.  What would leave a partition without any replica in sync is refused, which
Kafka of this version would do and lose its records by.

The rest is AlterPartitionReassignments and ListPartitionReassignments as they travel: of a
partition that is named twice the last word counts.

Owner: none; pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TypeVar

from odradek.controller.assignment import Assignment
from odradek.controller.context import Context
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

#: Where each partition shall go; None: back to where it was.
Targets = Mapping[TopicPartition, tuple[int, ...] | None]
Outcomes = Mapping[TopicPartition, KafkaError | None]
Of = TypeVar("Of")


def decide_assignment(
    context: Context,
    partition: TopicPartition,
    target: Sequence[int] | None,
    *,
    may_wait_for_brokers: bool = False,
    may_change_factor: bool = True,
) -> Assignment:
    """On the way to the target; None cancels.  Raises a KafkaError.

    Requests may add only brokers that are alive.  The node may name others: they may come yet.
    Requests may say that there shall be no more and no fewer replicas than before (KIP-860).
    """
    now = context.assignment(partition)
    if target is not None:
        _check_brokers(target)
        absent = set(now.reassigned_to(target).adding) - context.live_brokers
        if absent and not may_wait_for_brokers:
            raise InvalidReplicaAssignment(f"Brokers {sorted(absent)} are not alive.")
    elif not now.is_being_reassigned:
        raise NoReassignmentInProgress(f"{partition} is not being reassigned.")
    if partition.topic in context.to_delete or not now.replicas:
        raise UnknownTopicOrPartition("The partition does not exist.")
    if target is not None and not may_change_factor:
        _check_factor(now, target)
    new = now.reassigned_to(now.origin if target is None else target)
    _check_in_sync(context, partition, new)
    return new


def _check_brokers(target: Sequence[int]) -> None:
    if not target:
        raise InvalidReplicaAssignment("A partition needs at least one replica.")
    if len(set(target)) < len(target):
        raise InvalidReplicaAssignment(f"A broker is named twice: {list(target)}.")
    if min(target) < 0:
        raise InvalidReplicaAssignment(f"There are no brokers below zero: {list(target)}.")


def _check_factor(now: Assignment, target: Sequence[int]) -> None:
    """Against what a reassignment under way would lead to, if there is one."""
    if len(target) != len(now.target):
        raise InvalidReplicationFactor(
            f"There would be {len(target)} replicas and not {len(now.target)} as before."
        )


def _check_in_sync(context: Context, partition: TopicPartition, new: Assignment) -> None:
    leadership = context.leaderships.get(partition)
    if leadership is not None and not set(leadership.isr).intersection(new.replicas):
        raise InvalidReplicaAssignment(
            f"Only {list(leadership.isr)} are in sync, and none of them would be left."
        )


# AlterPartitionReassignments


def targets(request: AlterPartitionReassignmentsRequest) -> Targets:
    return {
        TopicPartition(topic.name, each.partition_index): (
            None if each.replicas is None else tuple(each.replicas)
        )
        for topic in request.topics
        for each in topic.partitions
    }


def answer(
    outcomes: Outcomes, *, may_change_factor: bool = True
) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(
        throttle_time_ms=0,
        allow_replication_factor_change=may_change_factor,
        error_code=ErrorCode.NONE.code,
        error_message="",
        responses=[
            AlterPartitionReassignmentsResponse.Topic(
                name=topic,
                partitions=[
                    AlterPartitionReassignmentsResponse.Topic.Partition(
                        partition_index=number,
                        error_code=code_of(failure),
                        error_message=None if failure is None else failure.message,
                    )
                    for number, failure in partitions.items()
                ],
            )
            for topic, partitions in _by_topic(outcomes).items()
        ],
    )


# ListPartitionReassignments


def asked_for(request: ListPartitionReassignmentsRequest) -> tuple[TopicPartition, ...] | None:
    """None: all of them."""
    if request.topics is None:
        return None
    return tuple(
        TopicPartition(topic.name, number)
        for topic in request.topics
        for number in topic.partition_indexes
    )


def listing(
    under_way: Mapping[TopicPartition, Assignment],
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
                        adding_replicas=list(assignment.adding),
                        removing_replicas=list(assignment.removing),
                    )
                    for number, assignment in partitions.items()
                ],
            )
            for topic, partitions in _by_topic(under_way).items()
        ],
    )


def _by_topic(by_partition: Mapping[TopicPartition, Of]) -> Mapping[str, Mapping[int, Of]]:
    groups: defaultdict[str, dict[int, Of]] = defaultdict(dict)
    for partition, each in by_partition.items():
        groups[partition.topic][partition.partition] = each
    return groups
