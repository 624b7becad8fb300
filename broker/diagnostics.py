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

from odradek.broker.network.pending_answers import REQUEST_FROM
from odradek.broker.replicas.partition import Partition

#: Of a task that nobody has named.
_UNNAMED = re.compile(r"Task-\d+")

Counts = Mapping[str, int]


class Sockets(Protocol):
    """Who serves connections."""

    @property
    def waiting(self) -> int: ...

    def connections(self) -> Counts: ...


class Outgoing(Protocol):
    """Who counts the connections to other brokers."""

    def counts(self) -> Counts: ...


def in_hand(
    sockets: Sockets, outgoing: Outgoing, partitions: Iterable[Partition]
) -> dict[str, int | Counts | Mapping[str, Counts]]:
    """To be asked on the loop."""
    waiting = {str(each.topic_partition): _waiting(each) for each in partitions}
    return {
        "tasks": dict(sorted(Counter(map(_name, asyncio.all_tasks())).items())),
        "connections": sockets.connections(),
        "outgoing": outgoing.counts(),
        "requests": sockets.waiting,
        "waiting": {name: counts for name, counts in waiting.items() if counts},
    }


def _name(task: asyncio.Task[object]) -> str:
    """All requests have one: there may be thousands."""
    name = task.get_name()
    if name.startswith(REQUEST_FROM):
        return "request"
    if _UNNAMED.fullmatch(name):
        return getattr(task.get_coro(), "__qualname__", "task")
    return name


def _waiting(partition: Partition) -> Counts:
    """Without those of whom there are none."""
    found = {
        "consumers": sum(each.is_waiting for each in partition.waiting),
        "followers": sum(each.is_waiting for each in partition.waiting_followers),
        "producers": partition.high_watermark.waiting,
        "flushes": partition.synced.waiting,
    }
    return {name: count for name, count in found.items() if count}
