"""LeaderAndIsr: the controller says which partitions this broker leads and follows.

A request of an old controller, or for an earlier life of this broker, is refused whole; else each
partition obeys or is refused alone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Iterable, Iterator
from typing import Protocol

from odradek.broker.call import Call
from odradek.protocol.api.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
)
from odradek.protocol.errors import KafkaError, code_of
from odradek.protocol.types import ZERO_UUID, TopicPartition, Uuid

_FIRST_VERSION_BY_TOPIC_ID = 5


class Fence(Protocol):
    """Which controller, and which life of this broker, requests must be of."""

    def check(self, *, controller_epoch: int, broker_epoch: int) -> None: ...


class Replicas(Protocol):
    """The part of the replica manager that this needs."""

    def has_log(self, partition: TopicPartition, /) -> bool: ...

    def become(
        self,
        partition: TopicPartition,
        topic_id: Uuid | None,
        state: LeaderAndIsrPartitionState,
        /,
    ) -> object: ...


class Configs(Protocol):
    """How topics are configured, which nobody has told us of new ones."""

    async def read(self, topics: Collection[str], /) -> None: ...


def handle(
    replicas: Replicas, fence: Fence, configs: Configs, call: Call[LeaderAndIsrRequest]
) -> LeaderAndIsrResponse | Awaitable[LeaderAndIsrResponse]:
    request = call.request
    fence.check(controller_epoch=request.controller_epoch, broker_epoch=request.broker_epoch)
    new = {
        topic
        for topic, _, state in _states(request)
        if not replicas.has_log(TopicPartition(topic, state.partition_index))
    }
    return _obey_later(replicas, configs, new, call) if new else _obey(replicas, call)


async def _obey_later(
    replicas: Replicas, configs: Configs, new: Collection[str], call: Call[LeaderAndIsrRequest]
) -> LeaderAndIsrResponse:
    """The controller has one request under way at a time, so that nothing overtakes this."""
    await configs.read(new)
    return _obey(replicas, call)


def _obey(replicas: Replicas, call: Call[LeaderAndIsrRequest]) -> LeaderAndIsrResponse:
    outcomes = [
        (
            *(topic, topic_id, state),
            _outcome(replicas, TopicPartition(topic, state.partition_index), topic_id, state),
        )
        for topic, topic_id, state in _states(call.request)
    ]
    return _response(call, 0, outcomes)


def _response(
    call: Call[LeaderAndIsrRequest],
    code: int,
    outcomes: Iterable[tuple[str, Uuid, LeaderAndIsrPartitionState, int]],
) -> LeaderAndIsrResponse:
    """An outcome ends with its error code."""
    response = LeaderAndIsrResponse(error_code=code)
    by_id: dict[Uuid, list[LeaderAndIsrPartitionError]] = {}
    for topic, topic_id, state, error_code in outcomes:
        line = LeaderAndIsrPartitionError(
            topic_name=topic, partition_index=state.partition_index, error_code=error_code
        )
        if call.version < _FIRST_VERSION_BY_TOPIC_ID:
            response.partition_errors.append(line)
        else:
            by_id.setdefault(topic_id, []).append(line)
    response.topics = [
        LeaderAndIsrResponse.Topic(topic_id=topic_id, partition_errors=lines)
        for topic_id, lines in by_id.items()
    ]
    return response


def refused(call: Call[LeaderAndIsrRequest], failure: KafkaError) -> LeaderAndIsrResponse:
    """All of it, for one reason."""
    code = code_of(failure)
    return _response(call, code, ((*each, code) for each in _states(call.request)))


def _states(
    request: LeaderAndIsrRequest,
) -> Iterator[tuple[str, Uuid, LeaderAndIsrPartitionState]]:
    for state in request.ungrouped_partition_states:
        yield state.topic_name, ZERO_UUID, state
    for topic in request.topic_states:
        for state in topic.partition_states:
            yield topic.topic_name, topic.topic_id, state


def _outcome(
    replicas: Replicas,
    partition: TopicPartition,
    topic_id: Uuid,
    state: LeaderAndIsrPartitionState,
) -> int:
    try:
        replicas.become(partition, None if topic_id == ZERO_UUID else topic_id, state)
    except KafkaError as failure:
        return code_of(failure)
    return 0
