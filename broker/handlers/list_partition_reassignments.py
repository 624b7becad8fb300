"""ListPartitionReassignments: list the reassignments in progress."""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Mapping
from typing import Protocol

from odradek.broker.request import Request
from odradek.controller.reassignment_requests import build_list_response, parse_list_request
from odradek.controller.replica_assignment import ReplicaAssignment
from odradek.protocol.api.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from odradek.protocol.types import TopicPartition


class Controller(Protocol):
    """The part of the controller that lists reassignments."""

    async def list_partition_reassignments(
        self, partitions: Collection[TopicPartition] | None, /
    ) -> Mapping[TopicPartition, ReplicaAssignment]: ...


def handle(
    controller: Controller, request: Request[ListPartitionReassignmentsRequest]
) -> Awaitable[ListPartitionReassignmentsResponse]:
    return _list(controller, request.body)


async def _list(
    controller: Controller, body: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    return build_list_response(
        await controller.list_partition_reassignments(parse_list_request(body))
    )
