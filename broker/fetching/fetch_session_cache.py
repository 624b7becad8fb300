"""Fetch session cache: the fetch sessions of all clients, with a limited number of slots.

When all slots are in use, a new session evicts

    the least recently used session, if its last use is longer ago than ``eviction_ms``; or
    the smallest session that it may evict, if the new one is larger.

If neither exists, the client gets no session and sends full fetches.  The session of a follower is
privileged: it counts as larger than that of every consumer and may evict any consumer's.  A
consumer cannot evict a consumer, nor a follower a follower, before the session has been in use for
``eviction_ms``.

The search for the smallest checks all sessions, but only when every slot is taken and in use.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Callable
from random import randrange

from odradek.broker.fetching.dirty_partitions import (
    FULL_SCAN_INTERVAL_MS,
    AllPartitions,
    DirtyPartitions,
    FetchRequester,
)
from odradek.broker.fetching.fetch_partition import (
    FetchPartition,
    PartitionKey,
    parse_fetch_partitions,
    parse_fetch_partitions_sliced,
    parse_forgotten_partitions,
)
from odradek.broker.fetching.fetch_session import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    INVALID_SESSION_ID,
    FetchSession,
    IncrementalFetchContext,
    SessionlessFetchContext,
    has_too_many_unknown,
    next_epoch,
)
from odradek.protocol.api.fetch import FetchRequest
from odradek.protocol.errors import (
    FetchSessionIdNotFound,
    FetchSessionTopicIdError,
    InvalidFetchSessionEpoch,
)

#: The same as in Kafka, which has no setting for it.
EVICTION_MS = 120_000
_FIRST_VERSION_WITH_TOPIC_IDS = 13


class FetchSessionCache:
    """Sessions by id, the least recently used first."""

    def __init__(
        self,
        *,
        slots: int,
        now_ms: Callable[[], int],
        eviction_ms: int = EVICTION_MS,
        full_scan_interval_ms: int = FULL_SCAN_INTERVAL_MS,
    ) -> None:
        self._slots = slots
        self._eviction_ms = eviction_ms
        self._full_scan_interval_ms = full_scan_interval_ms
        self._now_ms = now_ms
        self._sessions: dict[int, FetchSession] = {}
        self.evicted_count = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partition_count(self) -> int:
        return sum(session.size for session in self._sessions.values())

    def new_context(self, request: FetchRequest, version: int) -> FetchContext:
        """Return the partitions of a request, combined with those of its session.

        Raises an error if the session does not exist, or if the epoch is not the next one.
        """
        uses_topic_ids = version >= _FIRST_VERSION_WITH_TOPIC_IDS
        return self._new_context(
            request,
            parse_fetch_partitions(request, uses_topic_ids=uses_topic_ids),
            uses_topic_ids=uses_topic_ids,
        )

    async def new_context_sliced(self, request: FetchRequest, version: int) -> FetchContext:
        """Like ``new_context``, in time slices for a request with many partitions."""
        uses_topic_ids = version >= _FIRST_VERSION_WITH_TOPIC_IDS
        requested = await parse_fetch_partitions_sliced(request, uses_topic_ids=uses_topic_ids)
        return self._new_context(request, requested, uses_topic_ids=uses_topic_ids)

    def _new_context(
        self,
        request: FetchRequest,
        requested: dict[PartitionKey, FetchPartition],
        *,
        uses_topic_ids: bool,
    ) -> FetchContext:
        epoch, requester = request.session_epoch, _requester_of(request)
        if epoch == FINAL_EPOCH:
            self._close_session(request.session_id)
            return SessionlessFetchContext(
                AllPartitions(requested, is_follower=requester.is_follower)
            )
        if epoch == INITIAL_EPOCH:
            self._close_session(request.session_id)
            return FullFetchContext(self, requested, requester, uses_topic_ids=uses_topic_ids)
        session = self._find_session(request, uses_topic_ids=uses_topic_ids)
        session.update(
            requested, parse_forgotten_partitions(request, uses_topic_ids=uses_topic_ids)
        )
        if not session.partitions:
            self._close_session(session.id)
            return SessionlessFetchContext(
                AllPartitions(requested, is_follower=requester.is_follower)
            )
        self._touch(session)
        session.dirty_partitions.set_requester(requester)
        session.epoch = next_epoch(session.epoch)
        return IncrementalFetchContext(session, self._close_session)

    def _find_session(self, request: FetchRequest, *, uses_topic_ids: bool) -> FetchSession:
        session = self._sessions.get(request.session_id)
        if session is None:
            raise FetchSessionIdNotFound(f"fetch session {request.session_id} does not exist")
        if session.epoch != request.session_epoch:
            raise InvalidFetchSessionEpoch(
                f"fetch session {session.id} expects epoch {session.epoch}, "
                f"but got {request.session_epoch}"
            )
        if session.uses_topic_ids != uses_topic_ids:
            raise FetchSessionTopicIdError(
                f"fetch session {session.id} was created "
                f"{'with' if session.uses_topic_ids else 'without'} topic ids"
            )
        return session

    def _touch(self, session: FetchSession) -> None:
        session.last_used_ms = session.follower_fetch_state.last_request_ms = self._now_ms()
        session.size = len(session.partitions)
        self._sessions[session.id] = self._sessions.pop(session.id)

    def maybe_create_session(
        self,
        partitions: dict[PartitionKey, FetchPartition],
        requester: FetchRequester,
        *,
        uses_topic_ids: bool,
    ) -> FetchSession | None:
        """Return None if there is no slot for it."""
        now_ms, is_privileged = self._now_ms(), requester.is_follower
        is_full = len(self._sessions) >= self._slots
        if is_full and not self._try_evict(
            len(partitions), is_privileged=is_privileged, now_ms=now_ms
        ):
            return None
        session = FetchSession(
            self._new_session_id(),
            partitions,
            DirtyPartitions(
                partitions,
                requester,
                now_ms=self._now_ms,
                full_scan_interval_ms=self._full_scan_interval_ms,
            ),
            is_privileged=is_privileged,
            uses_topic_ids=uses_topic_ids,
            now_ms=now_ms,
        )
        self._sessions[session.id] = session
        return session

    def _try_evict(self, size: int, *, is_privileged: bool, now_ms: int) -> bool:
        least_recently_used = next(iter(self._sessions.values()), None)
        if least_recently_used is None:
            return False
        if now_ms - least_recently_used.last_used_ms > self._eviction_ms:
            self._evict_session(least_recently_used)
            return True
        smallest = min(
            (
                session
                for session in self._sessions.values()
                if self._is_evictable(session, is_privileged)
            ),
            key=lambda session: (session.is_privileged, session.size, session.id),
            default=None,
        )
        if smallest is None or (is_privileged, size) <= (smallest.is_privileged, smallest.size):
            return False
        self._evict_session(smallest)
        return True

    def _is_evictable(self, session: FetchSession, by_privileged: bool) -> bool:
        is_old = session.last_used_ms - session.created_ms > self._eviction_ms
        return is_old or (by_privileged and not session.is_privileged)

    def _evict_session(self, session: FetchSession) -> None:
        self._close_session(session.id)
        self.evicted_count += 1

    def _close_session(self, session_id: int) -> None:
        """Close the session if it exists, and unregister its watchers."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.dirty_partitions.close()

    def _new_session_id(self) -> int:
        """Return a random id, so a restarted or faulty client does not hit another's session."""
        while True:
            session_id = randrange(INVALID_SESSION_ID + 1, 2**31)
            if session_id not in self._sessions:
                return session_id


