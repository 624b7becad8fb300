"""Fetch: consumers and followers read record batches, or wait for them.

The handler does not read the records: the response refers to regions of the log files.  Records are
read and converted only for clients that do not know their format (down-conversion).

A request for an unknown session, or out of order within its session, is rejected as a whole: the
response has no partitions.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from functools import partial
from typing import Protocol

from odradek.broker.fetching import down_conversion
from odradek.broker.fetching.delayed_fetch import DelayedFetch
from odradek.broker.fetching.fetch_partition import FetchPartition, PartitionResponse
from odradek.broker.fetching.fetch_reader import FetchReader
from odradek.broker.fetching.fetch_session_cache import (
    FetchContext,
    FetchSessionCache,
    replica_id_of,
)
from odradek.broker.fetching.partition_reader import (
    FetchParams,
    FetchPolicy,
    HostedPartitions,
    PartitionReader,
    TopicMetadata,
)
from odradek.broker.fetching.replica_selector import ClientMetadata
from odradek.broker.handlers.current_leaders import CurrentLeaders
from odradek.broker.handlers.current_leaders import LeaderMetadata as Leaders
from odradek.broker.request import DelayedFuture, DelayedOperation, Request
from odradek.broker.time_slice import INLINE_ENTRIES_MAX
from odradek.protocol.api.fetch import FetchRequest, FetchResponse
from odradek.protocol.errors import FencedLeaderEpoch, KafkaError, NotLeaderOrFollower, code_of

READ_UNCOMMITTED, READ_COMMITTED = 0, 1
_FIRST_VERSION_WITH_FOLLOWER_FETCH = 11
_FIRST_VERSION_WITH_TOPIC_IDS = 13
_FIRST_VERSION_WITH_CURRENT_LEADER = 16
_LEADER_CHANGED_ERRORS = frozenset(
    {NotLeaderOrFollower.error_code.code, FencedLeaderEpoch.error_code.code}
)

Topic = FetchResponse.Topic
Endpoint = FetchResponse.NodeEndpoint


class ClusterMetadata(TopicMetadata, Leaders, Protocol):
    """The part of the metadata cache that this handler needs."""


def handle(
    replica_manager: HostedPartitions,
    metadata_cache: ClusterMetadata,
    fetch_session_cache: FetchSessionCache,
    policy: FetchPolicy,
    request: Request[FetchRequest],
) -> FetchResponse | Awaitable[FetchResponse | Awaitable[FetchResponse]]:
    body = request.body
    if body.isolation_level not in (READ_UNCOMMITTED, READ_COMMITTED):
        raise KafkaError(f"isolation_level={body.isolation_level}: must be 0 or 1")
    partition_reader = PartitionReader(
        replica_manager, metadata_cache, policy, _fetch_params(request, policy.fetch_max_bytes)
    )
    if sum([len(topic.partitions) for topic in body.topics]) > INLINE_ENTRIES_MAX:
        return _open_sliced(metadata_cache, fetch_session_cache, partition_reader, request)
    try:
        fetch_context = fetch_session_cache.new_context(body, request.version)
    except KafkaError as error:
        return FetchResponse(error_code=code_of(error), responses=[])
    fetch_reader = FetchReader(
        partition_reader, fetch_context.partitions, fetch_context.follower_fetch_state
    )
    responder = FetchResponder(metadata_cache, request, fetch_context, partition_reader)
    if fetch_reader.is_large:
        return responder.respond_sliced(fetch_reader)
    fetch_reader.read()
    return responder.respond(fetch_reader)


async def _open_sliced(
    metadata_cache: ClusterMetadata,
    fetch_session_cache: FetchSessionCache,
    partition_reader: PartitionReader,
    request: Request[FetchRequest],
) -> FetchResponse | Awaitable[FetchResponse]:
    try:
        fetch_context = await fetch_session_cache.new_context_sliced(request.body, request.version)
    except KafkaError as error:
        return FetchResponse(error_code=code_of(error), responses=[])
    responder = FetchResponder(metadata_cache, request, fetch_context, partition_reader)
    return await responder.respond_sliced(
        FetchReader(partition_reader, fetch_context.partitions, fetch_context.follower_fetch_state)
    )


def _fetch_params(request: Request[FetchRequest], max_bytes: int) -> FetchParams:
    body, replica_id = request.body, replica_id_of(request.body)
    max_bytes = min(body.max_bytes, max_bytes)
    is_follower = replica_id >= 0
    return FetchParams(
        version=request.version,
        replica_id=replica_id,
        replica_epoch=body.replica_state.replica_epoch,
        max_bytes=max_bytes,
        min_bytes=min(body.min_bytes, max_bytes),
        is_read_committed=body.isolation_level == READ_COMMITTED and not is_follower,
        needs_leader=is_follower or request.version < _FIRST_VERSION_WITH_FOLLOWER_FETCH,
        client_metadata=ClientMetadata(body.rack_id, request.context.listener),
    )


class FetchResponder:
    """Builds the response of one request from the result of its reads."""

    __slots__ = ("_fetch_context", "_metadata_cache", "_partition_reader", "_request")

    def __init__(
        self,
        metadata_cache: ClusterMetadata,
        request: Request[FetchRequest],
        fetch_context: FetchContext,
        partition_reader: PartitionReader,
    ) -> None:
        self._metadata_cache = metadata_cache
        self._request = request
        self._fetch_context = fetch_context
        self._partition_reader = partition_reader

    async def respond_sliced(
        self, fetch_reader: FetchReader
    ) -> FetchResponse | Awaitable[FetchResponse]:
        """Read many partitions in time slices, then respond."""
        await fetch_reader.read_sliced()
        return self.respond(fetch_reader)

    def respond(self, fetch_reader: FetchReader) -> FetchResponse | Awaitable[FetchResponse]:
        """Respond with the result of the read, or delay the response until there is more."""
        if self._request.body.max_wait_ms > 0 and not fetch_reader.is_satisfied():
            # The delayed operation may be dropped before it starts: keep no file open.
            fetch_reader.discard_responses()
            return self._delay(fetch_reader)
        if (
            down_conversion.needs_down_conversion(self._request.version)
            and fetch_reader.has_records
        ):
            return self.build_converted_response(fetch_reader)
        return self.build_response(fetch_reader)

    def _delay(self, fetch_reader: FetchReader) -> DelayedOperation[FetchResponse]:
        timeout_s = self._request.body.max_wait_ms / 1000
        if down_conversion.needs_down_conversion(self._request.version):
            return DelayedOperation(partial(self._convert_when_complete, fetch_reader, timeout_s))
        delayed_fetch = DelayedFetch(fetch_reader, timeout_s)
        if fetch_reader.is_large:
            # The partitions may have changed between the time slices of the read.
            delayed_fetch.notify()
        return DelayedFuture(delayed_fetch.completion, partial(self._on_complete, fetch_reader))

    async def _convert_when_complete(
        self, fetch_reader: FetchReader, timeout_s: float
    ) -> FetchResponse:
        delayed_fetch = DelayedFetch(fetch_reader, timeout_s)
        delayed_fetch.notify()  # the partitions may have changed since they were read
        error = await delayed_fetch.completion
        if error is not None:
            raise error
        fetch_reader.drop_discarded()
        return await self.build_converted_response(fetch_reader)

    def _on_complete(self, fetch_reader: FetchReader, error: Exception | None) -> FetchResponse:
        if error is not None:
            raise error
        # Another request of the session may have removed partitions since they were read.
        fetch_reader.drop_discarded()
        return self.build_response(fetch_reader)

    async def build_converted_response(self, fetch_reader: FetchReader) -> FetchResponse:
        version = self._request.version
        partitions = self._fetch_context.select_response_partitions(fetch_reader.results)
        down_conversion.reject_unsupported(partitions, version, is_follower=self._is_follower)
        await down_conversion.convert(partitions, version, self._request.context)
        return self._build_response(partitions)

    def build_response(self, fetch_reader: FetchReader) -> FetchResponse:
        try:
            partitions = self._fetch_context.select_response_partitions(fetch_reader.results)
        except KafkaError as error:
            fetch_reader.discard_responses()
            return FetchResponse(
                error_code=code_of(error), session_id=self._fetch_context.session_id, responses=[]
            )
        down_conversion.reject_unsupported(
            partitions, self._request.version, is_follower=self._is_follower
        )
        return self._build_response(partitions)

    @property
    def _is_follower(self) -> bool:
        return self._partition_reader.params.is_follower

    def _build_response(self, partitions: list[FetchPartition]) -> FetchResponse:
        self._partition_reader.record_sent_bytes(partitions)
        endpoints: list[Endpoint] = []
        if self._request.version >= _FIRST_VERSION_WITH_CURRENT_LEADER:
            moved = [
                each
                for each in partitions
                if each.partition_response
                and each.partition_response.error_code in _LEADER_CHANGED_ERRORS
            ]
            if moved:
                endpoints = self._set_current_leaders(moved)
        return FetchResponse(
            session_id=self._fetch_context.session_id,
            responses=_group_by_topic(partitions),
            node_endpoints=endpoints,
        )

    def _set_current_leaders(self, partitions: list[FetchPartition]) -> list[Endpoint]:
        """Set the current leader in each partition response, and return the leaders' endpoints."""
        current_leaders = CurrentLeaders(self._metadata_cache, self._request.context.listener)
        for fetch_partition in partitions:
            assert fetch_partition.partition_response is not None, fetch_partition
            assert fetch_partition.topic is not None, fetch_partition
            leader = current_leaders.current_leader(
                fetch_partition.topic,
                fetch_partition.partition_request.partition,
                fetch_partition.partition,
            )
            fetch_partition.partition_response.current_leader = PartitionResponse.LeaderIdAndEpoch(
                leader_id=leader.id, leader_epoch=leader.epoch
            )
        return current_leaders.node_endpoints(Endpoint)


