"""A cluster on this machine, from its first process until the last one has ended.

A broker that dies later is shown, and the others go on; one that does not start is the end of all.
The first signal stops the cluster in order, the second one at once.

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
#: So many signals mean that nobody wants to wait.
SIGNALS_TO_KILL = 2


def run(arguments: argparse.Namespace) -> int:
    """The exit status; raises CommandFailed."""
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
    cluster.brokers[0].check_settings()  # those of the others differ by an id only
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
    """Those that stop a cluster; while nothing has begun that must be undone, at once."""

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
        """From now on somebody looks at them."""
        self._exits_immediately = False

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self.count += 1
        if self._exits_immediately:
            raise SystemExit(0)


def _start(cluster: LocalCluster, view: View) -> None:
    view.show("ZooKeeper starts")
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
            raise CommandFailed("no broker is left")
        if not is_ready and cluster.is_ready:
            is_ready = True
            _announce(cluster.addresses, ready_file, view)
        time.sleep(POLL_INTERVAL_S)
    _remove_ready_file(ready_file)
    _stop(cluster, view, signals)
    return 0


def _stop(cluster: LocalCluster, view: View, signals: StopSignals) -> None:
    """In order; after another signal, or too long a time, at once."""
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
        # Whoever waits for the file finds it whole.
        temporary = ready_file.with_name(ready_file.name + ".tmp")
        temporary.write_text(addresses + "\n")
        temporary.replace(ready_file)
    view.show(f"Ready at {addresses}")


@contextmanager
def _lock_directory(directory: Path) -> Iterator[None]:
    """Two of them would spoil ZooKeeper's tree."""
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
    """Not there before the cluster is ready, nor afterwards."""
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
        with suppress(OSError):  # it is gone, or no more ours
            ready_file.unlink()


def _check_ports(arguments: argparse.Namespace) -> None:
    """A broker would say it in its log only, and ZooKeeper in thirty lines."""
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
