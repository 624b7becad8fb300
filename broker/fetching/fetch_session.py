"""One client's incremental fetches (KIP-227): what it wants to read, and what it has been told.

The first fetch of a session names every partition.  Each later one names those of which it wants
something else now, and those it wants no more.  The answer has a line only for partitions with

    records, an error, a diverging epoch or a closer replica,
    or a high watermark or a log start that the client has not been told yet.

A partition whose records went out goes to the end of the session, so that none starves behind
others when answers are full.  Which of them are looked at: stirred_partitions.py.

What nobody knows is wanted all the same: it may be created.  But a client that wants too much of
that is not worth a session.

Invariant: every request of a session has the epoch after that of the one before.
Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from odradek.broker.fetching.stirred_partitions import AllPartitions, StirredPartitions
from odradek.broker.fetching.wanted import Key, Wanted
from odradek.broker.replicas.leader import Heard
from odradek.protocol.errors import InvalidFetchSessionEpoch

NO_SESSION = 0
#: What asks for a new session, and what ends one or does without.
INITIAL_EPOCH, FINAL_EPOCH = 0, -1
_EPOCH_MAX = 2**31 - 1
#: How many partitions that are not here a session may have.
ABSENT_MAX = 1000


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
        "stirred",
    )

    def __init__(
        self,
        session_id: int,
        partitions: dict[Key, Wanted],
        stirred: StirredPartitions,
        *,
        is_privileged: bool,
        has_ids: bool,
        now_ms: int,
    ) -> None:
        """``is_privileged``: a follower, whose session consumers do not drive out."""
        self.id = session_id
        self.partitions = partitions
        self.stirred = stirred
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
                partitions[key] = known = new
            else:
                known.ask(new.asked)
            self.stirred.add(known)
        for key in forgotten:
            gone = partitions.pop(key, None)
            if gone is not None:
                gone.forgotten()
                self.stirred.remove(gone)

    def move_to_end(self, wanted: Wanted) -> None:
        """Unless it was forgotten while the answer waited."""
        key = wanted.key
        if self.partitions.pop(key, None) is not None:
            self.partitions[key] = wanted
            self.stirred.move_to_end(wanted)


def has_too_many_absent(found: Sequence[Wanted]) -> bool:
    return len(found) > ABSENT_MAX and sum(each.partition is None for each in found) > ABSENT_MAX


class SessionlessFetch:
    """All is asked for, all is answered, and nothing is remembered."""

    __slots__ = ("session_id", "wanted")

    heard = None

    def __init__(self, wanted: AllPartitions) -> None:
        self.wanted = wanted
        self.session_id = NO_SESSION

    def settle(self, found: list[Wanted]) -> list[Wanted]:
        """Those of which the client is to be told."""
        return found


class IncrementalFetch:
    """What has changed since the last answer."""

    __slots__ = ("_end", "_epoch", "_session", "heard", "session_id", "wanted")

    def __init__(self, session: FetchSession, end: Callable[[int], None]) -> None:
        """The request has been taken into the session, which ``end`` forgets."""
        self._session = session
        self._end = end
        self._epoch = session.epoch
        self.wanted = session.stirred
        self.session_id = session.id
        self.heard = session.heard

    def settle(self, found: list[Wanted]) -> list[Wanted]:
        """As above; refused if another request of the session has come while this one waited."""
        session = self._session
        if session.epoch != self._epoch:
            raise InvalidFetchSessionEpoch(f"session {session.id} is in epoch {session.epoch} now")
        if has_too_many_absent(found):
            self._end(session.id)
        told = [wanted for wanted in found if wanted.tell()]
        for wanted in told:
            if wanted.line is not None and wanted.line.records:
                session.move_to_end(wanted)
        return told
