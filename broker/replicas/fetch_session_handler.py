"""The follower's side of an incremental fetch session with one leader (KIP-227).

Kafka: FetchSessionHandler.

The first request lists all partitions; later requests list only the changes.  The leader keeps the
list and responds for all its partitions.  If the leader has not kept the session, or if a response
was lost, the next request is a full one.  The cost of an incremental request depends on the number
of changes, not on the number of partitions.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from odradek.protocol.api.fetch import FetchRequest, FetchResponse
from odradek.protocol.types import ZERO_UUID, TopicPartition, Uuid

Topic = FetchRequest.Topic
PartitionRequest = Topic.Partition
ForgottenTopic = FetchRequest.ForgottenTopic

INVALID_SESSION_ID = 0
#: A request with this epoch is a full one and asks for a new session.
INITIAL_EPOCH = 0
_EPOCH_MAX = 2**31 - 1


class FetchRequestPartition(NamedTuple):
    """The request for one partition, and its topic id."""

    partition_request: PartitionRequest
    topic_id: Uuid


class FetchSessionHandler:
    """The fetch session with one leader."""

    def __init__(self) -> None:
        self._session_id = INVALID_SESSION_ID
        self._epoch = INITIAL_EPOCH
        self._session_partitions: dict[TopicPartition, FetchRequestPartition] = {}
        #: The partitions that changed since the last request, with their value in that request;
        #: None if they were not in the session.
        self._previous: dict[TopicPartition, FetchRequestPartition | None] = {}
        self._without_topic_id: set[TopicPartition] = set()
        self._topic_names: dict[Uuid, str] = {}

    @property
    def is_full_request(self) -> bool:
        """Whether the request to be sent, or in flight, is a full one."""
        return self._epoch == INITIAL_EPOCH

    @property
    def is_empty(self) -> bool:
        return not self._session_partitions

    @property
    def can_use_topic_ids(self) -> bool:
        """Whether all topics have an id, as version 13 and later require."""
        return not self._without_topic_id

    def update(
        self, topic_partition: TopicPartition, request_partition: FetchRequestPartition | None
    ) -> None:
        """Set what the session fetches for a partition; None removes it."""
        previous = self._session_partitions.get(topic_partition)
        if request_partition is previous:
            return
        self._previous.setdefault(topic_partition, previous)
        if request_partition is None:
            del self._session_partitions[topic_partition]
        else:
            self._session_partitions[topic_partition] = request_partition
        if request_partition is not None and request_partition.topic_id == ZERO_UUID:
            self._without_topic_id.add(topic_partition)
        else:
            self._without_topic_id.discard(topic_partition)

    def fill_request(self, request: FetchRequest) -> None:
        """Set the session fields and the changed and forgotten partitions of ``request``."""
        request.session_id, request.session_epoch = self._session_id, self._epoch
        changed, forgotten = (
            (self._session_partitions, {}) if self.is_full_request else self._changes()
        )
        self._previous.clear()
        for topic_partition, request_partition in changed.items():
            self._topic_names[request_partition.topic_id] = topic_partition.topic
        request.topics = _request_topics(changed)
        request.forgotten_topics_data = _forgotten_topics(forgotten)

    def _changes(
        self,
    ) -> tuple[
        dict[TopicPartition, FetchRequestPartition], dict[TopicPartition, FetchRequestPartition]
    ]:
        """Return the changed and the forgotten partitions since the last request."""
        changed, forgotten, uses_topic_ids = {}, {}, self.can_use_topic_ids
        for topic_partition, previous in self._previous.items():
            current = self._session_partitions.get(topic_partition)
            if current is previous:
                continue
            if current is not None:
                changed[topic_partition] = current
            # A re-created topic has a new id, and the old id must be forgotten.  In a request by
            # names, forgetting would remove the new topic as well.
            if previous is not None and (
                current is None or (uses_topic_ids and current.topic_id != previous.topic_id)
            ):
                forgotten[topic_partition] = previous
        return changed, forgotten

    def handle_response(self, response: FetchResponse) -> None:
        """Advance the session after a response without a top-level error."""
        if response.session_id == INVALID_SESSION_ID:
            self.reset()
            return
        self._session_id = response.session_id
        self._epoch = self._epoch % _EPOCH_MAX + 1

    def reset(self) -> None:
        """Make the next request a full one without a session."""
        self._session_id, self._epoch = INVALID_SESSION_ID, INITIAL_EPOCH
        self._topic_names = {}

    def topic_names(self) -> Mapping[Uuid, str]:
        """Return the names of the topics in the session by the ids that the leader uses."""
        return self._topic_names


def _request_topics(
    request_partitions: Mapping[TopicPartition, FetchRequestPartition],
) -> list[Topic]:
    topics: dict[tuple[str, Uuid], Topic] = {}
    for topic_partition, (partition_request, topic_id) in request_partitions.items():
        key = (topic_partition.topic, topic_id)
        if key not in topics:
            topics[key] = Topic(topic=topic_partition.topic, topic_id=topic_id, partitions=[])
        topics[key].partitions.append(partition_request)
    return [*topics.values()]


def _forgotten_topics(
    removed: Mapping[TopicPartition, FetchRequestPartition],
) -> list[ForgottenTopic]:
    topics: dict[tuple[str, Uuid], list[int]] = {}
    for topic_partition, request_partition in removed.items():
        topics.setdefault((topic_partition.topic, request_partition.topic_id), []).append(
            topic_partition.partition
        )
    return [
        ForgottenTopic(topic=name, topic_id=topic_id, partitions=indexes)
        for (name, topic_id), indexes in topics.items()
    ]
