"""Waiting until partitions have moved, and how far they are meanwhile.

How far is told in partitions, and in bytes: those that new replicas have, of those that leaders
had when the waiting began.  A terminal shows a bar, a pipe a line whenever another partition has
moved.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from odradek.broker.cli.failed import CommandFailed
from odradek.broker.cli.operated import OperatedCluster, by_topic
from odradek.broker.cli.partitions import Place
from odradek.broker.cli.reassign.moves import Standing, standings
from odradek.broker.cli.reassign.plans import Plan
from odradek.broker.cli.reassign.throttles import Move

if TYPE_CHECKING:
    from rich.progress import Progress as Bars

PAUSE_S = 0.5
MB = 1e6
#: Metadata that says where a partition was may be so much older than what the controller says.
ELSEWHERE_MAX = 10


class At(NamedTuple):
    """A replica: a partition at a broker."""

    place: Place
    broker: int


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
    cluster: OperatedCluster, plan: Plan, moves: Mapping[Place, Move]
) -> None:
    """All of the plan; raises CommandFailed if one is left elsewhere."""
    import asyncio

    wanted = {At(place, each): 0 for place in plan for each in moves[place].readers}
    leaders = {At(place, source) for place in plan for source in moves[place].sources}
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
    from odradek.protocol.api.describe_log_dirs import DescribeLogDirsRequest

    places: defaultdict[int, list[Place]] = defaultdict(list)
    for at in replicas:
        places[at.broker].append(at.place)
    alive = (await cluster.picture([])).brokers
    found = {}
    for broker in places.keys() & alive.keys():
        topics = [
            DescribeLogDirsRequest.Topic(topic=topic, partitions=numbers)
            for topic, numbers in by_topic(places[broker]).items()
        ]
        try:
            answer = await cluster.ask_broker(
                broker, DescribeLogDirsRequest(topics=topics), version=1
            )
        except CommandFailed:
            continue  # it went just now; how much it has is not worth failing for
        for directory in answer.results:
            for topic in directory.topics:
                for each in topic.partitions:
                    at = At(Place(topic.name, each.partition_index), broker)
                    found[at] = each.partition_size
    return found


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
