"""Counts of a broker's tasks, connections and waiting requests at one moment.

They help to find leaks and to see what a broker is busy with.  On SIGUSR1 the broker logs them in
one line.  docs/operations.md explains the names.

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

#: The default name of a task that was started without a name.
_UNNAMED_TASK = re.compile(r"Task-\d+")

Counts = Mapping[str, int]


class ConnectionStats(Protocol):
    """Counts the connections that this broker serves."""

    @property
    def pending_request_count(self) -> int: ...

    def connection_counts(self) -> Counts: ...


class OutgoingConnections(Protocol):
    """Counts the connections to other brokers."""

    def counts(self) -> Counts: ...


def diagnostics_snapshot(
    socket_server: ConnectionStats,
    outgoing_connections: OutgoingConnections,
    partitions: Iterable[Partition],
) -> dict[str, int | Counts | Mapping[str, Counts]]:
    """Call this on the event loop."""
    waiting = {str(each.topic_partition): _waiter_counts(each) for each in partitions}
    return {
        "tasks": dict(sorted(Counter(map(_task_name, asyncio.all_tasks())).items())),
        "connections": socket_server.connection_counts(),
        "outgoing": outgoing_connections.counts(),
        "requests": socket_server.pending_request_count,
        "waiting": {name: counts for name, counts in waiting.items() if counts},
    }


def _task_name(task: asyncio.Task[object]) -> str:
    """The name to count a task under.  All requests share one, because there may be thousands."""
    name = task.get_name()
    if name.startswith(REQUEST_TASK_PREFIX):
        return "request"
    if _UNNAMED_TASK.fullmatch(name):
        return getattr(task.get_coro(), "__qualname__", "task")
    return name


def _waiter_counts(partition: Partition) -> Counts:
    """Count the waiting operations by kind, without the zeros."""
    counts = {
        "consumers": sum(each.is_waiting for each in partition.fetch_watchers),
        "followers": sum(each.is_waiting for each in partition.follower_fetch_watchers),
        "producers": partition.high_watermark.waiter_count,
        "flushes": partition.flushed_offset.waiter_count,
    }
    return {name: count for name, count in counts.items() if count}
