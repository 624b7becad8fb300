"""A broker in a process of its own: ``odradek serve`` on a free port and a data directory.

    with BrokerProcess(tmp_path / "logs", "num.partitions=3").start() as broker:
        Producer({"bootstrap.servers": broker.address})

It keeps its port when it is started again.  What it prints goes to one file beside its data, over
all its starts.  It ends with the process that started it, however that ends.

A conftest.py or a test module that imports ``broker`` from here has one broker for each module.

Owner: the thread that started it.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest

from odradek.controller.tied_process import tied_command
from tests.support.free_ports import free_port
from tests.support.server_process import ServerFailed

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 30.0
POLL_INTERVAL_S = 0.01
QUOTED_LINES = 40


class BrokerProcess:
    """A broker on its data directory, running or not."""

    def __init__(
        self,
        data_dir: Path,
        *overrides: str,
        config: Path | None = None,
        arguments: tuple[str, ...] = (),
        port: int | None = None,
        hangup: signal.Handlers = signal.SIG_DFL,
    ) -> None:
        """``overrides`` are settings, name=value; ``arguments`` go to ``odradek serve`` as is.

        ``hangup`` is what SIGHUP does to who is started; whoever runs tests by nohup ignores it.
        """
        self.data_dir = data_dir
        self.port = port or free_port()
        self.log = data_dir.with_name(data_dir.name + ".out")
        self._ready_file = data_dir.with_name(data_dir.name + ".ready")
        self._overrides = overrides
        self._config = config
        self._arguments = arguments
        self._hangup = hangup
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        return self._running.pid

    @property
    def descriptors(self) -> int:
        """How many it has open."""
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def setting(self, name: str, usual: str = "") -> str:
        """As it was overridden, if it was."""
        return dict(each.split("=", 1) for each in self._overrides).get(name, usual)

    @property
    def log_dirs(self) -> list[Path]:
        """One, unless it was told of others."""
        overridden = dict(each.split("=", 1) for each in self._overrides)
        return [Path(each) for each in overridden.get("log.dirs", str(self.data_dir)).split(",")]

    @property
    def log_text(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    @property
    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, f"the broker on {self.data_dir} is not running"
        return self._process

    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def has_stopped_well(self) -> bool:
        return self._process is not None and self._process.poll() == 0

    def start(self, *, timeout_s: float = START_TIMEOUT_S) -> Self:
        """Returns when it is ready; raises ServerFailed."""
        self.launch()
        self.wait_until_ready(timeout_s=timeout_s)
        return self

    def launch(self) -> None:
        """Let it begin to start."""
        assert not self.is_alive(), f"the broker on {self.data_dir} runs already"
        self._ready_file.unlink(missing_ok=True)
        with self.log.open("ab") as output, hanging_up(self._hangup):
            self._process = subprocess.Popen(
                tied_command(self.command()), stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )

    def wait_until_ready(self, *, timeout_s: float = START_TIMEOUT_S) -> None:
        deadline = time.monotonic() + timeout_s
        while not self._ready_file.exists():
            if not self.is_alive():
                raise self._failed(f"ended with {self._running.returncode} before it was ready")
            if time.monotonic() > deadline:
                self.kill()
                raise self._failed(f"was not ready after {timeout_s} s")
            time.sleep(POLL_INTERVAL_S)

    def command(self) -> list[str]:
        written = ["--data-dir", self.data_dir, "--port", self.port]
        written += ["--ready-file", self._ready_file]
        written += ["--config", self._config] if self._config else []
        for override in self._overrides:
            written += ["--override", override]
        module = [sys.executable, "-m", "odradek.broker.cli.main", "serve"]
        return [*module, *map(str, written), *self._arguments]

    def send(self, number: signal.Signals) -> None:
        self._running.send_signal(number)

    def wait(self, *, timeout_s: float = STOP_TIMEOUT_S) -> int:
        """Until it has ended; its exit status.  Raises if it had to be killed."""
        try:
            return self._running.wait(timeout_s)
        except subprocess.TimeoutExpired as late:
            self.kill()
            raise self._failed(f"had to be killed after {timeout_s} s") from late

    def stop(self, *, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Ask it to end (SIGTERM); raises if it did not end well, and in time."""
        self.send(signal.SIGTERM)
        status = self.wait(timeout_s=timeout_s)
        if status:
            raise self._failed(f"ended with {status}")

    def kill(self) -> None:
        """End it at once, as a crash would (SIGKILL)."""
        self._running.kill()
        self._running.wait()

    def restart(self) -> Self:
        """Stop it, if it still runs, and start it again on the same port."""
        if self.is_alive():
            self.stop()
        return self.start()

    def log_tail(self) -> str:
        return "\n".join(self.log_text.splitlines()[-QUOTED_LINES:])

    def _failed(self, what: str) -> ServerFailed:
        return ServerFailed(f"the broker on {self.data_dir} {what}; it wrote\n{self.log_tail()}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, failure: BaseException | None, trace: object) -> None:
        if failure is not None:
            failure.add_note(f"The broker at {self.address} wrote\n{self.log_tail()}")
        if self.is_alive():
            # A test that has failed is not to be hidden by a broker that did not stop well.
            with contextlib.suppress(*([ServerFailed] if failure is not None else [])):
                self.stop()


@contextlib.contextmanager
def hanging_up(disposition: signal.Handlers) -> Iterator[None]:
    """What is started meanwhile inherits this for SIGHUP; threads cannot change what theirs do."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGHUP, disposition)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker") / "logs").start() as running:
        yield running
