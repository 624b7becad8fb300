"""AlterPartitionReassignments: start or cancel reassignments of partitions to other replicas."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

from odradek.broker.request import Request
from odradek.controller.reassignment_requests import (
    ReassignmentResults,
    ReassignmentTargets,
    build_alter_response,
    parse_alter_request,
)
from odradek.protocol.api.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)


class Controller(Protocol):
    """The part of the controller that starts and cancels reassignments."""

    async def alter_partition_reassignments(
        self, reassignments: ReassignmentTargets, /, *, allow_replication_factor_change: bool
    ) -> ReassignmentResults: ...


def handle(
    controller: Controller, request: Request[AlterPartitionReassignmentsRequest]
) -> Awaitable[AlterPartitionReassignmentsResponse]:
    return _alter(controller, request.body)


async def _alter(
    controller: Controller, body: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    may_change_factor = body.allow_replication_factor_change
    results = await controller.alter_partition_reassignments(
        parse_alter_request(body), allow_replication_factor_change=may_change_factor
    )
    return build_alter_response(results, allow_replication_factor_change=may_change_factor)
