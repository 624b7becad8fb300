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
Asked = Topic.Partition
Forgotten = FetchRequest.ForgottenTopic

NO_SESSION = 0
#: A request of this epoch asks for everything, and for a session.
FIRST_EPOCH = 0
_EPOCHS = 2**31 - 1


class Wanted(NamedTuple):
    """A partition as it is asked for, and the id of its topic."""

    asked: Asked
    topic_id: Uuid


class FollowerSession:
    """With one leader."""

    def __init__(self) -> None:
        self._id = NO_SESSION
        self._epoch = FIRST_EPOCH
        self._wanted: dict[TopicPartition, Wanted] = {}
        #: What is wanted otherwise than at the last request, as it was wanted then; None: not.
        self._before: dict[TopicPartition, Wanted | None] = {}
        self._without_id: set[TopicPartition] = set()
        self._names: dict[Uuid, str] = {}

    @property
    def begins(self) -> bool:
        """Whether the request that is to be sent, or answered, asks for everything."""
        return self._epoch == FIRST_EPOCH

    @property
    def wants_nothing(self) -> bool:
        return not self._wanted

    @property
    def has_ids(self) -> bool:
        """Whether all can be asked for by the ids of their topics, as from version 13 on."""
        return not self._without_id

    def want(self, where: TopicPartition, wanted: Wanted | None) -> None:
        """From now on, until it is wanted otherwise; None: no more."""
        before = self._wanted.get(where)
        if wanted is before:
            return
        self._before.setdefault(where, before)
        if wanted is None:
            del self._wanted[where]
        else:
            self._wanted[where] = wanted
        if wanted is not None and wanted.topic_id == ZERO_UUID:
            self._without_id.add(where)
        else:
            self._without_id.discard(where)

    def fill(self, request: FetchRequest) -> None:
        """What the leader is to be told of what is wanted."""
        request.session_id, request.session_epoch = self._id, self._epoch
        changed, gone = (self._wanted, {}) if self.begins else self._changes()
        self._before.clear()
        for where, each in changed.items():
            self._names[each.topic_id] = where.topic
        request.topics = _topics(changed)
        request.forgotten_topics_data = _forgotten(gone)

    def _changes(self) -> tuple[dict[TopicPartition, Wanted], dict[TopicPartition, Wanted]]:
        """Since the last request: what to ask for from now on, and what to forget."""
        changed, gone, by_ids = {}, {}, self.has_ids
        for where, before in self._before.items():
            wanted = self._wanted.get(where)
            if wanted is before:
                continue
            if wanted is not None:
                changed[where] = wanted
            # A topic that was made again has another id: under the old one it is to be forgotten.
            # By names it would be forgotten altogether.
            if before is not None and (
                wanted is None or (by_ids and wanted.topic_id != before.topic_id)
            ):
                gone[where] = before
        return changed, gone

    def answered(self, response: FetchResponse) -> None:
        """It was an answer without an error for the whole."""
        if response.session_id == NO_SESSION:
            self.lost()
            return
        self._id = response.session_id
        self._epoch = self._epoch % _EPOCHS + 1

    def lost(self) -> None:
        """The next request begins again."""
        self._id, self._epoch = NO_SESSION, FIRST_EPOCH
        self._names = {}

    def names(self) -> Mapping[Uuid, str]:
        """Of the topics that the leader answers for, by the ids that it answers with."""
        return self._names


def _topics(wanted: Mapping[TopicPartition, Wanted]) -> list[Topic]:
    topics: dict[tuple[str, Uuid], Topic] = {}
    for where, (asked, topic_id) in wanted.items():
        key = (where.topic, topic_id)
        if key not in topics:
            topics[key] = Topic(topic=where.topic, topic_id=topic_id, partitions=[])
        topics[key].partitions.append(asked)
    return [*topics.values()]


def _forgotten(gone: Mapping[TopicPartition, Wanted]) -> list[Forgotten]:
    topics: dict[tuple[str, Uuid], list[int]] = {}
    for where, known in gone.items():
        topics.setdefault((where.topic, known.topic_id), []).append(where.partition)
    return [
        Forgotten(topic=name, topic_id=topic_id, partitions=numbers)
        for (name, topic_id), numbers in topics.items()
    ]
