"""What a follower asks its leader for: everything at first, then only what has changed (KIP-227).

The leader keeps what was asked, and answers for all of it.  A session that the leader has not kept,
or an answer that got lost, makes the next request a whole one again.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
        self._known: Mapping[TopicPartition, Wanted] = {}
        self._names: dict[Uuid, str] = {}

    @property
    def begins(self) -> bool:
        """Whether the request that is to be sent, or answered, asks for everything."""
        return self._epoch == FIRST_EPOCH

    def fill(self, request: FetchRequest, wanted: Mapping[TopicPartition, Wanted]) -> None:
        """What the leader is to be told of ``wanted``, which is kept and must not change."""
        request.session_id, request.session_epoch = self._id, self._epoch
        before: Mapping[TopicPartition, Wanted] = {} if self.begins else self._known
        # Most are the very same: nothing of them is compared.
        changed = {
            where: each
            for where, each in wanted.items()
            if (known := before.get(where)) is not each and known != each
        }
        gone = {where: before[where] for where in before.keys() - wanted.keys()}
        for where, each in changed.items():
            # A topic that was made again has another id: under the old one it is to be forgotten.
            if where in before and before[where].topic_id != each.topic_id:
                gone[where] = before[where]
            self._names[each.topic_id] = where.topic
        request.topics = _topics(changed)
        request.forgotten_topics_data = _forgotten(gone)
        self._known = wanted

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
        self._known, self._names = {}, {}

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


def have_ids(wanted: Iterable[Wanted]) -> bool:
    """Whether they can be asked for by the ids of their topics, as from version 13 on."""
    return all(each.topic_id != ZERO_UUID for each in wanted)
