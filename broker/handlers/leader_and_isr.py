"""LeaderAndIsr: the controller says which partitions this broker leads and follows.

A request of an old controller, or for an earlier life of this broker, is refused whole; else each
partition obeys or is refused alone.

Many partitions take many turns on the loop.  A new controller may come up in between, and then the
rest is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection, Iterable, Iterator
from typing import Protocol

from odradek.broker.call import Call
from odradek.broker.turns import FEW, Turn
from odradek.protocol.api.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
)
from odradek.protocol.errors import KafkaError, code_of
from odradek.protocol.types import ZERO_UUID, TopicPartition, Uuid

_FIRST_VERSION_BY_TOPIC_ID = 5
_State = tuple[str, Uuid, LeaderAndIsrPartitionState]


class Ordered(Protocol):
    """A request of the controller."""

    @property
    def controller_epoch(self) -> int: ...

    @property
    def broker_epoch(self) -> int: ...


class Fence(Protocol):
    """Which controller, and which life of this broker, requests must be of, and their order."""

    @property
    def order(self) -> asyncio.Lock: ...

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
    check_fence(fence, call.request)
    states = list(_states(call.request))
    is_much = len(states) > FEW or bool(_new_topics(replicas, states))
    if is_much or fence.order.locked():
        return _obey_in_turns(replicas, fence, configs, call)
    return _response(call, 0, [(*each, _outcome(replicas, *each)) for each in states])


async def _obey_in_turns(
    replicas: Replicas, fence: Fence, configs: Configs, call: Call[LeaderAndIsrRequest]
) -> LeaderAndIsrResponse:
    states, outcomes = list(_states(call.request)), []
    async with fence.order:
        await configs.read(_new_topics(replicas, states))
        check_fence(fence, call.request)
        turn = Turn()
        for each in states:
            outcomes.append((*each, _outcome(replicas, *each)))
            if turn.is_over:
                await turn.next()
                check_fence(fence, call.request)
    return _response(call, 0, outcomes)


def check_fence(fence: Fence, request: Ordered) -> None:
    fence.check(controller_epoch=request.controller_epoch, broker_epoch=request.broker_epoch)


def _new_topics(replicas: Replicas, states: Iterable[_State]) -> set[str]:
    return {
        topic
        for topic, _, state in states
        if not replicas.has_log(TopicPartition(topic, state.partition_index))
    }


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


def _states(request: LeaderAndIsrRequest) -> Iterator[_State]:
    for state in request.ungrouped_partition_states:
        yield state.topic_name, ZERO_UUID, state
    for topic in request.topic_states:
        for state in topic.partition_states:
            yield topic.topic_name, topic.topic_id, state


def _outcome(
    replicas: Replicas, topic: str, topic_id: Uuid, state: LeaderAndIsrPartitionState
) -> int:
    partition = TopicPartition(topic, state.partition_index)
    try:
        replicas.become(partition, None if topic_id == ZERO_UUID else topic_id, state)
    except KafkaError as failure:
        return code_of(failure)
    return 0
