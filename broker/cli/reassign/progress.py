"""Waiting until partitions have moved, and how far they are meanwhile.

How far is told in partitions, and in bytes: those that new replicas have, of those that leaders
had when the waiting began.  A terminal shows a bar, a pipe a line whenever another partition has
moved.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol, TextIO

from odradek.broker.cli.direct import NoAnswer
from odradek.broker.cli.failed import CommandFailed
from odradek.broker.cli.operated import OperatedCluster, by_topic
from odradek.broker.cli.partitions import Place
from odradek.broker.cli.reassign.directories import copies
from odradek.broker.cli.reassign.held_up import HeldUp, Waiting, waited_for
from odradek.broker.cli.reassign.moves import Standing, standings
from odradek.broker.cli.reassign.plans import At, ReadPlan
from odradek.broker.cli.reassign.throttles import Move

if TYPE_CHECKING:
    from rich.progress import Progress as Bars

PAUSE_S = 0.5
#: A broker that does not say sooner how much it has is taken to have nothing.
SIZES_S = 2.0
MB = 1e6
#: Metadata that says where a partition was may be so much older than what the controller says.
ELSEWHERE_MAX = 10


@dataclass(frozen=True, slots=True)
class Progress:
    moved: int
    partitions: int
    moved_bytes: int
    size_bytes: int

    def __str__(self) -> str:
        sizes = f"{self.moved_bytes / MB:.1f} of {self.size_bytes / MB:.1f} MB"
        return f"{self.moved} of {self.partitions} partitions moved, {sizes}"


class Shown(Protocol):
    def show(self, progress: Progress) -> None: ...


class Seen(NamedTuple):
    """In one look."""

    standings: Mapping[Place, Standing]
    progress: Progress
    waiting: Waiting
    alive: Collection[int]


async def wait_until_moved(
    cluster: OperatedCluster,
    plan: ReadPlan,
    moves: Mapping[Place, Move],
    *,
    at_most_s: float | None,
    out: TextIO,
) -> bool:
    """Whether all of the plan has in this time; raises CommandFailed if one is left elsewhere."""
    import asyncio

    deadline = math.inf if at_most_s is None else time.monotonic() + at_most_s
    sizes = await _wanted_sizes(cluster.until(deadline), plan, moves)
    held_up = HeldUp()
    elsewhere = 0
    with _shown(out) as shown:
        while True:
            try:
                seen = await _look(cluster.until(deadline), plan, sizes)
            except NoAnswer:
                if time.monotonic() < deadline:
                    raise
                return False
            shown.show(seen.progress)
            for line in held_up.lines(seen.progress, seen.waiting, seen.alive):
                print(f"odradek: {line}", file=sys.stderr, flush=True)
            if all(each is Standing.MOVED for each in seen.standings.values()):
                return True
            elsewhere = 0 if Standing.MOVING in seen.standings.values() else elsewhere + 1
            if elsewhere > ELSEWHERE_MAX:
                raise CommandFailed(_not_moving(seen.standings))
            if time.monotonic() + PAUSE_S > deadline:
                return False
            await asyncio.sleep(PAUSE_S)


async def _wanted_sizes(
    cluster: OperatedCluster, plan: ReadPlan, moves: Mapping[Place, Move]
) -> dict[At, int]:
    """What each new replica will have, if nothing more is written."""
    places = plan.replicas
    leaders = [At(place, source) for place in places for source in moves[place].sources]
    largest = _largest(await _sizes(cluster, leaders))
    wanted = [At(place, each) for place in places for each in moves[place].readers]
    return {at: largest.get(at.place, 0) for at in wanted}


async def _look(cluster: OperatedCluster, plan: ReadPlan, sizes: Mapping[At, int]) -> Seen:
    found = await standings(cluster, plan)
    here = await _sizes(cluster, sizes)
    picture = await cluster.picture(by_topic(plan.replicas))
    waiting = waited_for(plan.replicas, found, picture.partitions)
    return Seen(found, _progress(found, sizes, here), waiting, picture.brokers.keys())


def _not_moving(found: Mapping[Place, Standing]) -> str:
    place = next(each for each in found if found[each] is Standing.ELSEWHERE)
    return f"{place}: is not where it should be, and not moving there"


def _progress(
    found: Mapping[Place, Standing], sizes: Mapping[At, int], here: Mapping[At, int]
) -> Progress:
    is_moved = {place: each is Standing.MOVED for place, each in found.items()}
    have = (
        size if is_moved[at.place] else min(size, here.get(at, 0)) for at, size in sizes.items()
    )
    return Progress(sum(is_moved.values()), len(found), sum(have), sum(sizes.values()))


async def _sizes(cluster: OperatedCluster, replicas: Iterable[At]) -> dict[At, int]:
    """In bytes, of those that are there."""
    found = await copies(cluster.until(time.monotonic() + SIZES_S), replicas)
    return {at: max(each.size_bytes for each in of_one) for at, of_one in found.items()}


def _largest(sizes: Mapping[At, int]) -> dict[Place, int]:
    found: dict[Place, int] = {}
    for at, size in sizes.items():
        found[at.place] = max(size, found.get(at.place, 0))
    return found


@contextmanager
def _shown(out: TextIO) -> Iterator[Shown]:
    if not out.isatty():
        yield _Lines(out)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("partitions"))
    last = (TextColumn("{task.description}"), TimeElapsedColumn())
    with Bars(*columns, *last, console=Console(file=out)) as bars:
        yield _Bar(bars)


class _Bar:
    def __init__(self, bars: Bars) -> None:
        self._bars = bars
        self._task = bars.add_task("", total=None)

    def show(self, progress: Progress) -> None:
        sizes = f"{progress.moved_bytes / MB:.1f} of {progress.size_bytes / MB:.1f} MB"
        self._bars.update(
            self._task, total=progress.partitions, completed=progress.moved, description=sizes
        )


class _Lines:
    """One for each change of the number of partitions."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._moved = -1

    def show(self, progress: Progress) -> None:
        if progress.moved != self._moved:
            self._moved = progress.moved
            print(progress, file=self._out, flush=True)
