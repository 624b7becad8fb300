"""The brokers that are measured: their addresses, start times, CPU time and memory.

    odradek    ``odradek serve`` in a separate process, with its defaults
    kafka      Apache Kafka, one KRaft node, 1 GB of heap, Kafka's own defaults for threads
    bootstrap  any broker at a given address; CPU and memory are known if its process id is given

Invariant: CPU time is that of the broker's process and of children that have exited; a worker
process that still runs is not included.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from tests.support.apache_kafka import kraft_broker
from tests.support.broker_process import BrokerProcess
from tests.support.raw_request import brokers_in_metadata

#: The test harness runs brokers with the C1 compiler and a small heap; these options override that.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=4 -Xms1g -Xmx1g -XX:-UseSerialGC -XX:+UseG1GC"
#: The test harness also sets few threads and small buffers; these are Kafka's defaults.
KAFKA_PROPERTIES = {
    "num.network.threads": "3",
    "num.io.threads": "8",
    "log.index.size.max.bytes": "10485760",
    "log.cleaner.dedupe.buffer.size": "134217728",
}
#: For all targets: compaction starts soon, and deleted segments free their space soon.
PROPERTIES = {"log.cleaner.backoff.ms": "500", "log.segment.delete.delay.ms": "1000"}
#: The name of our target.
ODRADEK = "odradek"
START_TIMEOUT_S = 60.0
POLL_INTERVAL_S = 0.002
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Target:
    """A running broker."""

    name: str
    bootstrap: str
    pid: int | None = None
    start_s: float | None = None
    start_cpu_s: float | None = None
    idle_rss_mib: float | None = None

    def cpu_s(self) -> float | None:
        """Return the user and system time of the process so far."""
        if self.pid is None:
            return None
        after_name = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, after_name[11:15])) / TICKS_PER_S

    def rss_mib(self) -> float | None:
        if self.pid is None:
            return None
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024 / MIB
        return None


@contextmanager
def start_targets(
    directory: Path, kafka_version: str | None, properties: Mapping[str, str] = PROPERTIES
) -> Iterator[list[Target]]:
    """Start Odradek, and Kafka if a version is given."""
    with ExitStack() as exit_stack:
        targets = [exit_stack.enter_context(odradek_broker(directory / "odradek", properties))]
        if kafka_version:
            kafka = kafka_broker(directory / "kafka", version=kafka_version, properties=properties)
            targets.append(exit_stack.enter_context(kafka))
        yield targets


@contextmanager
def odradek_broker(directory: Path, properties: Mapping[str, str] = PROPERTIES) -> Iterator[Target]:
    """Start Odradek twice; the second start is timed, since its modules are compiled by then."""
    directory.mkdir(parents=True)
    settings = [f"{name}={setting}" for name, setting in properties.items()]
    broker = BrokerProcess(directory / "logs", *settings)
    with server_environment(pycache_directory=directory / "compiled"):
        broker.start().stop()
        started = time.perf_counter()
        broker.launch()
    with broker:
        start_s = _wait_for_metadata_s(broker.port, started)
        yield _started_target(ODRADEK, broker.address, broker.pid, start_s)


@contextmanager
def kafka_broker(
    directory: Path, *, version: str, properties: Mapping[str, str] = PROPERTIES
) -> Iterator[Target]:
    """Start Kafka twice; the second start is timed.  Raises KafkaUnavailable."""
    directory.mkdir(parents=True)
    broker = kraft_broker(directory, version=version, properties={**KAFKA_PROPERTIES, **properties})
    with server_environment(pycache_directory=directory / "compiled"):
        broker.start().stop()  # formats the log directory
        started = time.perf_counter()
        broker.start()
    start_s = time.perf_counter() - started
    try:
        yield _started_target(f"kafka {version}", broker.bootstrap, broker.process.pid, start_s)
    finally:
        broker.kill()  # a controlled shutdown takes long and is not measured


def existing_broker(bootstrap: str, pid: int | None) -> Target:
    return Target(bootstrap, bootstrap, pid)


def _started_target(name: str, bootstrap: str, pid: int, start_s: float) -> Target:
    target = Target(name, bootstrap, pid, start_s)
    return replace(target, start_cpu_s=target.cpu_s(), idle_rss_mib=target.rss_mib())


def _wait_for_metadata_s(port: int, started: float) -> float:
    deadline = started + START_TIMEOUT_S
    while time.perf_counter() < deadline:
        with contextlib.suppress(OSError):
            if brokers_in_metadata(port):
                return time.perf_counter() - started
        time.sleep(POLL_INTERVAL_S)
    raise TimeoutError(f"no Metadata response within {START_TIMEOUT_S} s")


@contextmanager
def server_environment(*, pycache_directory: Path) -> Iterator[None]:
    """Set the environment of servers that start in this context, but not of the load drivers."""
    before = dict(os.environ)
    os.environ["_JAVA_OPTIONS"] = JAVA_OPTIONS
    os.environ["PYTHONPYCACHEPREFIX"] = str(pycache_directory)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
