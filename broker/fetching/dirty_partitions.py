"""Which partitions of a fetch are to be looked at, and who is woken when one of them stirs.

    AllPartitions       without a session: all, every time
    StirredPartitions   in a session: those of which there may be news

A session may have thousands of partitions, of which few stir from one fetch to the next.  One that
would be passed over by the next is *quiet*: it is not looked at any more, but stands at its
partition, and is among the stirred again as soon as it is woken there.

What changes without waking anybody is found by looking at all from time to time: where a log
begins, when old segments are deleted; that a follower was noted by another of its sessions.

High watermarks do not wake followers either, but are no such case: what is quiet for a follower has
its watermark at the end of the log, where it stays until something is appended.

Invariant: whatever is not stirred stands at its partition; and while a fetch waits, all do.
Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from operator import attrgetter
from typing import NamedTuple

from odradek.broker.fetching.wanted import Key, Wanted
from odradek.broker.replicas.waiter import Waiter, leave, stand

#: How late a client may be told of what wakes nobody.  It is less than a fetch waits as a rule, so
#: an idle session goes over all of its partitions no more often than it would by its fetches.
WHOLE_PASS_MS = 200
_rank = attrgetter("rank")


class Asker(NamedTuple):
    """On whose behalf partitions were found quiet: for another they may not be."""

    replica_id: int
    replica_epoch: int
    isolation_level: int

    @property
    def is_follower(self) -> bool:
        return self.replica_id >= 0


class AllPartitions:
    """Each is due in every pass, and whoever waits stands at all of them until it goes."""

    __slots__ = ("_is_follower", "_places", "_wanted")

    def __init__(self, wanted: dict[Key, Wanted], *, is_follower: bool) -> None:
        self._wanted = list(wanted.values())
        self._is_follower = is_follower
        self._places: list[set[Waiter]] = []

    def __len__(self) -> int:
        return len(self._wanted)

    def __iter__(self) -> Iterator[Wanted]:
        return iter(self._wanted)

    def due(self) -> list[Wanted]:
        return self._wanted

    def pass_over(self, wanted: Wanted) -> None:
        """It is due the next time all the same."""

    def stand(self, waiter: Waiter) -> None:
        if self._places:
            return
        partitions = [each.partition for each in self._wanted if each.partition is not None]
        if self._is_follower:
            self._places = [each.waiting_followers for each in partitions]
        else:
            self._places = [each.waiting for each in partitions]
        stand(waiter, self._places)

    def leave(self, waiter: Waiter) -> None:
        leave(waiter, self._places)
        self._places = []


class StirredPartitions:
    """Those of a session: at first all are stirred."""

    __slots__ = (
        "_asker",
        "_gone_over_ms",
        "_is_over",
        "_now_ms",
        "_partitions",
        "_ranks",
        "_stirred",
        "_waiters",
        "_whole_pass_ms",
    )

    def __init__(
        self,
        partitions: dict[Key, Wanted],
        asker: Asker,
        *,
        now_ms: Callable[[], int],
        whole_pass_ms: int = WHOLE_PASS_MS,
    ) -> None:
        """``partitions`` are the session's, which changes them."""
        self._partitions = partitions
        self._asker = asker
        self._now_ms = now_ms
        self._whole_pass_ms = whole_pass_ms
        #: When the last pass over all of them began.
        self._gone_over_ms = now_ms()
        self._stirred: set[Wanted] = set()
        self._ranks = count()
        #: The fetches that wait; one, unless the client sent another before it was answered.
        self._waiters: set[Waiter] = set()
        self._is_over = False
        for wanted in partitions.values():
            self.add(wanted)

    def __len__(self) -> int:
        return len(self._partitions)

    def __iter__(self) -> Iterator[Wanted]:
        return iter(self._partitions.values())

    # What the session says

    def add(self, wanted: Wanted) -> None:
        """It is new, or something else is wanted of it."""
        if wanted.watch is not self:
            wanted.watch, wanted.rank = self, next(self._ranks)
        self._stirred.add(wanted)

    def remove(self, wanted: Wanted) -> None:
        self._stirred.discard(wanted)
        wanted.leave()

    def move_to_end(self, wanted: Wanted) -> None:
        wanted.rank = next(self._ranks)

    def asked_by(self, asker: Asker) -> None:
        if asker != self._asker:
            self._asker = asker
            self._rouse()

    def end(self) -> None:
        """No other fetch will come.  One that is under way goes on as one without a session."""
        self._is_over = True
        self._rouse()
        self._leave_if_over()

    # What its fetches say

    def due(self) -> list[Wanted]:
        """In the order of the session."""
        now_ms = self._now_ms()
        if now_ms - self._gone_over_ms >= self._whole_pass_ms:
            self._gone_over_ms = now_ms
            self._rouse()
        return sorted(self._stirred, key=_rank)

    def pass_over(self, wanted: Wanted) -> None:
        """It was found quiet just now: nothing can have stirred since."""
        # It may have been forgotten since it was due.
        if wanted in self._stirred and not self._is_over:
            self._stirred.discard(wanted)
            wanted.stand(is_follower=self._asker.is_follower)

    def stand(self, waiter: Waiter) -> None:
        self._waiters.add(waiter)
        is_follower = self._asker.is_follower
        for wanted in self._stirred:
            wanted.stand(is_follower=is_follower)

    def leave(self, waiter: Waiter) -> None:
        self._waiters.discard(waiter)
        self._leave_if_over()

    # What partitions say

    @property
    def has_fetch(self) -> bool:
        return bool(self._waiters)

    def stirs(self, wanted: Wanted) -> None:
        self._stirred.add(wanted)
        for waiter in self._waiters:
            waiter.wake()

    def _rouse(self) -> None:
        self._stirred.update(self._partitions.values())

    def _leave_if_over(self) -> None:
        if self._is_over and not self._waiters:
            for wanted in self._partitions.values():
                wanted.leave()


#: Those that a fetch wants.
WantedPartitions = AllPartitions | StirredPartitions
