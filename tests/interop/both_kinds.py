"""A broker of Apache Kafka's and one of ours that take turns on one ZooKeeper and log directory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from tests.support.apache_kafka import zookeeper_broker
from tests.support.broker_process import BrokerProcess
from tests.support.broker_stores import settings_of_branch

BROKER_ID = 1
SESSION_TIMEOUT_MS = 3_000


class BothKinds:
    """At one address, where only one of them answers at a time; ``settings`` are of both."""

    def __init__(self, directory: Path, zookeeper: str, **settings: str) -> None:
        told = {name.replace("_", "."): text for name, text in settings.items()}
        self.kafka = zookeeper_broker(
            directory,
            zookeeper=zookeeper,
            broker_id=BROKER_ID,
            properties={"zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS), **told},
        )
        self.odradek = BrokerProcess(
            self.kafka.data_directory,
            *settings_of_branch(zookeeper, session_timeout_ms=SESSION_TIMEOUT_MS),
            f"broker.id={BROKER_ID}",
            *(f"{name}={text}" for name, text in told.items()),
            port=self.kafka.port,
        )
        self.address = self.odradek.address

    def in_turns(self, names: Sequence[str], *, ending: str) -> Iterator[tuple[int, str]]:
        """Number and name of the one that runs; each is ended as ``ending`` says, stop or kill."""
        with ExitStack() as running:
            running.push(self.kafka)
            running.push(self.odradek)
            for turn, name in enumerate(names):
                broker = getattr(self, name)
                broker.start()
                yield turn, name
                getattr(broker, ending)()

    def check_logs(self, *, but_of: str | None = None) -> None:
        """Neither has complained, unless of what was made to fail."""
        assert "Traceback" not in self.odradek.log_text
        lines = self.kafka.log.read_text().splitlines()
        errors = [line for line in lines if "] ERROR " in line]
        assert [line for line in errors if but_of is None or but_of not in line] == []
