"""What a follower asks its leader for: everything at first, then only what has changed (KIP-227).

The leader keeps what was asked, and answers for all of it.  A session that the leader has not kept,
or an answer that got lost, makes the next request a whole one again.  All others cost what has
changed, however much is wanted.

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
#: A request of this epoch asks for everything, and for a session.
INITIAL_EPOCH = 0
_EPOCH_MAX = 2**31 - 1


class FetchRequestPartition(NamedTuple):
    """A partition as it is asked for, and the id of its topic."""

    partition_request: PartitionRequest
    topic_id: Uuid


class FetchSessionHandler:
    """With one leader."""

    def __init__(self) -> None:
        self._session_id = INVALID_SESSION_ID
        self._epoch = INITIAL_EPOCH
        self._session_partitions: dict[TopicPartition, FetchRequestPartition] = {}
        #: What is wanted otherwise than at the last request, as it was wanted then; None: not.
        self._previous: dict[TopicPartition, FetchRequestPartition | None] = {}
        self._without_topic_id: set[TopicPartition] = set()
        self._topic_names: dict[Uuid, str] = {}

    @property
    def is_full_request(self) -> bool:
        """Whether the request that is to be sent, or answered, asks for everything."""
        return self._epoch == INITIAL_EPOCH

    @property
    def is_empty(self) -> bool:
        return not self._session_partitions

    @property
    def can_use_topic_ids(self) -> bool:
        """Whether all can be asked for by the ids of their topics, as from version 13 on."""
        return not self._without_topic_id

    def update(
        self, topic_partition: TopicPartition, request_partition: FetchRequestPartition | None
    ) -> None:
        """From now on, until it is wanted otherwise; None: no more."""
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
        """What the leader is to be told of what is wanted."""
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
        """Since the last request: what to ask for from now on, and what to forget."""
        changed, forgotten, uses_topic_ids = {}, {}, self.can_use_topic_ids
        for topic_partition, previous in self._previous.items():
            current = self._session_partitions.get(topic_partition)
            if current is previous:
                continue
            if current is not None:
                changed[topic_partition] = current
            # A topic that was made again has another id: under the old one it is to be forgotten.
            # By names it would be forgotten altogether.
            if previous is not None and (
                current is None or (uses_topic_ids and current.topic_id != previous.topic_id)
            ):
                forgotten[topic_partition] = previous
        return changed, forgotten

    def handle_response(self, response: FetchResponse) -> None:
        """It was an answer without an error for the whole."""
        if response.session_id == INVALID_SESSION_ID:
            self.reset()
            return
        self._session_id = response.session_id
        self._epoch = self._epoch % _EPOCH_MAX + 1

    def reset(self) -> None:
        """The next request begins again."""
        self._session_id, self._epoch = INVALID_SESSION_ID, INITIAL_EPOCH
        self._topic_names = {}

    def topic_names(self) -> Mapping[Uuid, str]:
        """Of the topics that the leader answers for, by the ids that it answers with."""
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
