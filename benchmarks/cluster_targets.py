"""The clusters that are measured: three brokers each, all on one ZooKeeper server.

    odradek   ``odradek serve`` with its defaults, in the chroot /odradek
    kafka     Apache Kafka 3.9, 1 GB of heap each, Kafka's own defaults for threads, in /kafka

Invariant: CPU time is that of all brokers of a target that run now.

Owner: the thread that measures.  Kafka's brokers are started by threads that live as long as the
target, because the processes end with the threads that started them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from broker_targets import KAFKA_PROPERTIES, ODRADEK, Target, existing_broker, server_environment
from client_drivers import LoadFailed

from odradek.controller.zookeeper_server import ZooKeeperServer
from tests.support.apache_kafka import ApacheKafka, zookeeper_broker
from tests.support.broker_process import BrokerProcess
from tests.support.free_ports import free_port
from tests.support.server_process import ServerFailed

BROKER_COUNT = 3


class ClusterBroker(Protocol):
    """A broker of a cluster, running or stopped."""

    @property
    def address(self) -> str: ...

    @property
    def pid(self) -> int: ...

    def is_alive(self) -> bool: ...

    def launch(self) -> None: ...

    def wait_until_ready(self) -> None: ...

    def stop(self) -> None: ...

    def kill(self) -> None: ...


@dataclass(frozen=True, slots=True)
class ClusterTarget(Target):
    """A cluster; ``servers`` are ordered by broker id, ``zookeeper`` is the address with chroot."""

    servers: Sequence[ClusterBroker] = ()
    zookeeper: str = ""

    def cpu_s(self) -> float:
        running_targets = [
            existing_broker("", each.pid) for each in self.servers if each.is_alive()
        ]
        return sum(each.cpu_s() or 0.0 for each in running_targets)

    def rss_mib(self) -> float:
        running_targets = [
            existing_broker("", each.pid) for each in self.servers if each.is_alive()
        ]
        return sum(each.rss_mib() or 0.0 for each in running_targets)


@contextmanager
def start_targets(
    directory: Path, kafka_version: str | None, properties: Mapping[str, str]
) -> Iterator[list[Target]]:
    """Start Odradek's cluster, and Kafka's if a version is given."""
    zookeeper = ZooKeeperServer(
        directory / "zookeeper",
        port=free_port(),
        properties={"4lw.commands.whitelist": "srvr,ruok,dump"},
    )
    with ExitStack() as exit_stack:
        zookeeper.start()
        exit_stack.callback(zookeeper.kill)
        exit_stack.enter_context(server_environment(pycache_directory=directory / "compiled"))
        targets: list[Target] = [
            exit_stack.enter_context(
                _odradek_cluster(directory / "odradek", zookeeper.address, properties)
            )
        ]
        if kafka_version:
            kafka_directory = directory / "kafka"
            kafka = _kafka_cluster(kafka_directory, zookeeper.address, kafka_version, properties)
            targets.append(exit_stack.enter_context(kafka))
        yield targets


@contextmanager
def _odradek_cluster(
    directory: Path, zookeeper: str, properties: Mapping[str, str]
) -> Iterator[Target]:
    directory.mkdir(parents=True)
    chroot = f"{zookeeper}/odradek"
    common = {"zookeeper.connect": chroot, **properties}
    settings = [f"{name}={setting}" for name, setting in common.items()]
    servers = [
        BrokerProcess(directory / str(number), *settings, f"broker.id={number}")
        for number in range(BROKER_COUNT)
    ]
    with _run_servers(servers):
        yield _cluster_target(ODRADEK, servers, chroot)


@contextmanager
def _kafka_cluster(
    directory: Path, zookeeper: str, version: str, properties: Mapping[str, str]
) -> Iterator[Target]:
    """Start three Kafka brokers.  Raises KafkaUnavailable."""
    directory.mkdir(parents=True)
    chroot = f"{zookeeper}/kafka"
    with ThreadPoolExecutor(BROKER_COUNT) as start_executor:
        servers = [
            ApacheKafkaBroker(
                zookeeper_broker(
                    directory,
                    zookeeper=chroot,
                    broker_id=number,
                    properties={**KAFKA_PROPERTIES, **properties},
                ),
                start_executor,
            )
            for number in range(BROKER_COUNT)
        ]
        with _run_servers(servers):
            yield _cluster_target(f"kafka {version}", servers, chroot)


@contextmanager
def _run_servers(servers: Sequence[ClusterBroker]) -> Iterator[None]:
    try:
        for server in servers:  # one by one: a simultaneous start is a separate benchmark
            server.launch()
            server.wait_until_ready()
        yield
    finally:
        for server in servers:
            if server.is_alive():
                server.kill()  # a controlled shutdown takes long and is not measured


def _cluster_target(name: str, servers: Sequence[ClusterBroker], chroot: str) -> ClusterTarget:
    bootstrap = ",".join(each.address for each in servers)
    return ClusterTarget(name, bootstrap, servers=servers, zookeeper=chroot)


class ApacheKafkaBroker:
    """Gives a Kafka broker the interface of our broker processes."""

    def __init__(self, broker: ApacheKafka, start_executor: ThreadPoolExecutor) -> None:
        self._broker = broker
        self._start_executor = start_executor
        self._start_future: Future[object] | None = None
        self._is_alive = False

    @property
    def address(self) -> str:
        return self._broker.bootstrap

    @property
    def pid(self) -> int:
        return self._broker.process.pid

    def is_alive(self) -> bool:
        return self._is_alive

    def launch(self) -> None:
        self._start_future = self._start_executor.submit(self._broker.start)

    def wait_until_ready(self) -> None:
        assert self._start_future is not None
        with _server_failure_as_load_failure():
            self._start_future.result()
        self._is_alive = True

    def stop(self) -> None:
        self._is_alive = False
        with _server_failure_as_load_failure():
            self._broker.stop()

    def kill(self) -> None:
        self._is_alive = False
        self._broker.kill()


@contextmanager
def _server_failure_as_load_failure() -> Iterator[None]:
    """Convert ServerFailed to LoadFailed, which fails one benchmark and not the whole run."""
    try:
        yield
    except ServerFailed as error:
        raise LoadFailed(str(error).partition("\n")[0]) from error
