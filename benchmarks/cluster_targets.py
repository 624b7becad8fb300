"""Clusters that are measured: three brokers each, all on one ZooKeeper, in branches of it.

    ours    ``odradek serve``, as it comes
    kafka   Apache Kafka 3.9, 1 GB of heap each, Kafka's own defaults for threads

Invariant: CPU time is that of all brokers of a side that run now.

Owner: the thread that measures; Kafka's are started by threads that live as long as the side, as
the processes end with them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from broker_clients import LoadFailed
from broker_sides import KAFKA_PROPERTIES, OURS, Side, at, environment

from odradek.controller.zookeeper_server import ZooKeeperServer
from tests.support.apache_kafka import ApacheKafka, zookeeper_broker
from tests.support.broker_process import BrokerProcess
from tests.support.free_ports import free_port
from tests.support.server_process import ServerFailed

BROKERS = 3


class Server(Protocol):
    """One broker of a cluster, running or not."""

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
class ClusterSide(Side):
    """``servers`` by id; ``zookeeper`` is the address of its branch."""

    servers: Sequence[Server] = ()
    zookeeper: str = ""

    def cpu_s(self) -> float:
        running = [at("", each.pid) for each in self.servers if each.is_alive()]
        return sum(each.cpu_s() or 0.0 for each in running)

    def rss_mib(self) -> float:
        running = [at("", each.pid) for each in self.servers if each.is_alive()]
        return sum(each.rss_mib() or 0.0 for each in running)


@contextmanager
def in_turns(
    directory: Path, kafka_version: str | None, properties: Mapping[str, str]
) -> Iterator[list[Side]]:
    """Ours, and Kafka's, if it is wanted."""
    zookeeper = ZooKeeperServer(
        directory / "zookeeper",
        port=free_port(),
        properties={"4lw.commands.whitelist": "srvr,ruok,dump"},
    )
    with ExitStack() as endings:
        zookeeper.start()
        endings.callback(zookeeper.kill)
        endings.enter_context(environment(compiled=directory / "compiled"))
        sides: list[Side] = [
            endings.enter_context(_ours(directory / "odradek", zookeeper.address, properties))
        ]
        if kafka_version:
            place = directory / "kafka"
            kafka = _kafka(place, zookeeper.address, kafka_version, properties)
            sides.append(endings.enter_context(kafka))
        yield sides


@contextmanager
def _ours(directory: Path, zookeeper: str, properties: Mapping[str, str]) -> Iterator[Side]:
    directory.mkdir(parents=True)
    branch = f"{zookeeper}/odradek"
    common = {"zookeeper.connect": branch, **properties}
    settings = [f"{name}={setting}" for name, setting in common.items()]
    servers = [
        BrokerProcess(directory / str(number), *settings, f"broker.id={number}")
        for number in range(BROKERS)
    ]
    with _running(servers):
        yield _side(OURS, servers, branch)


@contextmanager
def _kafka(
    directory: Path, zookeeper: str, version: str, properties: Mapping[str, str]
) -> Iterator[Side]:
    """Raises KafkaUnavailable."""
    directory.mkdir(parents=True)
    branch = f"{zookeeper}/kafka"
    with ThreadPoolExecutor(BROKERS) as starters:
        servers = [
            KafkaServer(
                zookeeper_broker(
                    directory,
                    zookeeper=branch,
                    broker_id=number,
                    properties={**KAFKA_PROPERTIES, **properties},
                ),
                starters,
            )
            for number in range(BROKERS)
        ]
        with _running(servers):
            yield _side(f"kafka {version}", servers, branch)


@contextmanager
def _running(servers: Sequence[Server]) -> Iterator[None]:
    try:
        for server in servers:  # one after the other: all at once is a measure of its own
            server.launch()
            server.wait_until_ready()
        yield
    finally:
        for server in servers:
            if server.is_alive():
                server.kill()  # in order would take long, and is not measured


def _side(name: str, servers: Sequence[Server], branch: str) -> ClusterSide:
    bootstrap = ",".join(each.address for each in servers)
    return ClusterSide(name, bootstrap, servers=servers, zookeeper=branch)


class KafkaServer:
    """A broker of Kafka's, with the manners of ours."""

    def __init__(self, broker: ApacheKafka, starters: ThreadPoolExecutor) -> None:
        self._broker = broker
        self._starters = starters
        self._starting: Future[object] | None = None
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
        self._starting = self._starters.submit(self._broker.start)

    def wait_until_ready(self) -> None:
        assert self._starting is not None
        with _told_in_a_line():
            self._starting.result()
        self._is_alive = True

    def stop(self) -> None:
        self._is_alive = False
        with _told_in_a_line():
            self._broker.stop()

    def kill(self) -> None:
        self._is_alive = False
        self._broker.kill()


@contextmanager
def _told_in_a_line() -> Iterator[None]:
    """What a server did not do in time fails its measure, and not the others."""
    try:
        yield
    except ServerFailed as failure:
        raise LoadFailed(str(failure).partition("\n")[0]) from failure
