"""ListOffsets: the offset of a partition at a time, at its start or at its end.

Consumers see as much as they may read: up to the high watermark, or the last stable offset if they
read committed records only.  Brokers and debugging consumers see the whole log, the latter on any
replica.

A leader whose high watermark has not come to where its epoch began does not know yet what may be
read: OFFSET_NOT_AVAILABLE, which is LEADER_NOT_AVAILABLE before version 5.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

from odradek.broker.call import Call
from odradek.broker.fetching.offset_lookup import (
    EARLIEST_LOCAL,
    LARGEST_TIMESTAMP,
    LATEST_TIERED,
    OffsetLookup,
    Sight,
)
from odradek.broker.record_looks import Looks, ManyRecords, Reader
from odradek.broker.replicas.partition import Partition
from odradek.broker.turns import FEW, Turn
from odradek.protocol.api.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from odradek.protocol.errors import (
    InvalidRequest,
    KafkaError,
    LeaderNotAvailable,
    OffsetNotAvailable,
    UnsupportedVersion,
    code_of,
)
from odradek.storage.log_lookup import EARLIEST, LATEST

READ_UNCOMMITTED, READ_COMMITTED = 0, 1
CONSUMER, DEBUGGING_CONSUMER = -1, -2
_FIRST_VERSIONS = {
    LATEST: 0,
    EARLIEST: 0,
    LARGEST_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
}
_FIRST_VERSION_OF_OFFSET_NOT_AVAILABLE = 5

Asked = ListOffsetsRequest.Topic.Partition
Topic = ListOffsetsResponse.Topic
Line = Topic.Partition


class Replicas(Protocol):
    """The part of the replica manager that looking for offsets needs."""

    def partition(self, topic: str, index: int, /) -> Partition: ...


def handle(
    replicas: Replicas, reader: Reader, now_ms: Callable[[], int], call: Call[ListOffsetsRequest]
) -> ListOffsetsResponse | Awaitable[ListOffsetsResponse]:
    if call.request.isolation_level not in (READ_UNCOMMITTED, READ_COMMITTED):
        raise KafkaError(f"there is no isolation level {call.request.isolation_level}")
    listing = Listing(replicas, now_ms, call)
    topics = call.request.topics
    if sum(len(topic.partitions) for topic in topics) > FEW:
        return _list_in_turns(listing, reader, topics)
    try:
        return ListOffsetsResponse(
            topics=[
                Topic(
                    name=topic.name,
                    partitions=[listing.line(topic.name, asked) for asked in topic.partitions],
                )
                for topic in topics
            ]
        )
    except ManyRecords:
        return _list_in_turns(listing, reader, topics)


async def _list_in_turns(
    listing: Listing, reader: Reader, topics: Iterable[ListOffsetsRequest.Topic]
) -> ListOffsetsResponse:
    turn, response = Turn(), ListOffsetsResponse(topics=[])
    for topic in topics:
        lines = []
        for asked in topic.partitions:
            lines.append(await listing.line_in_turns(topic.name, asked, reader))
            if turn.is_over:
                await turn.next()
        response.topics.append(Topic(name=topic.name, partitions=lines))
    return response


class Listing:
    """The lookups of one request."""

    def __init__(
        self, replicas: Replicas, now_ms: Callable[[], int], call: Call[ListOffsetsRequest]
    ) -> None:
        self._replicas = replicas
        self._now_ms = now_ms
        self._version = call.version
        self._sight = _sight(call.request)
        self._looks = Looks()
        named = Counter(
            (topic.name, asked.partition_index)
            for topic in call.request.topics
            for asked in topic.partitions
        )
        # The oldest version has no rule about it.
        self._twice = {key for key, count in named.items() if count > 1 and call.version > 0}

    async def line_in_turns(self, topic: str, asked: Asked, reader: Reader) -> Line:
        while True:
            self._looks.begin_turn()
            try:
                return self.line(topic, asked)
            except ManyRecords as many:
                try:
                    await self._looks.learn(many, reader)
                except KafkaError as failure:
                    return _failed(asked, failure)

    def line(self, topic: str, asked: Asked) -> Line:
        """ManyRecords, if it would take too long."""
        try:
            self._check(topic, asked)
            partition = self._replicas.partition(topic, asked.partition_index)
            return self._found(OffsetLookup(partition, self._sight, self._looks), asked)
        except OffsetNotAvailable as failure:
            is_known = self._version >= _FIRST_VERSION_OF_OFFSET_NOT_AVAILABLE
            return _failed(asked, failure if is_known else LeaderNotAvailable())
        except KafkaError as failure:
            return _failed(asked, failure)

    def _check(self, topic: str, asked: Asked) -> None:
        if (topic, asked.partition_index) in self._twice:
            raise InvalidRequest(f"{topic}-{asked.partition_index} is named twice")
        first_version = _FIRST_VERSIONS.get(asked.timestamp)
        is_known = first_version is not None and self._version >= first_version
        if asked.timestamp < 0 and not is_known:
            raise UnsupportedVersion(f"timestamp {asked.timestamp} in version {self._version}")

    def _found(self, lookup: OffsetLookup, asked: Asked) -> Line:
        index = asked.partition_index
        if self._version == 0:
            offsets = lookup.before(
                asked.timestamp, max_offsets=asked.max_num_offsets, now_ms=self._now_ms()
            )
            return Line(partition_index=index, error_code=0, old_style_offsets=offsets)
        found = lookup.at(asked.timestamp, current_leader_epoch=asked.current_leader_epoch)
        if found is None:
            return Line(partition_index=index, error_code=0)
        # What is not known is -1 here as it is there.
        offset, timestamp, leader_epoch = found
        return Line(
            partition_index=index,
            error_code=0,
            timestamp=timestamp,
            offset=offset,
            leader_epoch=leader_epoch if self._version >= 4 else -1,
        )


def _sight(request: ListOffsetsRequest) -> Sight:
    if request.replica_id != CONSUMER:
        return Sight(is_limited=False, needs_leader=request.replica_id != DEBUGGING_CONSUMER)
    return Sight(is_committed=request.isolation_level == READ_COMMITTED)


def _failed(asked: Asked, failure: KafkaError) -> Line:
    return Line(partition_index=asked.partition_index, error_code=code_of(failure))


def refused(call: Call[ListOffsetsRequest], failure: KafkaError) -> ListOffsetsResponse:
    """All of it, for one reason."""
    return ListOffsetsResponse(
        topics=[
            Topic(
                name=topic.name,
                partitions=[_failed(asked, failure) for asked in topic.partitions],
            )
            for topic in call.request.topics
        ]
    )
