"""ElectLeaders: let the controller elect leaders, and respond when the metadata shows them.

Each partition succeeds or fails independently.  If the request is for all partitions, the response
omits those that need no election.  A partition whose new leader is not in the metadata when the
timeout expires gets REQUEST_TIMED_OUT.  Kafka: DelayedElectLeader.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Collection, Mapping
from functools import partial
from typing import Protocol

from odradek.broker.handlers.error_messages import error_message
from odradek.broker.request import DelayedOperation, Request
from odradek.controller.replica_leader_elections import ElectionResults, ElectionType
from odradek.protocol.api.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import KafkaError, NotController, RequestTimedOut, code_of
from odradek.protocol.types import TopicPartition

#: The top-level error code.
FIRST_VERSION_WITH_ERROR_CODE = 1

ElectionErrors = Mapping[TopicPartition, KafkaError | None]


class Controller(Protocol):
    """The part of the controller that elects leaders on request."""

    async def elect_leaders(
        self, election_type: ElectionType, partitions: Collection[TopicPartition] | None, /
    ) -> ElectionResults: ...


class ClusterMetadata(Protocol):
    """The part of the metadata cache that this handler needs."""

    def partitions(self) -> Collection[TopicPartition]: ...

    async def wait_for_elections(
        self, leaders: Mapping[TopicPartition, int], /, *, timeout_s: float
    ) -> Collection[TopicPartition]: ...


def handle(
    controller: Controller, metadata_cache: ClusterMetadata, request: Request[ElectLeadersRequest]
) -> Awaitable[ElectLeadersResponse | DelayedOperation[ElectLeadersResponse]]:
    body = request.body
    try:
        election_type = ElectionType(body.election_type)
    except ValueError as error:
        # Kafka does not handle this case either and also answers UNKNOWN_SERVER_ERROR.
        raise KafkaError(
            f"election_type={body.election_type}: must be 0 (preferred) or 1 (unclean)"
        ) from error
    return _elect(controller, metadata_cache, election_type, body)


def error_response(
    request: Request[ElectLeadersRequest], error: KafkaError
) -> ElectLeadersResponse:
    errors = dict.fromkeys(_requested_partitions(request.body) or (), error)
    has_error_code = request.version >= FIRST_VERSION_WITH_ERROR_CODE
    return _build_response(errors, error_code=code_of(error if has_error_code else None))


async def _elect(
    controller: Controller,
    metadata_cache: ClusterMetadata,
    election_type: ElectionType,
    body: ElectLeadersRequest,
) -> ElectLeadersResponse | DelayedOperation[ElectLeadersResponse]:
    deadline_s = asyncio.get_running_loop().time() + body.timeout_ms / 1000
    partitions = _requested_partitions(body)
    try:
        results = await controller.elect_leaders(election_type, partitions)
    except NotController as error:
        # Version 0 has no top-level error code, so each partition gets the error.
        return _build_response(
            dict.fromkeys(metadata_cache.partitions() if partitions is None else partitions, error)
        )
    return DelayedOperation(partial(_respond_when_elected, metadata_cache, results, deadline_s))


async def _respond_when_elected(
    metadata_cache: ClusterMetadata, results: ElectionResults, deadline_s: float
) -> ElectLeadersResponse:
    leaders = {
        partition: result for partition, result in results.items() if isinstance(result, int)
    }
    timed_out: Collection[TopicPartition] = ()
    if leaders:
        remaining_s = max(0, deadline_s - asyncio.get_running_loop().time())
        timed_out = await metadata_cache.wait_for_elections(leaders, timeout_s=remaining_s)
    timeout_error = RequestTimedOut()
    errors: dict[TopicPartition, KafkaError | None] = {
        partition: result if isinstance(result, KafkaError) else None
        for partition, result in results.items()
    }
    return _build_response(errors | dict.fromkeys(timed_out, timeout_error))


def _requested_partitions(body: ElectLeadersRequest) -> list[TopicPartition] | None:
    """Return the distinct partitions of the request; None means all partitions."""
    if body.topic_partitions is None:
        return None
    partitions = (
        TopicPartition(topic.topic, number)
        for topic in body.topic_partitions
        for number in topic.partitions
    )
    return list(dict.fromkeys(partitions))


def _build_response(
    errors: ElectionErrors, *, error_code: int = ErrorCode.NONE.code
) -> ElectLeadersResponse:
    partition_results: defaultdict[str, list[ElectLeadersResponse.Topic.Partition]] = defaultdict(
        list
    )
    for partition, error in errors.items():
        partition_results[partition.topic].append(
            ElectLeadersResponse.Topic.Partition(
                partition_id=partition.partition,
                error_code=code_of(error),
                error_message=error_message(error),
            )
        )
    return ElectLeadersResponse(
        throttle_time_ms=0,
        error_code=error_code,
        replica_election_results=[
            ElectLeadersResponse.Topic(topic=topic, partition_result=partitions)
            for topic, partitions in partition_results.items()
        ],
    )
