"""Apache Kafka and ZooKeeper servers on this machine, to run the project beside.

    with ZooKeeper(directory) as zookeeper:
        with zookeeper_broker(directory, zookeeper=zookeeper.address) as broker:
            client(broker.bootstrap)

A server is described when made, runs from ``start`` to ``stop`` or ``kill``, and may be started
again on the same port and directory.  ``start`` returns when clients are answered.

Owner: the thread that started it (see tied_process).
"""

import base64
import socket
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.free_ports import free_port
from tests.support.java_program import java_command, run_java
from tests.support.kafka_jars import KAFKA_3_9, KAFKA_4_1, kafka_jars
from tests.support.raw_request import LOOPBACK, brokers_in_metadata
from tests.support.server_process import ServerFailed, ServerProcess

START_TIMEOUT_S = 60
ANSWER_TIMEOUT_S = 5
SESSION_TIMEOUT_S = 6
SESSION_POLL_INTERVAL_S = 0.25

# What a single broker needs to serve every API, and what keeps it small and quick to start.
BROKER_PROPERTIES = {
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    "log.index.size.max.bytes": "65536",
    "num.network.threads": "2",
    "num.io.threads": "4",
    "log.cleaner.dedupe.buffer.size": "16777216",
}

LOG4J = """\
log4j.rootLogger=INFO, console
log4j.logger.kafka.request.logger=WARN
log4j.logger.state.change.logger=WARN
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=[%d] %p %m (%c)%n
"""


class JavaServer:
    """One server of Kafka's jars, running or not."""

    def __init__(
        self, name: str, *, directory: Path, command: list[str], answers: Callable[[], bool]
    ) -> None:
        self.name = name
        self.directory = directory
        self.log = directory / f"{name}.out"
        self._command = command
        self._answers = answers
        self._process: ServerProcess | None = None

    @property
    def process(self) -> ServerProcess:
        assert self._process is not None, f"{self.name} is not running"
        return self._process

    def start(self) -> Self:
        assert self._process is None, f"{self.name} is running already"
        process = ServerProcess(self.name, command=self._command, log=self.log)
        process.wait_until(self._answers, timeout_s=START_TIMEOUT_S)
        self._process = process
        return self

    def stop(self) -> None:
        """Ends after a clean shutdown."""
        process, self._process = self.process, None
        process.stop()

    def kill(self) -> None:
        """Ends at once, with whatever is on disk by then."""
        process, self._process = self.process, None
        process.kill()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is not None:
            self.stop()


