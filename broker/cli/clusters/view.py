"""What is shown of a cluster on this machine: a table that keeps up, or lines about what changed.

A terminal has the table, if rich is installed; what happens stands above it.  How many partitions
each broker leads is asked of the brokers every other second.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Protocol

from odradek.broker.cli.clusters.processes import LocalBroker, LocalCluster, State
from odradek.broker.cli.clusters.status import Status, status
from odradek.broker.cli.failed import CommandFailed
from odradek.broker.cli.operated import OperatedCluster

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

ASK_INTERVAL_S = 2.0
ASK_TIMEOUT_S = 1.0
STYLES = {State.READY: "green", State.DIED: "bold red"}


class View(Protocol):
    def show(self, line: str) -> None:
        """Something that happened."""

    def look(self) -> None:
        """Show what has changed since the last time."""


@contextmanager
def shown(cluster: LocalCluster) -> Iterator[View]:
    changes = Changes(cluster)
    live = _live() if sys.stdout.isatty() else None
    if live is None:
        yield LineView(changes)
        return
    with live:
        yield TableView(cluster, changes, live)


def _live() -> Live | None:
    try:
        from rich.live import Live
    except ImportError:
        return None
    return Live(auto_refresh=False)


class Changes:
    """What became of the processes since the last time that was asked."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self._states = {broker.id: State.WAITING for broker in cluster.brokers}
        self._zookeeper = State.WAITING

    def lines(self) -> Iterator[str]:
        zookeeper, state = self._cluster.zookeeper, self._cluster.zookeeper_state
        if state is not self._zookeeper:
            self._zookeeper = state
            match state:
                case State.READY:
                    yield f"ZooKeeper is ready at {zookeeper.address}"
                case State.STOPPED:
                    yield "ZooKeeper has stopped"
                case _:
                    yield f"ZooKeeper died, see {zookeeper.output}"
        for broker in self._cluster.brokers:
            state = broker.state
            if state is not self._states[broker.id]:
                self._states[broker.id] = state
                yield _told(broker, state)


def _told(broker: LocalBroker, state: State) -> str:
    match state:
        case State.READY:
            return f"{broker.name} is ready at {broker.address}"
        case State.DIED:
            return f"{broker.name} {broker.last_words}"
        case State.STOPPED:
            return f"{broker.name} has stopped"
        case _:
            return f"{broker.name} is {state.value}"


class LineView:
    def __init__(self, changes: Changes) -> None:
        self._changes = changes

    def show(self, line: str) -> None:
        # That nobody reads it is no reason to stop.
        with suppress(BrokenPipeError):
            print(line, flush=True)

    def look(self) -> None:
        for line in self._changes.lines():
            self.show(line)


class TableView:
    def __init__(self, cluster: LocalCluster, changes: Changes, live: Live) -> None:
        self._cluster = cluster
        self._changes = changes
        self._live = live
        self._status: Status | None = None
        self._asked_at = 0.0

    def show(self, line: str) -> None:
        self._live.console.print(line, highlight=False, markup=False, soft_wrap=True)

    def look(self) -> None:
        for line in self._changes.lines():
            self.show(line)
        is_due = time.monotonic() - self._asked_at > ASK_INTERVAL_S
        if is_due and any(each.state is State.READY for each in self._cluster.brokers):
            self._status = _status(self._cluster.addresses)
            self._asked_at = time.monotonic()
        self._live.update(self._table(), refresh=True)

    def _table(self) -> Table:
        from rich import box
        from rich.table import Table
        from rich.text import Text

        picture = self._status.picture if self._status else None
        partitions = picture.partitions.values() if picture else ()
        leads = Counter(each.leader for each in partitions)
        replicas = Counter(broker for each in partitions for broker in each.replicas)
        table = Table(box=box.SIMPLE, caption=_caption(self._status), caption_justify="left")
        for column in ("", "state", "address", "process", "leads", "replicas"):
            table.add_column(column)
        zookeeper = self._cluster.zookeeper
        state = self._cluster.zookeeper_state
        pid = str(zookeeper.pid) if state is State.READY else ""
        table.add_row("ZooKeeper", _styled(state), zookeeper.address, pid, "", "")
        for broker in self._cluster.brokers:
            is_controller = picture is not None and picture.controller == broker.id
            name = Text(f"{broker.name}, controller" if is_controller else broker.name)
            counts = (str(leads[broker.id]), str(replicas[broker.id])) if picture else ("", "")
            table.add_row(
                name, _styled(broker.state), broker.address or "", str(broker.pid or ""), *counts
            )
        return table


def _styled(state: State) -> Any:
    from rich.text import Text

    return Text(state.value, style=STYLES.get(state, ""))


def _caption(found: Status | None) -> str | None:
    if found is None:
        return None
    counts = {what: "?" if each is None else each for what, each in found.summary().items()}
    return (
        "{partitions} partitions, {under_replicated} under-replicated, {offline} offline, "
        "{under_min_isr} under min ISR, {reassigning} moving"
    ).format_map(counts)


def _status(addresses: str) -> Status | None:
    """What brokers say, if one answers soon."""
    import asyncio

    from odradek.broker.cli.direct import Connections

    async def ask() -> Status:
        connections = Connections(ASK_TIMEOUT_S)
        try:
            return await status(OperatedCluster(connections, addresses, timeout_s=ASK_TIMEOUT_S))
        finally:
            connections.close()

    try:
        return asyncio.run(ask())
    except CommandFailed:
        return None
