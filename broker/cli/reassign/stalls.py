"""Why partitions do not get on: for which brokers they wait.

A broker that is gone is told of at once, and again when other partitions wait for it.  One that is
there may only be slow, so it is told of when nothing has moved for a while.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping

from odradek.broker.cli.operated import Partition
from odradek.broker.cli.partitions import Place
from odradek.broker.cli.reassign.moves import Standing
from odradek.broker.cli.reassign.plans import Plan

STALLED_S = 10.0
#: Of partitions in a line.
NAMED_MAX = 5

#: The partitions that wait for each broker.
Waiting = Mapping[int, list[Place]]


def waited_for(
    plan: Plan, found: Mapping[Place, Standing], partitions: Mapping[Place, Partition]
) -> Waiting:
    """New replicas have to be in sync; without a leader, one that was in sync has to be back."""
    waiting: defaultdict[int, list[Place]] = defaultdict(list)
    for place, standing in sorted(found.items()):
        if standing is Standing.MOVING and place in partitions:
            now = partitions[place]
            lacking = {each for each in plan[place] if each not in now.in_sync}
            for broker in sorted(lacking.union(now.in_sync if now.leader is None else ())):
                waiting[broker].append(place)
    return dict(waiting)


class HeldUp:
    """Remembers what it has told."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._gone: Waiting = {}
        self._progress: object = None
        self._since = clock()
        self._is_told = False

    def lines(self, progress: object, waiting: Waiting, alive: Collection[int]) -> Iterator[str]:
        """What is new, of those who wait and of the brokers that are alive."""
        yield from self._about_gone(waiting, alive)
        if progress != self._progress:
            self._progress, self._since, self._is_told = progress, self._clock(), False
        slow = {broker: places for broker, places in waiting.items() if broker in alive}
        if slow and not self._is_told and self._clock() - self._since >= STALLED_S:
            self._is_told = True
            told = [f"broker {each} is not in sync with {_listed(slow[each])}" for each in slow]
            yield f"nothing has moved for {STALLED_S:.0f} s: {'; '.join(told)}"

    def _about_gone(self, waiting: Waiting, alive: Collection[int]) -> Iterator[str]:
        gone = {broker: places for broker, places in waiting.items() if broker not in alive}
        before, self._gone = self._gone, gone
        for broker in before:
            if broker in alive:
                yield f"broker {broker} is back"
        for broker, places in gone.items():
            if before.get(broker) != places:
                yield f"broker {broker} is gone, and {_listed(places)} cannot move without it"


def _listed(places: list[Place]) -> str:
    named = ", ".join(map(str, places[:NAMED_MAX]))
    more = len(places) - NAMED_MAX
    return f"{named} and {more} more" if more > 0 else named
