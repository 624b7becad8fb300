"""Partition of a fetch request, and the parsing of these requests.  Kafka: CachedPartition.

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
    """The DirtyPartitions of a session, notified when one of its partitions changes."""

    @property
    def has_pending_fetch(self) -> bool:
        """Whether a fetch of the session is delayed."""

    def mark_dirty(self, fetch_partition: FetchPartition, /) -> None: ...


class FetchPartition:
    """A partition that a client fetches.

    ``partition_response`` is the last result.  If it was empty, ``leader_state`` is the leader
    state at that time: while that is current, and the last sent offsets are unchanged, there is
    still nothing to read for a requester with the same ``is_read_committed``.

    A partition of a session may be registered as a watcher, on behalf of ``dirty_listener``.
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
        """``topic`` is None until the name of the topic id is known."""
        self.topic = topic
        self.topic_id = topic_id
        self.partition_request = partition_request
        self.partition: Partition | None = None
        self.leader_state: LeaderState | None = None
        #: The state of the fetching follower, once it is recorded.
        self.replica_state: ReplicaState | None = None
        self.is_read_committed = False
        self.last_sent_high_watermark = NOT_SENT
        self.last_sent_log_start_offset = NOT_SENT
        self.partition_response: PartitionResponse | None = None
        self.dirty_listener: DirtyListener | None = None
        #: The position in the order of the session.
        self.rank = 0
        #: The set of watchers in which it is registered.
        self._watcher_set: set[FetchWatcher] | None = None

    @property
    def key(self) -> PartitionKey:
        name = self.topic_id if self.topic_id != ZERO_UUID else self.topic
        assert name is not None, self
        return name, self.partition_request.partition

    def update_request(self, partition_request: PartitionRequest) -> None:
        """Fetch from another offset or leader epoch than before."""
        if partition_request.current_leader_epoch != self.partition_request.current_leader_epoch:
            # The client may have discarded the last response, because its epoch was over.
            self.last_sent_high_watermark = NOT_SENT
        self.partition_request = partition_request
        self.leader_state = None

    def leave_session(self) -> None:
        """The session no longer fetches this partition."""
        if self.replica_state is not None:
            self.replica_state.leave_session()

    # Watching the partition

    def register(self, *, is_follower: bool) -> None:
        """Watch the partition until it changes; an unknown partition cannot be watched."""
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
        """Unregister first: sessions of disconnected clients should not burden every append."""
        self.unregister()
        assert self.dirty_listener is not None, self
        self.dirty_listener.mark_dirty(self)

    # Responding

    def maybe_update_response_data(self) -> bool:
        """Record what the response sends; return False if the client knows all of it already."""
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
    """Parse in the order of the request; the last entry wins if a partition is named twice."""
    fetch_partitions: dict[PartitionKey, FetchPartition] = {}
    for topic in request.topics:
        _add_fetch_partitions(
            fetch_partitions, topic, topic.partitions, uses_topic_ids=uses_topic_ids
        )
    return fetch_partitions


async def parse_fetch_partitions_sliced(
    request: FetchRequest, *, uses_topic_ids: bool
) -> dict[PartitionKey, FetchPartition]:
    """Like ``parse_fetch_partitions``, in time slices for many partitions."""
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
