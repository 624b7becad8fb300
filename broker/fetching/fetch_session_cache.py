"""The sessions of all clients that fetch incrementally, as many as there are slots for.

When all slots are taken, a new session gets one by driving out

    the one that was not used for longest, if that is longer ago than ``eviction_ms``;
    else the smallest of those it may drive out, if it is larger than that itself

and goes without a session otherwise: such a client asks for everything every time.  Followers are
privileged: they count as larger than every consumer, and may drive out any consumer.  All others
are safe from each other, and followers from followers, until they are older than ``eviction_ms``.

Finding the smallest goes through all sessions, but only when every slot is taken and in use.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Callable
from random import randrange

from odradek.broker.fetching.fetch_session import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    FetchSession,
    IncrementalFetch,
    SessionlessFetch,
    epoch_after,
    has_too_many_absent,
)
from odradek.broker.fetching.stirred_partitions import (
    WHOLE_PASS_MS,
    AllPartitions,
    Asker,
    StirredPartitions,
)
from odradek.broker.fetching.wanted import Key, Wanted, forgotten_in, wanted_in, wanted_in_turns
from odradek.protocol.api.fetch import FetchRequest
from odradek.protocol.errors import (
    FetchSessionIdNotFound,
    FetchSessionTopicIdError,
    InvalidFetchSessionEpoch,
)

#: Kafka's, which has no setting for it.
EVICTION_MS = 120_000
_FIRST_VERSION_OF_TOPIC_IDS = 13


class FetchSessions:
    """Sessions by id, the one that was not used for longest first."""

    def __init__(
        self,
        *,
        slots: int,
        now_ms: Callable[[], int],
        eviction_ms: int = EVICTION_MS,
        whole_pass_ms: int = WHOLE_PASS_MS,
    ) -> None:
        self._slots = slots
        self._eviction_ms = eviction_ms
        self._whole_pass_ms = whole_pass_ms
        self._now_ms = now_ms
        self._sessions: dict[int, FetchSession] = {}
        self.evicted_count = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partition_count(self) -> int:
        return sum(session.size for session in self._sessions.values())

    def open(self, request: FetchRequest, version: int) -> OpenFetch:
        """What a request asks for, together with what its session knows.

        Refused if there is no such session, or if the request is not the next one in it.
        """
        has_ids = version >= _FIRST_VERSION_OF_TOPIC_IDS
        return self._open(request, wanted_in(request, has_ids=has_ids), has_ids=has_ids)

    async def open_in_turns(self, request: FetchRequest, version: int) -> OpenFetch:
        """The same, for a request that asks for much."""
        has_ids = version >= _FIRST_VERSION_OF_TOPIC_IDS
        wanted = await wanted_in_turns(request, has_ids=has_ids)
        return self._open(request, wanted, has_ids=has_ids)

    def _open(
        self, request: FetchRequest, wanted: dict[Key, Wanted], *, has_ids: bool
    ) -> OpenFetch:
        epoch, asker = request.session_epoch, _asker_of(request)
        if epoch == FINAL_EPOCH:
            self._end(request.session_id)
            return SessionlessFetch(AllPartitions(wanted, is_follower=asker.is_follower))
        if epoch == INITIAL_EPOCH:
            self._end(request.session_id)
            return FullFetch(self, wanted, asker, has_ids=has_ids)
        session = self._next_in(request, has_ids=has_ids)
        session.update(wanted, forgotten_in(request, has_ids=has_ids))
        if not session.partitions:
            self._end(session.id)
            return SessionlessFetch(AllPartitions(wanted, is_follower=asker.is_follower))
        self._touch(session)
        session.stirred.asked_by(asker)
        session.epoch = epoch_after(session.epoch)
        return IncrementalFetch(session, self._end)

    def _next_in(self, request: FetchRequest, *, has_ids: bool) -> FetchSession:
        session = self._sessions.get(request.session_id)
        if session is None:
            raise FetchSessionIdNotFound(f"there is no session {request.session_id}")
        if session.epoch != request.session_epoch:
            raise InvalidFetchSessionEpoch(
                f"session {session.id} is in epoch {session.epoch}, not {request.session_epoch}"
            )
        if session.has_ids != has_ids:
            raise FetchSessionTopicIdError(
                f"session {session.id} goes {'by' if session.has_ids else 'without'} topic ids"
            )
        return session

    def _touch(self, session: FetchSession) -> None:
        session.last_used_ms = session.heard.asked_ms = self._now_ms()
        session.size = len(session.partitions)
        self._sessions[session.id] = self._sessions.pop(session.id)

    def create(
        self, partitions: dict[Key, Wanted], asker: Asker, *, has_ids: bool
    ) -> FetchSession | None:
        """None if there is no slot for it."""
        now_ms, is_privileged = self._now_ms(), asker.is_follower
        is_full = len(self._sessions) >= self._slots
        if is_full and not self._evict(len(partitions), is_privileged=is_privileged, now_ms=now_ms):
            return None
        session = FetchSession(
            self._new_id(),
            partitions,
            StirredPartitions(
                partitions, asker, now_ms=self._now_ms, whole_pass_ms=self._whole_pass_ms
            ),
            is_privileged=is_privileged,
            has_ids=has_ids,
            now_ms=now_ms,
        )
        self._sessions[session.id] = session
        return session

    def _evict(self, size: int, *, is_privileged: bool, now_ms: int) -> bool:
        longest_unused = next(iter(self._sessions.values()), None)
        if longest_unused is None:
            return False
        if now_ms - longest_unused.last_used_ms > self._eviction_ms:
            self._remove(longest_unused)
            return True
        smallest = min(
            (each for each in self._sessions.values() if self._yields(each, is_privileged)),
            key=lambda each: (each.is_privileged, each.size, each.id),
            default=None,
        )
        if smallest is None or (is_privileged, size) <= (smallest.is_privileged, smallest.size):
            return False
        self._remove(smallest)
        return True

    def _yields(self, session: FetchSession, to_privileged: bool) -> bool:
        is_old = session.last_used_ms - session.created_ms > self._eviction_ms
        return is_old or (to_privileged and not session.is_privileged)

    def _remove(self, session: FetchSession) -> None:
        self._end(session.id)
        self.evicted_count += 1

    def _end(self, session_id: int) -> None:
        """If there is one: nothing of it stays behind at its partitions."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.stirred.end()

    def _new_id(self) -> int:
        """At random, lest a client that was restarted, or misled, hits upon another's."""
        while True:
            new = randrange(NO_SESSION + 1, 2**31)
            if new not in self._sessions:
                return new


