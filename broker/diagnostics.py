"""What a broker has in hand at a moment: tasks, connections, and who waits for what.

For whoever looks for what is never let go of, or wonders what a broker is busy with: it tells, in
one line of its log, when it gets SIGUSR1 (docs/operations.md says what the names mean).

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Protocol

from odradek.broker.network.purgatory import REQUEST_TASK_PREFIX
from odradek.broker.replicas.partition import Partition

#: Of a task that nobody has named.
_UNNAMED_TASK = re.compile(r"Task-\d+")

Counts = Mapping[str, int]


class ConnectionStats(Protocol):
    """Who serves connections."""

    @property
    def pending_request_count(self) -> int: ...

    def connection_counts(self) -> Counts: ...


class OutgoingConnections(Protocol):
    """Who counts the connections to other brokers."""

    def counts(self) -> Counts: ...


def diagnostics_snapshot(
    socket_server: ConnectionStats,
    outgoing_connections: OutgoingConnections,
    partitions: Iterable[Partition],
) -> dict[str, int | Counts | Mapping[str, Counts]]:
    """To be asked on the loop."""
    waiting = {str(each.topic_partition): _waiter_counts(each) for each in partitions}
    return {
        "tasks": dict(sorted(Counter(map(_task_name, asyncio.all_tasks())).items())),
        "connections": socket_server.connection_counts(),
        "outgoing": outgoing_connections.counts(),
        "requests": socket_server.pending_request_count,
        "waiting": {name: counts for name, counts in waiting.items() if counts},
    }


def _task_name(task: asyncio.Task[object]) -> str:
    """All requests have one: there may be thousands."""
    name = task.get_name()
    if name.startswith(REQUEST_TASK_PREFIX):
        return "request"
    if _UNNAMED_TASK.fullmatch(name):
        return getattr(task.get_coro(), "__qualname__", "task")
    return name


def _waiter_counts(partition: Partition) -> Counts:
    """Without those of whom there are none."""
    counts = {
        "consumers": sum(each.is_waiting for each in partition.fetch_watchers),
        "followers": sum(each.is_waiting for each in partition.follower_fetch_watchers),
        "producers": partition.high_watermark.waiter_count,
        "flushes": partition.flushed_offset.waiter_count,
    }
    return {name: count for name, count in counts.items() if count}
