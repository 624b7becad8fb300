"""Topics in Metadata responses.

A leader is included only if it is alive and has the listener of the client.  A response is cached
with its topic, and reused while the same brokers are alive: then a Metadata response costs one
lookup per topic, and its encoding.

Invariant: the returned objects are shared between responses and must not be changed.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from odradek.broker.metadata.authorized_operations import AUTHORIZED_OPERATIONS_OMITTED
from odradek.broker.metadata.internal_topics import INTERNAL_TOPICS
from odradek.broker.metadata.metadata_snapshot import AliveBrokers, Node, PartitionState, Topic
from odradek.broker.time_slice import INLINE_ENTRIES_MAX, TimeSlice
from odradek.controller.leader_and_isr import NO_LEADER
from odradek.protocol.api.metadata import MetadataResponse
from odradek.protocol.error_codes import ErrorCode

TopicResponse = MetadataResponse.Topic
PartitionResponse = TopicResponse.Partition

NONE = ErrorCode.NONE.code
LEADER_NOT_AVAILABLE = ErrorCode.LEADER_NOT_AVAILABLE.code
LISTENER_NOT_FOUND = ErrorCode.LISTENER_NOT_FOUND.code
REPLICA_NOT_AVAILABLE = ErrorCode.REPLICA_NOT_AVAILABLE.code


class TopicMetadataOptions(NamedTuple):
    """What a topic's response depends on besides the topic."""

    listener: str
    #: Whether to leave out replicas that the client cannot reach, with an error, as in version 0.
    error_unavailable_endpoints: bool = False
    #: Whether clients know the error LISTENER_NOT_FOUND, as from version 6 on.
    error_unavailable_listeners: bool = True
    authorized_operations: int = AUTHORIZED_OPERATIONS_OMITTED

    @classmethod
    def for_version(
        cls, version: int, listener: str, authorized_operations: int = AUTHORIZED_OPERATIONS_OMITTED
    ) -> TopicMetadataOptions:
        return cls(listener, version == 0, version >= 6, authorized_operations)


def topic_response(
    topic: Topic, brokers: AliveBrokers, options: TopicMetadataOptions
) -> TopicResponse:
    cached: tuple[AliveBrokers, TopicResponse] | None = topic.cached_responses.get(options)
    if cached is not None and cached[0] is brokers:
        return cached[1]
    return _cache_response(
        topic, brokers, options, list(_partition_responses(topic, brokers, options))
    )


async def topic_responses_sliced(
    topics: Iterable[Topic], brokers: AliveBrokers, options: TopicMetadataOptions
) -> list[TopicResponse]:
    """Like ``topic_response``, in time slices for many topics or many partitions."""
    time_slice, responses = TimeSlice(), []
    for topic in topics:
        cached = topic.cached_responses.get(options)
        if len(topic.partitions) > INLINE_ENTRIES_MAX and (
            cached is None or cached[0] is not brokers
        ):
            partitions = await time_slice.collect(_partition_responses(topic, brokers, options))
            responses.append(_cache_response(topic, brokers, options, partitions))
        else:
            responses.append(topic_response(topic, brokers, options))
        if time_slice.is_used_up:
            await time_slice.yield_to_loop()
    return responses


def _cache_response(
    topic: Topic,
    brokers: AliveBrokers,
    options: TopicMetadataOptions,
    partitions: list[PartitionResponse],
) -> TopicResponse:
    response = TopicResponse(
        error_code=NONE,
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=partitions,
        topic_authorized_operations=options.authorized_operations,
    )
    topic.cached_responses[options] = brokers, response
    return response


def _partition_responses(
    topic: Topic, brokers: AliveBrokers, options: TopicMetadataOptions
) -> Iterator[PartitionResponse]:
    nodes = brokers.nodes_for_listener(options.listener)
    partition = (
        _reachable_partition_response
        if options.error_unavailable_endpoints
        else _partition_response
    )
    listener_error = (
        LISTENER_NOT_FOUND if options.error_unavailable_listeners else LEADER_NOT_AVAILABLE
    )
    for state in topic.partitions.values():
        is_alive = state.leader in brokers.ids
        yield partition(state, nodes, listener_error if is_alive else LEADER_NOT_AVAILABLE)


def _partition_response(
    state: PartitionState, nodes: Mapping[int, Node], unavailable_error: int
) -> PartitionResponse:
    """``unavailable_error`` is the error if the leader is not among the nodes."""
    has_leader = state.leader in nodes
    return PartitionResponse(
        error_code=NONE if has_leader else unavailable_error,
        partition_index=state.partition_index,
        leader_id=state.leader if has_leader else NO_LEADER,
        leader_epoch=state.leader_epoch,
        replica_nodes=state.replicas,
        isr_nodes=state.isr,
        offline_replicas=state.offline_replicas,
    )


def _reachable_partition_response(
    state: PartitionState, nodes: Mapping[int, Node], unavailable_error: int
) -> PartitionResponse:
    partition = _partition_response(state, nodes, unavailable_error)
    partition.replica_nodes = [replica for replica in state.replicas if replica in nodes]
    partition.isr_nodes = [replica for replica in state.isr if replica in nodes]
    is_complete = len(partition.replica_nodes) + len(partition.isr_nodes) == (
        len(state.replicas) + len(state.isr)
    )
    if partition.error_code == NONE and not is_complete:
        partition.error_code = REPLICA_NOT_AVAILABLE
    return partition
