"""AlterPartitionReassignments: move partitions to other replicas, or stop moving them."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

from odradek.broker.call import Call
from odradek.controller.reassignment_requests import Outcomes, Targets, answer, targets
from odradek.protocol.api.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)


class Controller(Protocol):
    """The part of the controller that reassigns on request."""

    async def alter_reassignments(
        self, requested: Targets, /, *, may_change_factor: bool
    ) -> Outcomes: ...


def handle(
    controller: Controller, call: Call[AlterPartitionReassignmentsRequest]
) -> Awaitable[AlterPartitionReassignmentsResponse]:
    return _altered(controller, call.request)


async def _altered(
    controller: Controller, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    may_change_factor = request.allow_replication_factor_change
    outcomes = await controller.alter_reassignments(
        targets(request), may_change_factor=may_change_factor
    )
    return answer(outcomes, may_change_factor=may_change_factor)
