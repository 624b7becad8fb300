"""UpdateMetadata: the controller sends the picture of the cluster, or what has changed in it.

Kafka obeys ``type`` FULL only where a cluster moves to KRaft; here it means what it says.

A broker whose session was over, and that lives on, was not there to be told to stop what was given
to others meanwhile: the picture tells it.  (Kafka's goes on to lead it, in an epoch that is over.)
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
    """Where the picture is kept."""

    def update(self, request: UpdateMetadataRequest, /) -> Sequence[TopicPartition]: ...


class HostedPartitions(Protocol):
    """Whoever has to know which of its partitions are others' by now."""

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
    """``partitions_deleted`` is told what is gone, if anything is."""
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
    """Each with the id of its topic, if that is told."""
    for state in body.ungrouped_partition_states:
        yield TopicPartition(state.topic_name, state.partition_index), None, state
    for topic in body.topic_states:
        topic_id = topic.topic_id if topic.topic_id != ZERO_UUID else None
        for state in topic.partition_states:
            yield TopicPartition(topic.topic_name, state.partition_index), topic_id, state
