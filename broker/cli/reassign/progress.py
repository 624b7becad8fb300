"""Waiting until partitions have moved, and how far they are meanwhile.

How far is told in partitions, and in bytes: those that new replicas have, of those that leaders
had when the waiting began.  A terminal shows a bar, a pipe a line whenever another partition has
moved.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from odradek.broker.cli.failed import CommandFailed
from odradek.broker.cli.operated import OperatedCluster
from odradek.broker.cli.partitions import Place
from odradek.broker.cli.reassign.directories import copies
from odradek.broker.cli.reassign.moves import Standing, standings
from odradek.broker.cli.reassign.plans import At, ReadPlan
from odradek.broker.cli.reassign.throttles import Move

if TYPE_CHECKING:
    from rich.progress import Progress as Bars

PAUSE_S = 0.5
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


async def wait_until_moved(
    cluster: OperatedCluster, plan: ReadPlan, moves: Mapping[Place, Move]
) -> None:
    """All of the plan; raises CommandFailed if one is left elsewhere."""
    import asyncio

    places = plan.replicas
    wanted = [At(place, each) for place in places for each in moves[place].readers]
    leaders = [At(place, source) for place in places for source in moves[place].sources]
    largest = _largest(await _sizes(cluster, leaders))
    sizes = {at: largest.get(at.place, 0) for at in wanted}
    elsewhere = 0
    with _shown() as shown:
        while True:
            found = await standings(cluster, plan)
            here = await _sizes(cluster, wanted)
            shown.show(_progress(found, sizes, here))
            counted = [*found.values()]
            if all(each is Standing.MOVED for each in counted):
                return
            elsewhere = 0 if Standing.MOVING in counted else elsewhere + 1
            if elsewhere > ELSEWHERE_MAX:
                place = next(each for each in found if found[each] is Standing.ELSEWHERE)
                raise CommandFailed(f"{place}: is not where it should be, and not moving there")
            await asyncio.sleep(PAUSE_S)


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
    found = await copies(cluster, replicas)
    return {at: max(each.size_bytes for each in of_one) for at, of_one in found.items()}


def _largest(sizes: Mapping[At, int]) -> dict[Place, int]:
    found: dict[Place, int] = {}
    for at, size in sizes.items():
        found[at.place] = max(size, found.get(at.place, 0))
    return found


@contextmanager
def _shown() -> Iterator[Shown]:
    if not sys.stdout.isatty():
        yield _Lines()
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("partitions"))
    with Bars(*columns, TextColumn("{task.description}"), TimeElapsedColumn()) as bars:
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

    def __init__(self) -> None:
        self._moved = -1

    def show(self, progress: Progress) -> None:
        if progress.moved != self._moved:
            self._moved = progress.moved
            print(progress, flush=True)
