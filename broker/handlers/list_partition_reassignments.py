"""ListPartitionReassignments: the reassignments under way."""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Mapping
from typing import Protocol

from odradek.broker.call import Call
from odradek.controller.assignment import Assignment
from odradek.controller.reassignment_requests import asked_for, listing
from odradek.protocol.api.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from odradek.protocol.types import TopicPartition


class Controller(Protocol):
    """The part of the controller that knows what is under way."""

    async def reassignments(
        self, partitions: Collection[TopicPartition] | None, /
    ) -> Mapping[TopicPartition, Assignment]: ...


def handle(
    controller: Controller, call: Call[ListPartitionReassignmentsRequest]
) -> Awaitable[ListPartitionReassignmentsResponse]:
    return _listed(controller, call.request)


async def _listed(
    controller: Controller, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    return listing(await controller.reassignments(asked_for(request)))
