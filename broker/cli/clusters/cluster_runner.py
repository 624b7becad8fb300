"""Runs a cluster on this machine, from the start of the first process to the end of the last one.

If a broker fails to start, the command fails.  If a broker dies later, the command reports it and
the other brokers run on.  The first signal stops the cluster in order, the second one immediately.

Owner: the process.
"""

from __future__ import annotations

import argparse
import importlib.util
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Self

from odradek.broker.cli.clusters.local_cluster import LocalCluster, ProcessState
from odradek.broker.cli.clusters.view import View, open_view
from odradek.broker.cli.errors import CommandFailed
from odradek.broker.cli.signals import stop_signals
from odradek.controller.zookeeper_server import LOOPBACK, CannotStart
from odradek.storage.manager.lock import DirectoryLock, DirectoryLocked

POLL_INTERVAL_S = 0.1
STOP_TIMEOUT_S = 60.0
#: The number of signals after which the processes are killed.
SIGNALS_TO_KILL = 2


def run(arguments: argparse.Namespace) -> int:
    """Run until a signal and return the exit code; raises CommandFailed."""
    if importlib.util.find_spec("kazoo") is None:
        raise CommandFailed("a cluster needs kazoo: pip install 'odradek[cluster]'")
    _check_ports(arguments)
    cluster = LocalCluster(
        arguments.data_dir.absolute(),
        brokers=arguments.brokers,
        port=arguments.port,
        zookeeper_port=arguments.zookeeper_port,
        settings=arguments.override,
    )
    cluster.brokers[0].check_settings()  # the settings of the other brokers differ only in the id
    with (
        _lock_directory(arguments.data_dir),
        _ready_file(arguments.ready_file) as ready_file,
        StopSignals() as signals,
    ):
        try:
            with open_view(cluster) as view:
                _start(cluster, view)
                return _watch(cluster, view, signals, ready_file)
        finally:
            cluster.kill()


class StopSignals:
    """Counts the signals that stop a cluster; before ``count_only``, a signal exits at once."""

    def __init__(self) -> None:
        self.count = 0
        self._exits_immediately = True

    def __enter__(self) -> Self:
        self._previous_handlers = {
            each: signal.signal(each, self._on_signal) for each in stop_signals()
        }
        return self

    def __exit__(self, *exc_info: object) -> None:
        for each, handler in self._previous_handlers.items():
            signal.signal(each, handler)

    def count_only(self) -> None:
        """Do not exit on signals any more: from now on the caller polls ``count``."""
        self._exits_immediately = False

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self.count += 1
        if self._exits_immediately:
            raise SystemExit(0)


def _start(cluster: LocalCluster, view: View) -> None:
    view.show("starting ZooKeeper")
    try:
        cluster.zookeeper.start()
    except CannotStart as error:
        raise CommandFailed(str(error)) from error
    for broker in cluster.brokers:
        broker.start()


def _watch(cluster: LocalCluster, view: View, signals: StopSignals, ready_file: Path | None) -> int:
    signals.count_only()
    is_ready = False
    while not signals.count:
        if not is_ready:
            _check_startup(cluster)
        view.refresh()
        if is_ready and cluster.is_dead:
            raise CommandFailed("all brokers have died")
        if not is_ready and cluster.is_ready:
            is_ready = True
            _announce(cluster.addresses, ready_file, view)
        time.sleep(POLL_INTERVAL_S)
    _remove_ready_file(ready_file)
    _stop(cluster, view, signals)
    return 0


def _stop(cluster: LocalCluster, view: View, signals: StopSignals) -> None:
    """Stop in order; kill the processes after another signal or after the timeout."""
    cluster.terminate()
    deadline = time.monotonic() + STOP_TIMEOUT_S
    while not cluster.are_brokers_stopped and signals.count < SIGNALS_TO_KILL:
        view.refresh()
        if time.monotonic() > deadline:
            view.show(f"killing brokers that did not stop within {STOP_TIMEOUT_S:.0f} s")
            break
        time.sleep(POLL_INTERVAL_S)
    view.refresh()
    cluster.kill()
    view.refresh()


def _check_startup(cluster: LocalCluster) -> None:
    for broker in cluster.brokers:
        if broker.state is ProcessState.DIED:
            raise CommandFailed(f"{broker.name} {broker.exit_description}")


def _announce(addresses: str, ready_file: Path | None, view: View) -> None:
    if ready_file is not None:
        # The rename makes the file appear with its full content.
        temporary = ready_file.with_name(ready_file.name + ".tmp")
        temporary.write_text(addresses + "\n")
        temporary.replace(ready_file)
    view.show(f"Ready at {addresses}")


@contextmanager
def _lock_directory(directory: Path) -> Iterator[None]:
    """Lock the directory: two clusters in one directory would corrupt ZooKeeper's data."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = DirectoryLock(directory)
    except DirectoryLocked as locked:
        raise CommandFailed(f"--data-dir {directory}: in use by another cluster") from locked
    except OSError as error:
        raise CommandFailed(f"--data-dir {directory}: {error.strerror}") from error
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _ready_file(path: Path | None) -> Iterator[Path | None]:
    """Remove the file before the cluster starts, and after it stops."""
    try:
        if path is not None:
            path.unlink(missing_ok=True)
            path.parent.stat()
    except OSError as error:
        raise CommandFailed(f"--ready-file {path}: {error.strerror}") from error
    try:
        yield path
    finally:
        _remove_ready_file(path)


def _remove_ready_file(ready_file: Path | None) -> None:
    if ready_file is not None:
        with suppress(OSError):  # already removed, or not removable
            ready_file.unlink()


def _check_ports(arguments: argparse.Namespace) -> None:
    """Check the ports first: a broker would report it only in its log, ZooKeeper in 30 lines."""
    _check_port("--zookeeper-port", arguments.zookeeper_port)
    for number in range(arguments.brokers if arguments.port else 0):
        _check_port("--port", arguments.port + number)


def _check_port(option: str, port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do
        try:
            probe.bind((LOOPBACK, port))
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            raise CommandFailed(f"{option}: {LOOPBACK}:{port}: {reason}") from error
