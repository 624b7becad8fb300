"""Shows a cluster on this machine while it runs: a live table, or a line for each change.

A terminal shows the table, if rich is installed, with the changes above it.  The numbers of
leaders and replicas are fetched from the brokers every 2 seconds.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Protocol

from odradek.broker.cli.cluster_client import ClusterClient
from odradek.broker.cli.clusters.local_cluster import LocalBroker, LocalCluster, ProcessState
from odradek.broker.cli.clusters.status import ClusterStatus, fetch_status
from odradek.broker.cli.errors import CommandFailed

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

STATUS_INTERVAL_S = 2.0
STATUS_TIMEOUT_S = 1.0
STYLES = {ProcessState.READY: "green", ProcessState.DIED: "bold red"}


class View(Protocol):
    def show(self, line: str) -> None:
        """Print a line."""

    def refresh(self) -> None:
        """Show the changes since the last call."""


@contextmanager
def open_view(cluster: LocalCluster) -> Iterator[View]:
    changes = StateChanges(cluster)
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


class StateChanges:
    """Describes the changes of process states since the last call."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self._states = {broker.id: ProcessState.WAITING for broker in cluster.brokers}
        self._zookeeper_state = ProcessState.WAITING

    def lines(self) -> Iterator[str]:
        zookeeper, state = self._cluster.zookeeper, self._cluster.zookeeper_state
        if state is not self._zookeeper_state:
            self._zookeeper_state = state
            match state:
                case ProcessState.READY:
                    yield f"ZooKeeper is ready at {zookeeper.address}"
                case ProcessState.STOPPED:
                    yield "ZooKeeper has stopped"
                case _:
                    yield f"ZooKeeper died, see {zookeeper.output_file}"
        for broker in self._cluster.brokers:
            state = broker.state
            if state is not self._states[broker.id]:
                self._states[broker.id] = state
                yield _describe_state(broker, state)


def _describe_state(broker: LocalBroker, state: ProcessState) -> str:
    match state:
        case ProcessState.READY:
            return f"{broker.name} is ready at {broker.address}"
        case ProcessState.DIED:
            return f"{broker.name} {broker.exit_description}"
        case ProcessState.STOPPED:
            return f"{broker.name} has stopped"
        case _:
            return f"{broker.name} is {state.value}"


class LineView:
    def __init__(self, changes: StateChanges) -> None:
        self._changes = changes

    def show(self, line: str) -> None:
        # A closed pipe is no reason to stop.
        with suppress(BrokenPipeError):
            print(line, flush=True)

    def refresh(self) -> None:
        for line in self._changes.lines():
            self.show(line)


class TableView:
    def __init__(self, cluster: LocalCluster, changes: StateChanges, live: Live) -> None:
        self._cluster = cluster
        self._changes = changes
        self._live = live
        self._status: ClusterStatus | None = None
        self._status_fetched_at = 0.0

    def show(self, line: str) -> None:
        self._live.console.print(line, highlight=False, markup=False, soft_wrap=True)

    def refresh(self) -> None:
        for line in self._changes.lines():
            self.show(line)
        is_due = time.monotonic() - self._status_fetched_at > STATUS_INTERVAL_S
        if is_due and any(each.state is ProcessState.READY for each in self._cluster.brokers):
            self._status = _try_fetch_status(self._cluster.addresses)
            self._status_fetched_at = time.monotonic()
        self._live.update(self._table(), refresh=True)

    def _table(self) -> Table:
        from rich import box
        from rich.table import Table
        from rich.text import Text

        snapshot = self._status.snapshot if self._status else None
        partitions = snapshot.partitions.values() if snapshot else ()
        leaders = Counter(each.leader for each in partitions)
        replicas = Counter(broker for each in partitions for broker in each.replicas)
        table = Table(box=box.SIMPLE, caption=_caption(self._status), caption_justify="left")
        for column in ("", "state", "address", "process", "leads", "replicas"):
            table.add_column(column)
        zookeeper = self._cluster.zookeeper
        state = self._cluster.zookeeper_state
        pid = str(zookeeper.pid) if state is ProcessState.READY else ""
        table.add_row("ZooKeeper", _styled(state), zookeeper.address, pid, "", "")
        for broker in self._cluster.brokers:
            is_controller = snapshot is not None and snapshot.controller_id == broker.id
            name = Text(f"{broker.name}, controller" if is_controller else broker.name)
            counts = (str(leaders[broker.id]), str(replicas[broker.id])) if snapshot else ("", "")
            table.add_row(
                name, _styled(broker.state), broker.address or "", str(broker.pid or ""), *counts
            )
        return table


def _styled(state: ProcessState) -> Any:
    from rich.text import Text

    return Text(state.value, style=STYLES.get(state, ""))


def _caption(status: ClusterStatus | None) -> str | None:
    if status is None:
        return None
    counts = {name: "?" if value is None else value for name, value in status.summary().items()}
    return (
        "{partitions} partitions, {under_replicated} under-replicated, {offline} offline, "
        "{under_min_isr} under min ISR, {reassigning} reassigning"
    ).format_map(counts)


def _try_fetch_status(addresses: str) -> ClusterStatus | None:
    """Return None if no broker responds soon."""
    import asyncio

    from odradek.broker.cli.broker_connections import BrokerConnections

    async def fetch() -> ClusterStatus:
        connections = BrokerConnections(STATUS_TIMEOUT_S)
        try:
            return await fetch_status(
                ClusterClient(connections, addresses, timeout_s=STATUS_TIMEOUT_S)
            )
        finally:
            connections.close()

    try:
        return asyncio.run(fetch())
    except CommandFailed:
        return None
