"""The processes of a cluster on this machine, a ZooKeeper server and brokers, in one directory.

    zookeeper/     ZooKeeper's data and output
    broker-0/      the log directory of a broker
    broker-0.log   the output of a broker, over all its starts

Each process has its own process group: Ctrl-C reaches only the process that started them.  That
process stops them in order, the brokers first, since a broker needs ZooKeeper for a clean shutdown.
All processes end with the process that started them, no matter how it ends.

Owner: the thread that started them.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from enum import Enum
from pathlib import Path

from odradek.broker.cli.errors import CommandFailed
from odradek.controller.tied_process import tied_command
from odradek.controller.zookeeper_server import LOOPBACK, ZooKeeperServer

#: The controller notices a killed broker after this time.
SESSION_TIMEOUT_MS = 6000


class ProcessState(Enum):
    WAITING = "waiting"
    STARTING = "starting"
    READY = "ready"
    STOPPING = "stopping"
    STOPPED = "stopped"
    DIED = "died"


class LocalBroker:
    """A broker of the cluster, running or not."""

    def __init__(
        self, directory: Path, broker_id: int, *, port: int, settings: Sequence[str]
    ) -> None:
        self.id = broker_id
        self.data_dir = directory / f"broker-{broker_id}"
        self.log = directory / f"broker-{broker_id}.log"
        self._ready_file = directory / f"broker-{broker_id}.ready"
        self._port = port
        self._settings = [*settings, f"broker.id={broker_id}"]
        self._process: subprocess.Popen[bytes] | None = None
        self._is_stopping = False
        self.address: str | None = None

    @property
    def name(self) -> str:
        return f"broker {self.id}"

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    @property
    def state(self) -> ProcessState:
        if self._process is None:
            return ProcessState.WAITING
        if self._process.poll() is not None:
            is_clean = self._is_stopping and self._process.returncode == 0
            return ProcessState.STOPPED if is_clean else ProcessState.DIED
        if self._is_stopping:
            return ProcessState.STOPPING
        if self.address is None and self._ready_file.exists():
            self.address = self._ready_file.read_text().strip()
        return ProcessState.STARTING if self.address is None else ProcessState.READY

    @property
    def exit_description(self) -> str:
        """Describe how the process ended, with its last log line if no signal killed it."""
        assert self._process is not None, self.name
        if self._process.returncode < 0:
            signal_name = signal.Signals(-self._process.returncode).name
            return f"was killed by {signal_name}, see {self.log}"
        lines = self.log.read_text(errors="replace").splitlines()
        last_line = f": {lines[-1]}" if lines else ""
        return f"exited with code {self._process.returncode}, see {self.log}{last_line}"

    def check_settings(self) -> None:
        """Load the settings as the broker's process would; raises CommandFailed."""
        # Imported only here: slow to import.
        from odradek.broker.settings.sources import BadSettings, load

        overrides = [f"log.dirs={self.data_dir}", *self._settings]
        try:
            load(file=None, environment=os.environ, overrides=overrides, port=self._port)
        except BadSettings as error:
            raise CommandFailed(str(error)) from error

    def start(self) -> None:
        self._ready_file.unlink(missing_ok=True)
        command = [sys.executable, "-m", "odradek.broker.cli.main", "serve"]
        command += ["--data-dir", str(self.data_dir), "--port", str(self._port)]
        command += ["--ready-file", str(self._ready_file)]
        for setting in self._settings:
            command += ["--override", setting]
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                tied_command(command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                process_group=0,
            )

    def terminate(self) -> None:
        """Request a clean shutdown."""
        self._is_stopping = True
        if self._process is not None:
            self._process.terminate()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


class LocalCluster:
    """``settings`` apply to all brokers and override the settings of ``_broker_settings``."""

    def __init__(
        self, directory: Path, *, brokers: int, port: int, zookeeper_port: int, settings: list[str]
    ) -> None:
        self._is_zookeeper_stopped = False
        self.zookeeper = ZooKeeperServer(
            directory / "zookeeper", port=zookeeper_port or _free_port()
        )
        defaults = _broker_settings(self.zookeeper.address, brokers)
        self.brokers = [
            LocalBroker(
                directory, number, port=port and port + number, settings=[*defaults, *settings]
            )
            for number in range(brokers)
        ]

    @property
    def zookeeper_state(self) -> ProcessState:
        if self.zookeeper.is_running():
            return ProcessState.READY
        return ProcessState.STOPPED if self._is_zookeeper_stopped else ProcessState.DIED

    @property
    def addresses(self) -> str:
        """The addresses of the brokers that are or were ready."""
        return ",".join(broker.address for broker in self.brokers if broker.address)

    @property
    def is_ready(self) -> bool:
        return all(broker.state is ProcessState.READY for broker in self.brokers)

    @property
    def is_dead(self) -> bool:
        return all(broker.state is ProcessState.DIED for broker in self.brokers)

    def terminate(self) -> None:
        for broker in self.brokers:
            broker.terminate()

    @property
    def are_brokers_stopped(self) -> bool:
        ended = (ProcessState.WAITING, ProcessState.STOPPED, ProcessState.DIED)
        return all(broker.state in ended for broker in self.brokers)

    def kill(self) -> None:
        """Kill the brokers that still run, then stop ZooKeeper, which no broker needs any more."""
        for broker in self.brokers:
            broker.kill()
        if self.zookeeper.is_running():
            self.zookeeper.stop()
            self._is_zookeeper_stopped = True


def _broker_settings(zookeeper_connect: str, broker_count: int) -> list[str]:
    """Replicate as far as the number of brokers allows, and shut down quickly."""
    replicas = min(3, broker_count)
    min_isr = min(2, broker_count)
    return [
        f"zookeeper.connect={zookeeper_connect}",
        f"zookeeper.session.timeout.ms={SESSION_TIMEOUT_MS}",
        f"default.replication.factor={replicas}",
        f"min.insync.replicas={min_isr}",
        f"offsets.topic.replication.factor={replicas}",
        f"transaction.state.log.replication.factor={replicas}",
        f"transaction.state.log.min.isr={min_isr}",
        "controlled.shutdown.retry.backoff.ms=200",
    ]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port
