"""A pytest plugin that provides Kafka brokers to tests; active once Odradek is installed.

    def test_orders_arrive(odradek):
        producer = Producer({"bootstrap.servers": odradek.address})

    odradek             one broker for the whole run (with pytest-xdist, one per worker process)
    odradek_per_test    one broker for a single test, which may stop, kill and restart it

The broker's settings come from ``odradek_settings`` in the ini-file, one NAME=VALUE per line, and
for ``odradek_per_test`` also from the marker:

    @pytest.mark.odradek("num.partitions=3", "log.retention.ms=1000")

A broker is a separate process on a free port.  It stores its records below pytest's temporary
directory, and it exits when pytest exits, however that happens.  The report of a failed test
includes the end of the broker's log.

Invariant: this file imports nothing else of Odradek. The tests may have their own ``config`` or
``broker`` packages, and other versions of any library.
Owner: the thread that runs the tests.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 30.0
POLL_INTERVAL_S = 0.005
LOG_TAIL_LINES = 60

SETTINGS_INI_OPTION = "odradek_settings"

#: Runs a command that exits when this process exits. It is run as a script, never imported.
_TIED_PROCESS_SCRIPT = Path(__file__).parent / "controller" / "tied_process.py"


class BrokerFailed(Exception):
    """A broker exited, or did not start or stop in time. The message ends with its log."""


class Broker:
    """A broker process with its own directory; the process may be running or not."""

    def __init__(self, directory: Path, settings: Sequence[str] = ()) -> None:
        self.data_dir = directory / "data"
        self.log_file = directory / "broker.log"
        self._ready_file = directory / "ready"
        self._settings = tuple(settings)
        self._port = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """host:port for ``bootstrap.servers``; unchanged by a restart."""
        return f"{self.host}:{self.port}"

    @property
    def host(self) -> str:
        return "127.0.0.1"

    @property
    def port(self) -> int:
        assert self._port, "the broker has not been started"
        return self._port

    @property
    def pid(self) -> int:
        return self._started_process.pid

    @property
    def log_text(self) -> str:
        """The broker's output since its first start."""
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    @property
    def _started_process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "the broker has not been started"
        return self._process

    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start and wait until the broker serves clients; raises BrokerFailed."""
        assert not self.is_running(), f"the broker at {self.address} is already running"
        self._ready_file.unlink(missing_ok=True)
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                self._command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        with ExitStack() as undo:
            undo.callback(self.kill)
            self._wait_until_ready()
            undo.pop_all()
        self._port = int(self._ready_file.read_text().rpartition(":")[2])

    def stop(self) -> None:
        """Shut down as a service manager does (SIGTERM), and wait; raises BrokerFailed."""
        self._started_process.send_signal(signal.SIGTERM)
        try:
            status = self._started_process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired as error:
            self.kill()
            raise self._failure(f"did not stop within {STOP_TIMEOUT_S} s") from error
        if status:
            raise self._failure(f"exited with status {status}")

    def kill(self) -> None:
        """Kill the process, as in a crash (SIGKILL)."""
        self._started_process.kill()
        self._started_process.wait()

    def restart(self) -> None:
        if self.is_running():
            self.stop()
        self.start()

    def log_tail(self) -> str:
        return "\n".join(self.log_text.splitlines()[-LOG_TAIL_LINES:])

    def _command(self) -> list[str]:
        # -P keeps the working directory of the tests off the broker's module search path.
        serve = [sys.executable, "-P", "-m", "odradek.broker.cli.main", "serve"]
        serve += ["--data-dir", str(self.data_dir), "--port", str(self._port)]
        serve += ["--ready-file", str(self._ready_file)]
        for setting in self._settings:
            serve += ["--override", setting]
        return [sys.executable, "-I", "-S", str(_TIED_PROCESS_SCRIPT), str(os.getpid()), *serve]

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self._ready_file.exists():
            if not self.is_running():
                raise self._failure(
                    f"exited with status {self._started_process.returncode} before it was ready"
                )
            if time.monotonic() > deadline:
                raise self._failure(f"was not ready after {START_TIMEOUT_S} s")
            time.sleep(POLL_INTERVAL_S)

    def _failure(self, reason: str) -> BrokerFailed:
        return BrokerFailed(f"the broker in {self.data_dir} {reason}; its log:\n{self.log_tail()}")


#: The running brokers, each with the name of its fixture.
_BROKERS = pytest.StashKey[list[tuple[str, Broker]]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(
        SETTINGS_INI_OPTION, "settings of the brokers, one NAME=VALUE per line", type="linelist"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_BROKERS] = []
    config.addinivalue_line(
        "markers", "odradek(*settings): NAME=VALUE for the broker of odradek_per_test"
    )


@pytest.fixture(scope="session")
def odradek(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker]:
    """A Kafka broker for the whole run; clients connect to ``odradek.address``."""
    broker = _create_broker(pytestconfig, tmp_path_factory, ())
    yield from _run_broker(pytestconfig, "odradek", broker)


@pytest.fixture
def odradek_per_test(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker]:
    """A Kafka broker for this test only, with the settings of its ``odradek`` markers."""
    marks = reversed([*request.node.iter_markers("odradek")])  # the nearest is last and wins
    marker_settings = [setting for mark in marks for setting in mark.args]
    broker = _create_broker(request.config, tmp_path_factory, marker_settings)
    yield from _run_broker(request.config, "odradek_per_test", broker)


def _create_broker(
    config: pytest.Config, tmp_path_factory: pytest.TempPathFactory, marker_settings: Sequence[str]
) -> Broker:
    return Broker(
        tmp_path_factory.mktemp("odradek"), [*config.getini(SETTINGS_INI_OPTION), *marker_settings]
    )


def _run_broker(config: pytest.Config, fixture_name: str, broker: Broker) -> Iterator[Broker]:
    broker.start()
    brokers = config.stash[_BROKERS]
    brokers.append((fixture_name, broker))
    try:
        yield broker
    finally:
        brokers.remove((fixture_name, broker))
        if broker.is_running():
            broker.stop()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        for fixture, broker in item.config.stash[_BROKERS]:
            if _uses_fixture(item, fixture):
                text = f"end of {broker.log_file}:\n{broker.log_tail()}"
                report.sections.append((f"Odradek at {broker.address}", text))
    return report


def _uses_fixture(item: pytest.Item, fixture_name: str) -> bool:
    """Return whether the test uses the fixture, directly or through another fixture."""
    names: Sequence[str] = getattr(item, "fixturenames", ())
    return fixture_name in names