class ZooKeeper(JavaServer):
    """A ZooKeeper ensemble of one."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self.address = f"{LOOPBACK}:{self.port}"
        settings = {
            "tickTime": "500",  # sessions may be as short as twice this
            "maxSessionTimeout": "60000",
            "dataDir": str(directory / "zookeeper"),
            "clientPort": str(self.port),
            "clientPortAddress": LOOPBACK,
            "admin.enableServer": "false",
            "maxClientCnxns": "0",
            "4lw.commands.whitelist": "srvr,dump",
        }
        configuration = _write_properties(directory / "zoo.cfg", settings)
        super().__init__(
            "zookeeper",
            directory=directory,
            command=_server_command(
                KAFKA_3_9,
                directory,
                "org.apache.zookeeper.server.quorum.QuorumPeerMain",
                configuration,
            ),
            answers=self._answers_status,
        )

    def _answers_status(self) -> bool:
        try:
            return _asked_zookeeper(self.address, "srvr").startswith("Zookeeper version")
        except OSError:
            return False


class ApacheKafka(JavaServer):
    """One broker."""

    def __init__(
        self,
        directory: Path,
        *,
        version: str,
        node_id: int,
        properties: Mapping[str, str],
        before_start: Callable[["ApacheKafka"], None],
        other_listeners: str = "",
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        name = f"kafka-{version}-node-{node_id}"
        self.version = version
        self.node_id = node_id
        self.port = free_port()
        self.bootstrap = f"{LOOPBACK}:{self.port}"
        self.data_directory = directory / f"{name}-data"
        self.configuration = _write_properties(
            directory / f"{name}.properties",
            {
                "listeners": f"PLAINTEXT://{self.bootstrap}{other_listeners}",
                "log.dirs": str(self.data_directory),
                **BROKER_PROPERTIES,
                **properties,
            },
        )
        super().__init__(
            name,
            directory=directory,
            command=_server_command(version, directory, "kafka.Kafka", self.configuration),
            answers=self._is_in_its_own_metadata,
        )
        self._before_start = before_start

    def start(self) -> Self:
        self._before_start(self)
        return super().start()

    def segment(self, topic: str, *, partition: int = 0, base_offset: int = 0) -> Path:
        return self.data_directory / f"{topic}-{partition}" / f"{base_offset:020}.log"

    def _is_in_its_own_metadata(self) -> bool:
        try:
            return self.node_id in brokers_in_metadata(self.port)
        except OSError:
            return False


def zookeeper_broker(
    directory: Path,
    *,
    zookeeper: str,
    broker_id: int = 1,
    properties: Mapping[str, str] = {},
    other_listeners: str = "",
) -> ApacheKafka:
    """A Kafka 3.9 broker that joins the cluster in the ZooKeeper at this address."""

    def wait_until_forgotten(broker: ApacheKafka) -> None:
        _wait_for_expired_session(zookeeper, broker_id=broker.node_id)

    return ApacheKafka(
        directory,
        version=KAFKA_3_9,
        node_id=broker_id,
        properties={
            "broker.id": str(broker_id),
            "zookeeper.connect": zookeeper,
            "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_S * 1000),
            **properties,
        },
        before_start=wait_until_forgotten,
        other_listeners=other_listeners,
    )


def old_format_broker(directory: Path, zookeeper: str) -> ApacheKafka:
    """A Kafka 3.9 broker that writes magic 0 or 1 for a ``message.format.version`` of that time.

    It is a cluster of its own, in a branch of the ZooKeeper at this address.
    """
    return zookeeper_broker(
        directory,
        zookeeper=f"{zookeeper}/old-formats",
        broker_id=2,
        properties={"inter.broker.protocol.version": "2.8"},  # from 3.0 on it writes magic 2 only
    )


def kraft_broker(
    directory: Path, *, version: str = KAFKA_4_1, properties: Mapping[str, str] = {}
) -> ApacheKafka:
    """A cluster of one node, without ZooKeeper."""
    controller = f"{LOOPBACK}:{free_port()}"
    return ApacheKafka(
        directory,
        version=version,
        node_id=1,
        other_listeners=f",CONTROLLER://{controller}",
        properties={
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{controller}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            **properties,
        },
        before_start=_format_once,
    )


def _wait_for_expired_session(zookeeper: str, *, broker_id: int) -> None:
    """Until a broker that was killed is forgotten; one that finds its id in use would give up."""
    address, slash, branch = zookeeper.partition("/")
    registration = f"{slash}{branch}/brokers/ids/{broker_id}\n"
    deadline = time.monotonic() + SESSION_TIMEOUT_S * 3
    while registration in _asked_zookeeper(address, "dump"):
        if time.monotonic() > deadline:
            raise ServerFailed(f"broker {broker_id} is still registered in {zookeeper}")
        time.sleep(SESSION_POLL_INTERVAL_S)


def _format_once(broker: ApacheKafka) -> None:
    if broker.data_directory.exists():
        return
    cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    run_java(
        kafka_jars(broker.version),
        "kafka.tools.StorageTool",
        # Joined, since an id may begin with what would be taken for an option.
        *("format", f"--cluster-id={cluster_id}", "--config", str(broker.configuration)),
    )


def _asked_zookeeper(address: str, word: str) -> str:
    host, port = address.split(":")
    with socket.create_connection((host, int(port)), ANSWER_TIMEOUT_S) as connection:
        connection.sendall(word.encode())
        with connection.makefile("r") as answer:
            return answer.read()


def _server_command(version: str, directory: Path, main: str, configuration: Path) -> list[str]:
    logging = directory / "log4j.properties"
    logging.write_text(LOG4J)
    options = [f"-Dlog4j.configuration=file:{logging}"]
    return java_command(kafka_jars(version), main, str(configuration), options=options)


def _write_properties(path: Path, properties: Mapping[str, str]) -> Path:
    path.write_text("".join(f"{key}={setting}\n" for key, setting in properties.items()))
    return path
