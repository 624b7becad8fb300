"""One client's incremental fetches (KIP-227): what it wants to read, and what it has been told.

The first fetch of a session names every partition.  Each later one names those of which it wants
something else now, and those it wants no more.  The answer has a line only for partitions with

    records, an error, a diverging epoch or a closer replica,
    or a high watermark or a log start that the client has not been told yet.

A partition whose records went out goes to the end of the session, so that none starves behind
others when answers are full.

What nobody knows is wanted all the same: it may be created.  But a client that wants too much of
that is not worth a session.

Invariant: every request of a session has the epoch after that of the one before.
Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from odradek.broker.replicas.leader import Heard, LeaderRole, Progress
from odradek.broker.replicas.partition import Partition
from odradek.broker.turns import FEW, Turn
from odradek.protocol.api.fetch import FetchRequest, FetchResponse
from odradek.protocol.errors import InvalidFetchSessionEpoch
from odradek.protocol.types import ZERO_UUID, Uuid

NO_SESSION = 0
#: What asks for a new session, and what ends one or does without.
INITIAL_EPOCH, FINAL_EPOCH = 0, -1
_EPOCH_MAX = 2**31 - 1
NOT_TOLD = -1
#: How many partitions that are not here a session may have.
ABSENT_MAX = 1000

Asked = FetchRequest.Topic.Partition
Line = FetchResponse.Topic.Partition
#: A topic's name, or its id in versions that have ids, and the partition's number.
Key = tuple[str | Uuid, int]


class Wanted:
    """A partition that somebody wants to read.

    ``line`` is what was found last.  If that was nothing, ``role`` is the leader's role of then: as
    long as it lasts, and what was told is still so, there is still nothing for whoever reads
    committed records only, if ``is_committed``, or for others.
    """

    __slots__ = (
        "asked",
        "is_committed",
        "line",
        "partition",
        "progress",
        "role",
        "told_high_watermark",
        "told_start_offset",
        "topic",
        "topic_id",
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


def epoch_after(epoch: int) -> int:
    """Zero is passed over when it wraps around: it would ask for a new session."""
    return 1 if epoch == _EPOCH_MAX else epoch + 1


class FetchSession:
    """What one client reads, over many requests."""

    __slots__ = (
        "created_ms",
        "epoch",
        "has_ids",
        "heard",
        "id",
        "is_privileged",
        "last_used_ms",
        "partitions",
        "size",
    )

    def __init__(
        self,
        session_id: int,
        partitions: dict[Key, Wanted],
        *,
        is_privileged: bool,
        has_ids: bool,
        now_ms: int,
    ) -> None:
        """``is_privileged``: a follower, whose session consumers do not drive out."""
        self.id = session_id
        self.partitions = partitions
        self.is_privileged = is_privileged
        self.has_ids = has_ids
        self.created_ms = self.last_used_ms = now_ms
        self.heard = Heard(now_ms)
        #: The epoch that the next request must have.
        self.epoch = epoch_after(INITIAL_EPOCH)
        #: How many partitions it had when it was last used: what its place in the cache is worth.
        self.size = len(partitions)

    def update(self, wanted: dict[Key, Wanted], forgotten: Iterable[Key]) -> None:
        partitions = self.partitions
        for key, new in wanted.items():
            known = partitions.get(key)
            if known is None:
                partitions[key] = new
            else:
                known.ask(new.asked)
        for key in forgotten:
            gone = partitions.pop(key, None)
            if gone is not None:
                gone.forgotten()

    def move_to_end(self, wanted: Wanted) -> None:
        """Unless it was forgotten while the answer waited."""
        key = wanted.key
        if self.partitions.pop(key, None) is not None:
            self.partitions[key] = wanted


def has_too_many_absent(found: Sequence[Wanted]) -> bool:
    return len(found) > ABSENT_MAX and sum(each.partition is None for each in found) > ABSENT_MAX


class SessionlessFetch:
    """All is asked for, all is answered, and nothing is remembered."""

    __slots__ = ("session_id", "wanted")

    heard = None

    def __init__(self, wanted: dict[Key, Wanted]) -> None:
        self.wanted = list(wanted.values())
        self.session_id = NO_SESSION

    def settle(self, found: list[Wanted]) -> list[Wanted]:
        """Those of which the client is to be told."""
        return found


class IncrementalFetch:
    """What has changed since the last answer."""

    __slots__ = ("_end", "_epoch", "_session", "heard", "session_id", "wanted")

    def __init__(self, session: FetchSession, end: Callable[[FetchSession], None]) -> None:
        """The request has been taken into the session, which ``end`` forgets."""
        self._session = session
        self._end = end
        self._epoch = session.epoch
        self.wanted = list(session.partitions.values())
        self.session_id = session.id
        self.heard = session.heard

    def settle(self, found: list[Wanted]) -> list[Wanted]:
        """As above; refused if another request of the session has come while this one waited."""
        session = self._session
        if session.epoch != self._epoch:
            raise InvalidFetchSessionEpoch(f"session {session.id} is in epoch {session.epoch} now")
        if has_too_many_absent(found):
            self._end(session)
        told = [wanted for wanted in found if wanted.tell()]
        for wanted in told:
            if wanted.line is not None and wanted.line.records:
                session.move_to_end(wanted)
        return told
