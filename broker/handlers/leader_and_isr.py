"""LeaderAndIsr: the controller says which partitions this broker leads and follows.

Kafka: ReplicaManager.becomeLeaderOrFollower.

A request from an old controller, or for an earlier registration of this broker, is rejected as a
whole.  Otherwise each partition becomes leader or follower, or is rejected individually.

Many partitions take several time slices.  If a newer controller appears in between, the rest is
rejected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection, Iterable, Iterator
from typing import Protocol

from odradek.broker.request import Request
from odradek.broker.time_slice import INLINE_ENTRIES_MAX, TimeSlice
from odradek.protocol.api.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
)
from odradek.protocol.errors import KafkaError, code_of
from odradek.protocol.types import ZERO_UUID, TopicPartition, Uuid

_FIRST_VERSION_WITH_TOPIC_IDS = 5
_TopicPartitionState = tuple[str, Uuid, LeaderAndIsrPartitionState]


class ControlRequest(Protocol):
    """A request from the controller."""

    @property
    def controller_epoch(self) -> int: ...

    @property
    def broker_epoch(self) -> int: ...


class Fence(Protocol):
    """Checks the controller epoch and broker epoch of requests, and serializes state changes."""

    @property
    def state_change_lock(self) -> asyncio.Lock: ...

    def check(self, *, controller_epoch: int, broker_epoch: int) -> None: ...


class HostedPartitions(Protocol):
    """The part of the replica manager that this handler needs."""

    def has_log(self, partition: TopicPartition, /) -> bool: ...

    def become_leader_or_follower(
        self,
        partition: TopicPartition,
        topic_id: Uuid | None,
        state: LeaderAndIsrPartitionState,
        /,
    ) -> object: ...


class TopicConfigLoader(Protocol):
    """Reads the configs of new topics, of which the broker was not notified yet."""

    async def read(self, topics: Collection[str], /) -> None: ...


def handle(
    replica_manager: HostedPartitions,
    controller_fence: Fence,
    topic_configs: TopicConfigLoader,
    request: Request[LeaderAndIsrRequest],
) -> LeaderAndIsrResponse | Awaitable[LeaderAndIsrResponse]:
    check_epochs(controller_fence, request.body)
    states = list(_states(request.body))
    is_large = len(states) > INLINE_ENTRIES_MAX or bool(_new_topics(replica_manager, states))
    if is_large or controller_fence.state_change_lock.locked():
        return _apply_sliced(replica_manager, controller_fence, topic_configs, request)
    return _build_response(
        request, 0, [(*each, _become_leader_or_follower(replica_manager, *each)) for each in states]
    )


async def _apply_sliced(
    replica_manager: HostedPartitions,
    controller_fence: Fence,
    topic_configs: TopicConfigLoader,
    request: Request[LeaderAndIsrRequest],
) -> LeaderAndIsrResponse:
    states, results = list(_states(request.body)), []
    async with controller_fence.state_change_lock:
        await topic_configs.read(_new_topics(replica_manager, states))
        check_epochs(controller_fence, request.body)
        time_slice = TimeSlice()
        for each in states:
            results.append((*each, _become_leader_or_follower(replica_manager, *each)))
            if time_slice.is_used_up:
                await time_slice.yield_to_loop()
                check_epochs(controller_fence, request.body)
    return _build_response(request, 0, results)


def check_epochs(controller_fence: Fence, body: ControlRequest) -> None:
    controller_fence.check(controller_epoch=body.controller_epoch, broker_epoch=body.broker_epoch)


def _new_topics(
    replica_manager: HostedPartitions, states: Iterable[_TopicPartitionState]
) -> set[str]:
    return {
        topic
        for topic, _, state in states
        if not replica_manager.has_log(TopicPartition(topic, state.partition_index))
    }


def _build_response(
    request: Request[LeaderAndIsrRequest],
    top_level_error_code: int,
    results: Iterable[tuple[str, Uuid, LeaderAndIsrPartitionState, int]],
) -> LeaderAndIsrResponse:
    """The last element of each result is its error code."""
    response = LeaderAndIsrResponse(error_code=top_level_error_code)
    errors_by_topic_id: dict[Uuid, list[LeaderAndIsrPartitionError]] = {}
    for topic, topic_id, state, error_code in results:
        partition_error = LeaderAndIsrPartitionError(
            topic_name=topic, partition_index=state.partition_index, error_code=error_code
        )
        if request.version < _FIRST_VERSION_WITH_TOPIC_IDS:
            response.partition_errors.append(partition_error)
        else:
            errors_by_topic_id.setdefault(topic_id, []).append(partition_error)
    response.topics = [
        LeaderAndIsrResponse.Topic(topic_id=topic_id, partition_errors=partition_errors)
        for topic_id, partition_errors in errors_by_topic_id.items()
    ]
    return response


def error_response(
    request: Request[LeaderAndIsrRequest], error: KafkaError
) -> LeaderAndIsrResponse:
    """Return the same error for the request and for every partition."""
    code = code_of(error)
    return _build_response(request, code, ((*each, code) for each in _states(request.body)))


def _states(body: LeaderAndIsrRequest) -> Iterator[_TopicPartitionState]:
    for state in body.ungrouped_partition_states:
        yield state.topic_name, ZERO_UUID, state
    for topic in body.topic_states:
        for state in topic.partition_states:
            yield topic.topic_name, topic.topic_id, state


def _become_leader_or_follower(
    replica_manager: HostedPartitions, topic: str, topic_id: Uuid, state: LeaderAndIsrPartitionState
) -> int:
    partition = TopicPartition(topic, state.partition_index)
    try:
        replica_manager.become_leader_or_follower(
            partition, None if topic_id == ZERO_UUID else topic_id, state
        )
    except KafkaError as error:
        return code_of(error)
    return 0
