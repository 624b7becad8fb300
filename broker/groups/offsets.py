"""The offsets of one group id: those that are committed, and those of open transactions.

    commit              counts at once
    commit_pending      counts when its producer's transaction is committed
    forget              a tombstone: nothing is left for the partition, pending or not
    complete            a marker: what is pending of the producer counts now, or never

Of two commits for a partition the one that is later in the log counts, however they come to count.

Invariant: these are the only ways of change, and loading takes the same; so what is here is what
replaying the log gives.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

NEVER = -1

#: A topic and a partition's number.
Place = tuple[str, int]


class Commit(NamedTuple):
    """How far somebody has read."""

    offset: int
    leader_epoch: int  # -1 if the client did not say
    metadata: str
    committed_ms: int
    expires_ms: int  # NEVER: the group decides
    #: Where the commit is in the group's log.
    record_offset: int


class GroupOffsets:
    """Of one group id."""

    __slots__ = ("committed", "pending")

    def __init__(self) -> None:
        self.committed: dict[Place, Commit] = {}
        #: By producer id.
        self.pending: dict[int, dict[Place, Commit]] = {}

    def copy(self) -> GroupOffsets:
        """Commits are shared: they never change."""
        twin = GroupOffsets()
        twin.committed = self.committed.copy()
        twin.pending = {each: commits.copy() for each, commits in self.pending.items()}
        return twin

    @property
    def is_empty(self) -> bool:
        return not self.committed and not self.pending

    def commit(self, place: Place, commit: Commit) -> None:
        present = self.committed.get(place)
        if present is None or present.record_offset < commit.record_offset:
            self.committed[place] = commit

    def commit_pending(self, producer_id: int, place: Place, commit: Commit) -> None:
        self.pending.setdefault(producer_id, {})[place] = commit

    def forget(self, place: Place) -> None:
        self.committed.pop(place, None)
        for producer_id, commits in [*self.pending.items()]:
            if commits.pop(place, None) is not None and not commits:
                del self.pending[producer_id]

    def complete(self, producer_id: int, *, is_commit: bool) -> None:
        commits = self.pending.pop(producer_id, {})
        if is_commit:
            for place, commit in commits.items():
                self.commit(place, commit)

    def is_pending(self, place: Place) -> bool:
        """Whether a transaction may still change what is committed."""
        return any(place in commits for commits in self.pending.values())

    def has(self, place: Place) -> bool:
        """Whether there is anything of it."""
        return place in self.committed or self.is_pending(place)

    def is_older(self, place: Place, record_offset: int) -> bool:
        """Whether all that there is of it comes before this in the log."""
        found = (commits.get(place) for commits in (self.committed, *self.pending.values()))
        return all(each.record_offset < record_offset for each in found if each is not None)

    def places(self) -> Iterator[Place]:
        """All that there is anything of."""
        seen = dict.fromkeys(self.committed)
        for commits in self.pending.values():
            seen.update(dict.fromkeys(commits))
        return iter(seen)
