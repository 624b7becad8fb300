"""A partition that somebody wants to read, and what requests say of such.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from odradek.broker.replicas.leader import LeaderRole, Progress
from odradek.broker.replicas.partition import Partition
from odradek.broker.replicas.waiter import Waiter
from odradek.broker.turns import FEW, Turn
from odradek.protocol.api.fetch import FetchRequest, FetchResponse
from odradek.protocol.types import ZERO_UUID, Uuid

NOT_TOLD = -1

Asked = FetchRequest.Topic.Partition
Line = FetchResponse.Topic.Partition
#: A topic's name, or its id in versions that have ids, and the partition's number.
Key = tuple[str | Uuid, int]


class Watch(Protocol):
    """Of a session, which wants to know when one of its partitions has stirred."""

    @property
    def has_fetch(self) -> bool:
        """Whether one waits."""

    def stirs(self, wanted: Wanted, /) -> None: ...


class Wanted:
    """A partition that somebody wants to read.

    ``line`` is what was found last.  If that was nothing, ``role`` is the leader's role of then: as
    long as it lasts, and what was told is still so, there is still nothing for whoever reads
    committed records only, if ``is_committed``, or for others.

    One that belongs to a session may stand at its partition, for the session's ``watch``.
    """

    __slots__ = (
        "_place",
        "asked",
        "is_committed",
        "line",
        "partition",
        "progress",
        "rank",
        "role",
        "told_high_watermark",
        "told_start_offset",
        "topic",
        "topic_id",
        "watch",
    )

    def __init__(self, topic: str | None, topic_id: Uuid, asked: Asked) -> None:
        """``topic`` is None as long as it is not known which name belongs to the id."""
        self.topic = topic
        self.topic_id = topic_id
        self.asked = asked
        self.partition: Partition | None = None
        self.role: LeaderRole | None = None
        #: Of the follower that wants it, once that has been noted.
        self.progress: Progress | None = None
        self.is_committed = False
        self.told_high_watermark = NOT_TOLD
        self.told_start_offset = NOT_TOLD
        self.line: Line | None = None
        self.watch: Watch | None = None
        #: Its place in the order of the session.
        self.rank = 0
        #: Where it stands, if it does.
        self._place: set[Waiter] | None = None

    @property
    def key(self) -> Key:
        name = self.topic_id if self.topic_id != ZERO_UUID else self.topic
        assert name is not None, self
        return name, self.asked.partition

    def ask(self, asked: Asked) -> None:
        """From another offset, or in another epoch, than before."""
        if asked.current_leader_epoch != self.asked.current_leader_epoch:
            # The last answer may have come when its epoch was over, and not have been taken.
            self.told_high_watermark = NOT_TOLD
        self.asked = asked
        self.role = None

    def forgotten(self) -> None:
        """The session that wanted it does so no more."""
        if self.progress is not None:
            self.progress.leave_session()

    # Waiting

    def stand(self, *, is_follower: bool) -> None:
        """At its partition, until that stirs; one that nobody knows has no place."""
        partition = self.partition
        if partition is None:
            return
        place = partition.waiting_followers if is_follower else partition.waiting
        if place is not self._place:
            self.leave()
            place.add(self)
            self._place = place

    def leave(self) -> None:
        if self._place is not None:
            self._place.discard(self)
            self._place = None

    @property
    def is_waiting(self) -> bool:
        return self.watch is not None and self.watch.has_fetch

    def wake(self) -> None:
        """Once: many sessions whose clients have gone should not burden every append."""
        self.leave()
        assert self.watch is not None, self
        self.watch.stirs(self)

    # Telling

    def tell(self) -> bool:
        """Note what the client is being told; False if it knows all of it already."""
        line = self.line
        assert line is not None, self
        is_news = bool(line.records) or line.error_code != 0 or line.diverging_epoch.epoch >= 0
        is_news = is_news or line.preferred_read_replica >= 0
        if line.high_watermark != self.told_high_watermark:
            is_news = True
        if line.log_start_offset != self.told_start_offset:
            is_news = True
        self.told_start_offset = line.log_start_offset
        self.told_high_watermark = line.high_watermark
        return is_news


def wanted_in(request: FetchRequest, *, has_ids: bool) -> dict[Key, Wanted]:
    """In the order of the request; of one that is named twice, what is said last."""
    wanted: dict[Key, Wanted] = {}
    for topic in request.topics:
        _want(wanted, topic, topic.partitions, has_ids=has_ids)
    return wanted


async def wanted_in_turns(request: FetchRequest, *, has_ids: bool) -> dict[Key, Wanted]:
    """The same, for many."""
    wanted: dict[Key, Wanted] = {}
    turn = Turn()
    for topic in request.topics:
        for begin in range(0, len(topic.partitions), FEW):
            _want(wanted, topic, topic.partitions[begin : begin + FEW], has_ids=has_ids)
            if turn.is_over:
                await turn.next()
    return wanted


def _want(
    wanted: dict[Key, Wanted],
    topic: FetchRequest.Topic,
    partitions: Iterable[Asked],
    *,
    has_ids: bool,
) -> None:
    topic_id = topic.topic_id
    name = None if has_ids else topic.topic
    for asked in partitions:
        wanted[topic_id if has_ids else topic.topic, asked.partition] = Wanted(
            name, topic_id, asked
        )


def forgotten_in(request: FetchRequest, *, has_ids: bool) -> list[Key]:
    return [
        (topic.topic_id if has_ids else topic.topic, index)
        for topic in request.forgotten_topics_data
        for index in topic.partitions
    ]
