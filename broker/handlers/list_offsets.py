"""ListOffsets: find the offset of a partition by timestamp, or its earliest or latest offset.

Consumers see what they may read: up to the high watermark, or up to the last stable offset if they
read committed records only.  Brokers and debugging consumers see the whole log, debugging consumers
on any replica.

A leader whose high watermark is below the start offset of its leader epoch does not know yet what
consumers may read.  It returns OFFSET_NOT_AVAILABLE, or LEADER_NOT_AVAILABLE before version 5.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

from odradek.broker.batch_search import BatchSearch, BatchSearcher, SearchTooLarge
from odradek.broker.fetching.offset_lookup import (
    EARLIEST_LOCAL_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    MAX_TIMESTAMP,
    FetchIsolation,
    OffsetLookup,
)
from odradek.broker.replicas.partition import Partition
from odradek.broker.request import Request
from odradek.broker.time_slice import INLINE_ENTRIES_MAX, TimeSlice
from odradek.protocol.api.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from odradek.protocol.errors import (
    InvalidRequest,
    KafkaError,
    LeaderNotAvailable,
    OffsetNotAvailable,
    UnsupportedVersion,
    code_of,
)
from odradek.storage.timestamp_lookup import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP

READ_UNCOMMITTED, READ_COMMITTED = 0, 1
CONSUMER, DEBUGGING_CONSUMER = -1, -2
_FIRST_VERSION_BY_TIMESTAMP = {
    LATEST_TIMESTAMP: 0,
    EARLIEST_TIMESTAMP: 0,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL_TIMESTAMP: 8,
    LATEST_TIERED_TIMESTAMP: 9,
}
_FIRST_VERSION_WITH_OFFSET_NOT_AVAILABLE = 5

PartitionRequest = ListOffsetsRequest.Topic.Partition
Topic = ListOffsetsResponse.Topic
PartitionResponse = Topic.Partition


class HostedPartitions(Protocol):
    """The part of the replica manager that this handler needs."""

    def partition(self, topic: str, index: int, /) -> Partition: ...


def handle(
    replica_manager: HostedPartitions,
    searcher: BatchSearcher,
    now_ms: Callable[[], int],
    request: Request[ListOffsetsRequest],
) -> ListOffsetsResponse | Awaitable[ListOffsetsResponse]:
    if request.body.isolation_level not in (READ_UNCOMMITTED, READ_COMMITTED):
        raise KafkaError(f"isolation_level={request.body.isolation_level}: must be 0 or 1")
    lookups = OffsetLookups(replica_manager, now_ms, request)
    topics = request.body.topics
    if sum(len(topic.partitions) for topic in topics) > INLINE_ENTRIES_MAX:
        return _list_sliced(lookups, searcher, topics)
    try:
        return ListOffsetsResponse(
            topics=[
                Topic(
                    name=topic.name,
                    partitions=[
                        lookups.partition_response(topic.name, partition_request)
                        for partition_request in topic.partitions
                    ],
                )
                for topic in topics
            ]
        )
    except SearchTooLarge:
        return _list_sliced(lookups, searcher, topics)


async def _list_sliced(
    lookups: OffsetLookups, searcher: BatchSearcher, topics: Iterable[ListOffsetsRequest.Topic]
) -> ListOffsetsResponse:
    time_slice, response = TimeSlice(), ListOffsetsResponse(topics=[])
    for topic in topics:
        partition_responses = []
        for partition_request in topic.partitions:
            partition_responses.append(
                await lookups.partition_response_sliced(topic.name, partition_request, searcher)
            )
            if time_slice.is_used_up:
                await time_slice.yield_to_loop()
        response.topics.append(Topic(name=topic.name, partitions=partition_responses))
    return response


class OffsetLookups:
    """The lookups of one request."""

    def __init__(
        self,
        replica_manager: HostedPartitions,
        now_ms: Callable[[], int],
        request: Request[ListOffsetsRequest],
    ) -> None:
        self._replica_manager = replica_manager
        self._now_ms = now_ms
        self._version = request.version
        self._isolation = _fetch_isolation(request.body)
        self._batch_search = BatchSearch()
        counts = Counter(
            (topic.name, partition_request.partition_index)
            for topic in request.body.topics
            for partition_request in topic.partitions
        )
        # Version 0 allows duplicates.
        self._duplicates = {
            key for key, count in counts.items() if count > 1 and request.version > 0
        }

    async def partition_response_sliced(
        self, topic: str, partition_request: PartitionRequest, searcher: BatchSearcher
    ) -> PartitionResponse:
        while True:
            self._batch_search.reset_budget()
            try:
                return self.partition_response(topic, partition_request)
            except SearchTooLarge as search:
                try:
                    await self._batch_search.search_in_worker(search, searcher)
                except KafkaError as error:
                    return _partition_error(partition_request, error)

    def partition_response(
        self, topic: str, partition_request: PartitionRequest
    ) -> PartitionResponse:
        """Raise SearchTooLarge if the search would take too long."""
        try:
            self._check(topic, partition_request)
            partition = self._replica_manager.partition(topic, partition_request.partition_index)
            return self._look_up(
                OffsetLookup(partition, self._isolation, self._batch_search), partition_request
            )
        except OffsetNotAvailable as error:
            is_supported = self._version >= _FIRST_VERSION_WITH_OFFSET_NOT_AVAILABLE
            return _partition_error(
                partition_request, error if is_supported else LeaderNotAvailable()
            )
        except KafkaError as error:
            return _partition_error(partition_request, error)

    def _check(self, topic: str, partition_request: PartitionRequest) -> None:
        if (topic, partition_request.partition_index) in self._duplicates:
            raise InvalidRequest(f"duplicate partition {topic}-{partition_request.partition_index}")
        first_version = _FIRST_VERSION_BY_TIMESTAMP.get(partition_request.timestamp)
        is_supported = first_version is not None and self._version >= first_version
        if partition_request.timestamp < 0 and not is_supported:
            raise UnsupportedVersion(
                f"timestamp {partition_request.timestamp} is not supported in version"
                f" {self._version}"
            )

    def _look_up(
        self, lookup: OffsetLookup, partition_request: PartitionRequest
    ) -> PartitionResponse:
        index = partition_request.partition_index
        if self._version == 0:
            offsets = lookup.legacy_offsets_before(
                partition_request.timestamp,
                max_offsets=partition_request.max_num_offsets,
                now_ms=self._now_ms(),
            )
            return PartitionResponse(partition_index=index, error_code=0, old_style_offsets=offsets)
        result = lookup.find_offset(
            partition_request.timestamp, current_leader_epoch=partition_request.current_leader_epoch
        )
        if result is None:
            return PartitionResponse(partition_index=index, error_code=0)
        # Unknown values are -1 both in the lookup and in the response.
        offset, timestamp, leader_epoch = result
        return PartitionResponse(
            partition_index=index,
            error_code=0,
            timestamp=timestamp,
            offset=offset,
            leader_epoch=leader_epoch if self._version >= 4 else -1,
        )


def _fetch_isolation(body: ListOffsetsRequest) -> FetchIsolation:
    if body.replica_id != CONSUMER:
        return FetchIsolation(is_bounded=False, needs_leader=body.replica_id != DEBUGGING_CONSUMER)
    return FetchIsolation(is_read_committed=body.isolation_level == READ_COMMITTED)


def _partition_error(partition_request: PartitionRequest, error: KafkaError) -> PartitionResponse:
    return PartitionResponse(
        partition_index=partition_request.partition_index, error_code=code_of(error)
    )


def error_response(request: Request[ListOffsetsRequest], error: KafkaError) -> ListOffsetsResponse:
    """Return the same error for every partition."""
    return ListOffsetsResponse(
        topics=[
            Topic(
                name=topic.name,
                partitions=[
                    _partition_error(partition_request, error)
                    for partition_request in topic.partitions
                ],
            )
            for topic in request.body.topics
        ]
    )
