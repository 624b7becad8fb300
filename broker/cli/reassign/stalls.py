"""Finds the brokers that block a reassignment.

An offline broker is reported immediately, and again when other partitions wait for it.  A live
broker may only be slow; it is reported when nothing has moved for ``STALL_TIMEOUT_S``.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping

from odradek.broker.cli.cluster_client import PartitionInfo
from odradek.broker.cli.partitions import TopicAndPartition
from odradek.broker.cli.reassign.plans import Plan
from odradek.broker.cli.reassign.reassignments import ReassignmentState

STALL_TIMEOUT_S = 10.0
#: The number of partitions that a line names.
PARTITIONS_SHOWN_MAX = 5

#: The partitions that each broker blocks.
BlockedPartitions = Mapping[int, list[TopicAndPartition]]


def partitions_blocked_by_broker(
    plan: Plan,
    states: Mapping[TopicAndPartition, ReassignmentState],
    partitions: Mapping[TopicAndPartition, PartitionInfo],
) -> BlockedPartitions:
    """A new replica blocks until it is in the ISR; without a leader, the ISR blocks too."""
    blocked: defaultdict[int, list[TopicAndPartition]] = defaultdict(list)
    for partition, state in sorted(states.items()):
        if state is ReassignmentState.MOVING and partition in partitions:
            current = partitions[partition]
            not_in_sync = {each for each in plan[partition] if each not in current.isr}
            for broker in sorted(not_in_sync.union(current.isr if current.leader is None else ())):
                blocked[broker].append(partition)
    return dict(blocked)


class StallReporter:
    """Remembers what it has reported, so that it reports each stall once."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._offline: BlockedPartitions = {}
        self._progress: object = None
        self._last_progress_at = clock()
        self._is_reported = False

    def lines(
        self, progress: object, blocked: BlockedPartitions, alive_brokers: Collection[int]
    ) -> Iterator[str]:
        """Yield the lines that are new since the last call."""
        yield from self._offline_broker_lines(blocked, alive_brokers)
        if progress != self._progress:
            self._progress, self._last_progress_at, self._is_reported = (
                progress,
                self._clock(),
                False,
            )
        slow = {
            broker: partitions for broker, partitions in blocked.items() if broker in alive_brokers
        }
        if (
            slow
            and not self._is_reported
            and self._clock() - self._last_progress_at >= STALL_TIMEOUT_S
        ):
            self._is_reported = True
            reasons = [
                f"broker {each} is not in sync with {_partition_list(slow[each])}" for each in slow
            ]
            yield f"no progress for {STALL_TIMEOUT_S:.0f} s: {'; '.join(reasons)}"

    def _offline_broker_lines(
        self, blocked: BlockedPartitions, alive_brokers: Collection[int]
    ) -> Iterator[str]:
        offline = {
            broker: partitions
            for broker, partitions in blocked.items()
            if broker not in alive_brokers
        }
        before, self._offline = self._offline, offline
        for broker in before:
            if broker in alive_brokers:
                yield f"broker {broker} is online again"
        for broker, partitions in offline.items():
            if before.get(broker) != partitions:
                yield (f"broker {broker} is offline and blocks {_partition_list(partitions)}")


def _partition_list(topic_partitions: list[TopicAndPartition]) -> str:
    names = ", ".join(map(str, topic_partitions[:PARTITIONS_SHOWN_MAX]))
    more = len(topic_partitions) - PARTITIONS_SHOWN_MAX
    return f"{names} and {more} more" if more > 0 else names
