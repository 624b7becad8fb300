"""UpdateMetadata: the controller sends the cluster metadata, or changes of it.

Kafka honours ``type`` FULL only in a migration to KRaft; this broker always honours it.

A broker whose session expired, but which keeps running, did not receive StopReplica for partitions
that were reassigned meanwhile.  UpdateMetadata tells it to drop them.  (A Kafka broker continues to
lead them, in an old leader epoch.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from odradek.broker.handlers.leader_and_isr import Fence, check_epochs
from odradek.broker.request import Request
from odradek.protocol.api.update_metadata import (
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.types import ZERO_UUID, TopicPartition, Uuid


class ClusterMetadata(Protocol):
    """The part of the metadata cache that this handler updates."""

    def update(self, request: UpdateMetadataRequest, /) -> Sequence[TopicPartition]: ...


class HostedPartitions(Protocol):
    """The part of the replica manager that drops reassigned partitions."""

    def drop_if_reassigned(
        self,
        partition: TopicPartition,
        topic_id: Uuid | None,
        state: UpdateMetadataPartitionState,
        /,
    ) -> None: ...


def handle(
    metadata_cache: ClusterMetadata,
    replica_manager: HostedPartitions,
    controller_fence: Fence,
    on_partitions_deleted: Callable[[Sequence[TopicPartition]], None],
    request: Request[UpdateMetadataRequest],
) -> UpdateMetadataResponse:
    """``on_partitions_deleted`` is called with the deleted partitions, if there are any."""
    body = request.body
    check_epochs(controller_fence, body)
    deleted = metadata_cache.update(body)
    for partition, topic_id, state in _states(body):
        replica_manager.drop_if_reassigned(partition, topic_id, state)
    if deleted:
        on_partitions_deleted(deleted)
    return UpdateMetadataResponse(error_code=ErrorCode.NONE.code)


def _states(
    body: UpdateMetadataRequest,
) -> Iterator[tuple[TopicPartition, Uuid | None, UpdateMetadataPartitionState]]:
    """Yield each state with the id of its topic, if the request has it."""
    for state in body.ungrouped_partition_states:
        yield TopicPartition(state.topic_name, state.partition_index), None, state
    for topic in body.topic_states:
        topic_id = topic.topic_id if topic.topic_id != ZERO_UUID else None
        for state in topic.partition_states:
            yield TopicPartition(topic.topic_name, state.partition_index), topic_id, state