class FullFetch:
    """All is asked for, all is answered, and remembered in a new session if there is a slot."""

    __slots__ = ("_asker", "_has_ids", "_sessions", "session_id", "wanted")

    heard = None

    def __init__(
        self,
        sessions: FetchSessions,
        wanted: dict[Key, Wanted],
        asker: Asker,
        *,
        has_ids: bool,
    ) -> None:
        self.wanted = AllPartitions(wanted, is_follower=asker.is_follower)
        self.session_id = NO_SESSION
        self._sessions = sessions
        self._asker = asker
        self._has_ids = has_ids

    def settle(self, found: list[Wanted]) -> list[Wanted]:
        """Those of which the client is to be told; ``session_id`` stands from then on."""
        if has_too_many_absent(found):
            return found
        session = self._sessions.create(
            {wanted.key: wanted for wanted in found}, self._asker, has_ids=self._has_ids
        )
        if session is not None:
            self.session_id = session.id
            for wanted in found:
                wanted.tell()
        return found


#: ``wanted`` is to be read; ``settle`` says of what is found what the client is to be told.
OpenFetch = SessionlessFetch | FullFetch | IncrementalFetch


def replica_in(request: FetchRequest) -> int:
    """Who asks: a broker's id, or one below zero; versions from 15 on have it elsewhere."""
    return max(request.replica_id, request.replica_state.replica_id)


def _asker_of(request: FetchRequest) -> Asker:
    return Asker(replica_in(request), request.replica_state.replica_epoch, request.isolation_level)
