"""ElectLeaders: have the controller elect leaders, and answer when they are seen to lead.

Each partition succeeds or fails alone.  If all are asked for, those that need no election are left
out.  A leader that is elected, but not seen when the time is over, is answered REQUEST_TIMED_OUT.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Collection, Mapping
from functools import partial
from typing import Protocol

from odradek.broker.call import Call, Parked
from odradek.broker.handlers.refusals import words
from odradek.controller.preferred_leaders import ElectionKind, ElectionResults
from odradek.protocol.api.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import KafkaError, NotController, RequestTimedOut, code_of
from odradek.protocol.types import TopicPartition

#: Of the whole response.
HAS_ERROR_CODE = 1

Outcomes = Mapping[TopicPartition, KafkaError | None]


class Controller(Protocol):
    """The part of the controller that elects on request."""

    async def elect_leaders(
        self, kind: ElectionKind, partitions: Collection[TopicPartition] | None, /
    ) -> ElectionResults: ...


class Cluster(Protocol):
    """Where it is seen who leads."""

    def partitions(self) -> Collection[TopicPartition]: ...

    async def wait_for_elected(
        self, leaders: Mapping[TopicPartition, int], /, *, timeout_s: float
    ) -> Collection[TopicPartition]: ...


def handle(
    controller: Controller, cluster: Cluster, call: Call[ElectLeadersRequest]
) -> Awaitable[ElectLeadersResponse | Parked[ElectLeadersResponse]]:
    request = call.request
    try:
        kind = ElectionKind(request.election_type)
    except ValueError as unknown:
        # Kafka's answer too: it has not thought of this.
        raise KafkaError(f"There is no election {request.election_type}.") from unknown
    return _elected(controller, cluster, kind, request)


def refused(call: Call[ElectLeadersRequest], failure: KafkaError) -> ElectLeadersResponse:
    outcomes = dict.fromkeys(_named(call.request) or (), failure)
    is_told = call.version >= HAS_ERROR_CODE
    return _response(outcomes, error_code=code_of(failure if is_told else None))


async def _elected(
    controller: Controller, cluster: Cluster, kind: ElectionKind, request: ElectLeadersRequest
) -> ElectLeadersResponse | Parked[ElectLeadersResponse]:
    deadline_s = asyncio.get_running_loop().time() + request.timeout_ms / 1000
    named = _named(request)
    try:
        results = await controller.elect_leaders(kind, named)
    except NotController as refusal:
        # The first version has nowhere else to say it.
        return _response(dict.fromkeys(cluster.partitions() if named is None else named, refusal))
    return Parked(partial(_answer_when_seen, cluster, results, deadline_s))


async def _answer_when_seen(
    cluster: Cluster, results: ElectionResults, deadline_s: float
) -> ElectLeadersResponse:
    leaders = {each: result for each, result in results.items() if isinstance(result, int)}
    late: Collection[TopicPartition] = ()
    if leaders:
        left_s = max(0, deadline_s - asyncio.get_running_loop().time())
        late = await cluster.wait_for_elected(leaders, timeout_s=left_s)
    timed_out = RequestTimedOut()
    outcomes: dict[TopicPartition, KafkaError | None] = {
        each: result if isinstance(result, KafkaError) else None for each, result in results.items()
    }
    return _response(outcomes | dict.fromkeys(late, timed_out))


def _named(request: ElectLeadersRequest) -> list[TopicPartition] | None:
    """Each once; None: all that there are."""
    if request.topic_partitions is None:
        return None
    named = (
        TopicPartition(topic.topic, number)
        for topic in request.topic_partitions
        for number in topic.partitions
    )
    return list(dict.fromkeys(named))


def _response(outcomes: Outcomes, *, error_code: int = ErrorCode.NONE.code) -> ElectLeadersResponse:
    lines: defaultdict[str, list[ElectLeadersResponse.Topic.Partition]] = defaultdict(list)
    for partition, failure in outcomes.items():
        lines[partition.topic].append(
            ElectLeadersResponse.Topic.Partition(
                partition_id=partition.partition,
                error_code=code_of(failure),
                error_message=words(failure),
            )
        )
    return ElectLeadersResponse(
        throttle_time_ms=0,
        error_code=error_code,
        replica_election_results=[
            ElectLeadersResponse.Topic(topic=topic, partition_result=partitions)
            for topic, partitions in lines.items()
        ],
    )
