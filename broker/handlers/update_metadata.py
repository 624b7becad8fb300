"""UpdateMetadata: the controller sends the picture of the cluster, or what has changed in it.

Kafka obeys ``type`` FULL only where a cluster moves to KRaft; here it means what it says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from odradek.broker.call import Call
from odradek.broker.handlers.leader_and_isr import Fence, check_fence
from odradek.protocol.api.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.types import TopicPartition


class Cluster(Protocol):
    """Where the picture is kept."""

    def update(self, request: UpdateMetadataRequest, /) -> Sequence[TopicPartition]: ...


def handle(
    cluster: Cluster,
    fence: Fence,
    partitions_deleted: Callable[[Sequence[TopicPartition]], None],
    call: Call[UpdateMetadataRequest],
) -> UpdateMetadataResponse:
    """``partitions_deleted`` is told what is gone, if anything is."""
    request = call.request
    check_fence(fence, request)
    deleted = cluster.update(request)
    if deleted:
        partitions_deleted(deleted)
    return UpdateMetadataResponse(error_code=ErrorCode.NONE.code)