class FullFetchContext:
    """A full fetch: all partitions are read and sent, and cached if there is a session slot."""

    __slots__ = ("_cache", "_requester", "_uses_topic_ids", "partitions", "session_id")

    follower_fetch_state = None

    def __init__(
        self,
        cache: FetchSessionCache,
        requested: dict[PartitionKey, FetchPartition],
        requester: FetchRequester,
        *,
        uses_topic_ids: bool,
    ) -> None:
        self.partitions = AllPartitions(requested, is_follower=requester.is_follower)
        self.session_id = INVALID_SESSION_ID
        self._cache = cache
        self._requester = requester
        self._uses_topic_ids = uses_topic_ids

    def select_response_partitions(self, results: list[FetchPartition]) -> list[FetchPartition]:
        """Return the partitions to include in the response, and set ``session_id``."""
        if has_too_many_unknown(results):
            return results
        session = self._cache.maybe_create_session(
            {fetch_partition.key: fetch_partition for fetch_partition in results},
            self._requester,
            uses_topic_ids=self._uses_topic_ids,
        )
        if session is not None:
            self.session_id = session.id
            for fetch_partition in results:
                fetch_partition.maybe_update_response_data()
        return results


#: ``partitions`` are to be read; ``select_response_partitions`` selects those to send.
FetchContext = SessionlessFetchContext | FullFetchContext | IncrementalFetchContext


def replica_id_of(request: FetchRequest) -> int:
    """Return the broker id of a follower, or a negative id; version 15 moved the field."""
    return max(request.replica_id, request.replica_state.replica_id)


def _requester_of(request: FetchRequest) -> FetchRequester:
    return FetchRequester(
        replica_id_of(request), request.replica_state.replica_epoch, request.isolation_level
    )
