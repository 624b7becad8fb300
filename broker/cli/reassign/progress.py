"""Waits until the partitions of a plan have moved, and shows the progress.

The progress is a number of partitions, and of bytes: the bytes that the new replicas have, out of
the bytes that the original replicas had when the wait began.  A terminal shows a progress bar, a
pipe gets a line for each change of the number of moved partitions.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol, TextIO

from odradek.broker.cli.broker_connections import RetriableError
from odradek.broker.cli.cluster_client import ClusterClient, group_by_topic
from odradek.broker.cli.errors import CommandFailed
from odradek.broker.cli.partitions import TopicAndPartition
from odradek.broker.cli.reassign.log_dirs import describe_replicas
from odradek.broker.cli.reassign.plans import ReassignmentPlan, TopicPartitionReplica
from odradek.broker.cli.reassign.reassignments import ReassignmentState, reassignment_states
from odradek.broker.cli.reassign.stalls import (
    BlockedPartitions,
    StallReporter,
    partitions_blocked_by_broker,
)
from odradek.broker.cli.reassign.throttles import PartitionMove

if TYPE_CHECKING:
    from rich.progress import Progress as Bars

POLL_INTERVAL_S = 0.5
#: A broker that does not return its sizes within this time counts as having 0 bytes.
SIZES_TIMEOUT_S = 2.0
MB = 1e6
#: The number of polls for which metadata may be older than the controller's state.
STALE_METADATA_POLLS_MAX = 10


@dataclass(frozen=True, slots=True)
class Progress:
    moved: int
    partitions: int
    moved_bytes: int
    size_bytes: int

    def __str__(self) -> str:
        sizes = f"{self.moved_bytes / MB:.1f} of {self.size_bytes / MB:.1f} MB"
        return f"{self.moved} of {self.partitions} partitions moved, {sizes}"


class ProgressDisplay(Protocol):
    def show(self, progress: Progress) -> None: ...


class ProgressSnapshot(NamedTuple):
    """The result of one poll."""

    states: Mapping[TopicAndPartition, ReassignmentState]
    progress: Progress
    blocked: BlockedPartitions
    alive_brokers: Collection[int]


async def wait_until_moved(
    cluster: ClusterClient,
    plan: ReassignmentPlan,
    moves: Mapping[TopicAndPartition, PartitionMove],
    *,
    timeout_s: float | None,
    output: TextIO,
) -> bool:
    """Return whether the plan completes within the timeout.

    Raises CommandFailed if a partition has other replicas and no reassignment is ongoing.
    """
    import asyncio

    deadline = math.inf if timeout_s is None else time.monotonic() + timeout_s
    sizes = await _target_sizes(cluster.with_deadline(deadline), plan, moves)
    stalls = StallReporter()
    idle_polls = 0
    with _open_display(output) as display:
        while True:
            try:
                poll = await _poll(cluster.with_deadline(deadline), plan, sizes)
            except RetriableError:
                if time.monotonic() < deadline:
                    raise
                return False
            display.show(poll.progress)
            for line in stalls.lines(poll.progress, poll.blocked, poll.alive_brokers):
                print(f"odradek: {line}", file=sys.stderr, flush=True)
            if all(state is ReassignmentState.MOVED for state in poll.states.values()):
                return True
            idle_polls = 0 if ReassignmentState.MOVING in poll.states.values() else idle_polls + 1
            if idle_polls > STALE_METADATA_POLLS_MAX:
                raise CommandFailed(_not_moving_message(poll.states))
            if time.monotonic() + POLL_INTERVAL_S > deadline:
                return False
            await asyncio.sleep(POLL_INTERVAL_S)


async def _target_sizes(
    cluster: ClusterClient, plan: ReassignmentPlan, moves: Mapping[TopicAndPartition, PartitionMove]
) -> dict[TopicPartitionReplica, int]:
    """Return the final size of each new replica, if nothing more is produced."""
    partitions = plan.replicas
    sources = [
        TopicPartitionReplica(partition, source)
        for partition in partitions
        for source in moves[partition].sources
    ]
    largest = _largest_by_partition(await _replica_sizes(cluster, sources))
    new_replicas = [
        TopicPartitionReplica(partition, broker)
        for partition in partitions
        for broker in moves[partition].destinations
    ]
    return {at: largest.get(at.topic_partition, 0) for at in new_replicas}


async def _poll(
    cluster: ClusterClient,
    plan: ReassignmentPlan,
    target_sizes: Mapping[TopicPartitionReplica, int],
) -> ProgressSnapshot:
    states = await reassignment_states(cluster, plan)
    current_sizes = await _replica_sizes(cluster, target_sizes)
    snapshot = await cluster.fetch_metadata(group_by_topic(plan.replicas))
    blocked = partitions_blocked_by_broker(plan.replicas, states, snapshot.partitions)
    return ProgressSnapshot(
        states,
        _calculate_progress(states, target_sizes, current_sizes),
        blocked,
        snapshot.brokers.keys(),
    )


def _not_moving_message(states: Mapping[TopicAndPartition, ReassignmentState]) -> str:
    partition = next(each for each in states if states[each] is ReassignmentState.ELSEWHERE)
    return f"{partition}: not moved to the replicas of the plan, and no reassignment is ongoing"


def _calculate_progress(
    states: Mapping[TopicAndPartition, ReassignmentState],
    target_sizes: Mapping[TopicPartitionReplica, int],
    current_sizes: Mapping[TopicPartitionReplica, int],
) -> Progress:
    is_moved = {partition: state is ReassignmentState.MOVED for partition, state in states.items()}
    moved_sizes = (
        size if is_moved[at.topic_partition] else min(size, current_sizes.get(at, 0))
        for at, size in target_sizes.items()
    )
    return Progress(
        sum(is_moved.values()), len(states), sum(moved_sizes), sum(target_sizes.values())
    )


async def _replica_sizes(
    cluster: ClusterClient, replicas: Iterable[TopicPartitionReplica]
) -> dict[TopicPartitionReplica, int]:
    """Return the size in bytes of each existing replica."""
    replica_infos = await describe_replicas(
        cluster.with_deadline(time.monotonic() + SIZES_TIMEOUT_S), replicas
    )
    return {at: max(info.size_bytes for info in infos) for at, infos in replica_infos.items()}


def _largest_by_partition(
    sizes: Mapping[TopicPartitionReplica, int],
) -> dict[TopicAndPartition, int]:
    largest: dict[TopicAndPartition, int] = {}
    for at, size in sizes.items():
        largest[at.topic_partition] = max(size, largest.get(at.topic_partition, 0))
    return largest


@contextmanager
def _open_display(output: TextIO) -> Iterator[ProgressDisplay]:
    if not output.isatty():
        yield _ProgressLines(output)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("partitions"))
    last = (TextColumn("{task.description}"), TimeElapsedColumn())
    with Bars(*columns, *last, console=Console(file=output)) as bars:
        yield _ProgressBar(bars)


class _ProgressBar:
    def __init__(self, bars: Bars) -> None:
        self._bars = bars
        self._task = bars.add_task("", total=None)

    def show(self, progress: Progress) -> None:
        sizes = f"{progress.moved_bytes / MB:.1f} of {progress.size_bytes / MB:.1f} MB"
        self._bars.update(
            self._task, total=progress.partitions, completed=progress.moved, description=sizes
        )


class _ProgressLines:
    """Prints a line for each change of the number of moved partitions."""

    def __init__(self, output: TextIO) -> None:
        self._output = output
        self._moved = -1

    def show(self, progress: Progress) -> None:
        if progress.moved != self._moved:
            self._moved = progress.moved
            print(progress, file=self._output, flush=True)
