"""A partition that somebody wants to read, and what requests say of such.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from odradek.broker.replicas.fetch_watcher import FetchWatcher
from odradek.broker.replicas.leader_state import LeaderState, ReplicaState
from odradek.broker.replicas.partition import Partition
from odradek.broker.time_slice import INLINE_ENTRIES_MAX, TimeSlice
from odradek.protocol.api.fetch import FetchRequest, FetchResponse
from odradek.protocol.types import ZERO_UUID, Uuid

NOT_SENT = -1

PartitionRequest = FetchRequest.Topic.Partition
PartitionResponse = FetchResponse.Topic.Partition
#: A topic's name, or its id in versions that have ids, and the partition's number.
PartitionKey = tuple[str | Uuid, int]


class DirtyListener(Protocol):
    """Of a session, which wants to know when one of its partitions has stirred."""

    @property
    def has_pending_fetch(self) -> bool:
        """Whether one waits."""

    def mark_dirty(self, fetch_partition: FetchPartition, /) -> None: ...


class FetchPartition:
    """A partition that somebody wants to read.

    ``line`` is what was found last.  If that was nothing, ``role`` is the leader's role of then: as
    long as it lasts, and what was told is still so, there is still nothing for whoever reads
    committed records only, if ``is_committed``, or for others.

    One that belongs to a session may stand at its partition, for the session's ``watch``.
    """

    __slots__ = (
        "_watcher_set",
        "dirty_listener",
        "is_read_committed",
        "last_sent_high_watermark",
        "last_sent_log_start_offset",
        "leader_state",
        "partition",
        "partition_request",
        "partition_response",
        "rank",
        "replica_state",
        "topic",
        "topic_id",
    )

    def __init__(
        self, topic: str | None, topic_id: Uuid, partition_request: PartitionRequest
    ) -> None:
        """``topic`` is None as long as it is not known which name belongs to the id."""
        self.topic = topic
        self.topic_id = topic_id
        self.partition_request = partition_request
        self.partition: Partition | None = None
        self.leader_state: LeaderState | None = None
        #: Of the follower that wants it, once that has been noted.
        self.replica_state: ReplicaState | None = None
        self.is_read_committed = False
        self.last_sent_high_watermark = NOT_SENT
        self.last_sent_log_start_offset = NOT_SENT
        self.partition_response: PartitionResponse | None = None
        self.dirty_listener: DirtyListener | None = None
        #: Its place in the order of the session.
        self.rank = 0
        #: Where it stands, if it does.
        self._watcher_set: set[FetchWatcher] | None = None

    @property
    def key(self) -> PartitionKey:
        name = self.topic_id if self.topic_id != ZERO_UUID else self.topic
        assert name is not None, self
        return name, self.partition_request.partition

    def update_request(self, partition_request: PartitionRequest) -> None:
        """From another offset, or in another epoch, than before."""
        if partition_request.current_leader_epoch != self.partition_request.current_leader_epoch:
            # The last answer may have come when its epoch was over, and not have been taken.
            self.last_sent_high_watermark = NOT_SENT
        self.partition_request = partition_request
        self.leader_state = None

    def leave_session(self) -> None:
        """The session that wanted it does so no more."""
        if self.replica_state is not None:
            self.replica_state.leave_session()

    # Waiting

    def register(self, *, is_follower: bool) -> None:
        """At its partition, until that stirs; one that nobody knows has no place."""
        partition = self.partition
        if partition is None:
            return
        watcher_set = partition.follower_fetch_watchers if is_follower else partition.fetch_watchers
        if watcher_set is not self._watcher_set:
            self.unregister()
            watcher_set.add(self)
            self._watcher_set = watcher_set

    def unregister(self) -> None:
        if self._watcher_set is not None:
            self._watcher_set.discard(self)
            self._watcher_set = None

    @property
    def is_waiting(self) -> bool:
        return self.dirty_listener is not None and self.dirty_listener.has_pending_fetch

    def notify(self) -> None:
        """Once: many sessions whose clients have gone should not burden every append."""
        self.unregister()
        assert self.dirty_listener is not None, self
        self.dirty_listener.mark_dirty(self)

    # Telling

    def maybe_update_response_data(self) -> bool:
        """Note what the client is being told; False if it knows all of it already."""
        response = self.partition_response
        assert response is not None, self
        is_changed = (
            bool(response.records)
            or response.error_code != 0
            or response.diverging_epoch.epoch >= 0
        )
        is_changed = is_changed or response.preferred_read_replica >= 0
        if response.high_watermark != self.last_sent_high_watermark:
            is_changed = True
        if response.log_start_offset != self.last_sent_log_start_offset:
            is_changed = True
        self.last_sent_log_start_offset = response.log_start_offset
        self.last_sent_high_watermark = response.high_watermark
        return is_changed


def parse_fetch_partitions(
    request: FetchRequest, *, uses_topic_ids: bool
) -> dict[PartitionKey, FetchPartition]:
    """In the order of the request; of one that is named twice, what is said last."""
    fetch_partitions: dict[PartitionKey, FetchPartition] = {}
    for topic in request.topics:
        _add_fetch_partitions(
            fetch_partitions, topic, topic.partitions, uses_topic_ids=uses_topic_ids
        )
    return fetch_partitions


async def parse_fetch_partitions_sliced(
    request: FetchRequest, *, uses_topic_ids: bool
) -> dict[PartitionKey, FetchPartition]:
    """The same, for many."""
    fetch_partitions: dict[PartitionKey, FetchPartition] = {}
    time_slice = TimeSlice()
    for topic in request.topics:
        for begin in range(0, len(topic.partitions), INLINE_ENTRIES_MAX):
            _add_fetch_partitions(
                fetch_partitions,
                topic,
                topic.partitions[begin : begin + INLINE_ENTRIES_MAX],
                uses_topic_ids=uses_topic_ids,
            )
            if time_slice.is_used_up:
                await time_slice.yield_to_loop()
    return fetch_partitions


def _add_fetch_partitions(
    fetch_partitions: dict[PartitionKey, FetchPartition],
    topic: FetchRequest.Topic,
    partitions: Iterable[PartitionRequest],
    *,
    uses_topic_ids: bool,
) -> None:
    topic_id = topic.topic_id
    name = None if uses_topic_ids else topic.topic
    for partition_request in partitions:
        fetch_partitions[
            topic_id if uses_topic_ids else topic.topic, partition_request.partition
        ] = FetchPartition(name, topic_id, partition_request)


def parse_forgotten_partitions(
    request: FetchRequest, *, uses_topic_ids: bool
) -> list[PartitionKey]:
    return [
        (topic.topic_id if uses_topic_ids else topic.topic, index)
        for topic in request.forgotten_topics_data
        for index in topic.partitions
    ]