def _group_by_topic(partitions: Iterable[FetchPartition]) -> list[Topic]:
    """Keep the order of the partitions; a topic that appears again later gets another entry."""
    topics: list[Topic] = []
    previous_key: tuple[str | None, bytes] | None = None
    for fetch_partition in partitions:
        # Keep no reference: the partition response would hold a file open.
        partition_response, fetch_partition.partition_response = (
            fetch_partition.partition_response,
            None,
        )
        assert partition_response is not None, fetch_partition
        topic_key = (fetch_partition.topic, fetch_partition.topic_id)
        if topic_key != previous_key:
            topics.append(
                Topic(
                    topic=fetch_partition.topic or "",
                    topic_id=fetch_partition.topic_id,
                    partitions=[],
                )
            )
            previous_key = topic_key
        topics[-1].partitions.append(partition_response)
    return topics


def error_response(request: Request[FetchRequest], error: KafkaError) -> FetchResponse:
    """Return the error as top-level error, and per partition as well in versions before 13.

    Clients of these versions may check only the partitions.
    """
    body, code = request.body, code_of(error)
    has_partition_errors = request.version < _FIRST_VERSION_WITH_TOPIC_IDS
    return FetchResponse(
        error_code=code,
        session_id=body.session_id,
        responses=[
            Topic(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=[
                    PartitionResponse(
                        partition_index=partition.partition,
                        error_code=code,
                        high_watermark=-1,
                        aborted_transactions=[],
                        records=None,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in (body.topics if has_partition_errors else ())
        ],
    )
