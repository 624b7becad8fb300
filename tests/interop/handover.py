"""Apache Kafka's broker and ours, on one ZooKeeper and one log directory: one runs at a time.

    with Handover(tmp_path, address) as handover:
        for turn, name in handover.turns("stop"):
            ...

Owner: the test's thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Literal, Self

from tests.support.apache_kafka import zookeeper_broker
from tests.support.broker_process import BrokerProcess
from tests.support.broker_stores import settings_of_branch

BROKER_ID = 1
SESSION_TIMEOUT_MS = 3_000
TURNS = ("kafka", "odradek", "kafka", "odradek")


class Handover:
    """At the end neither has complained, unless of ``but_of``; ``settings`` are of both."""

    def __init__(
        self, directory: Path, zookeeper: str, *, but_of: str | None = None, **settings: str
    ) -> None:
        told = {name.replace("_", "."): text for name, text in settings.items()}
        self._but_of = but_of
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
            "group.initial.rebalance.delay.ms=0",
            *(f"{name}={text}" for name, text in told.items()),
            port=self.kafka.port,
        )
        self.address = self.odradek.address
        self._ends = ExitStack()

    def turns(
        self, ending: Literal["stop", "kill"], names: Sequence[str] = TURNS
    ) -> Iterator[tuple[int, str]]:
        """Whose turn it is runs meanwhile."""
        for turn, name in enumerate(names):
            broker = self.kafka if name == "kafka" else self.odradek
            broker.start()
            yield turn, name
            getattr(broker, ending)()

    def __enter__(self) -> Self:
        self._ends.push(self.kafka)
        self._ends.push(self.odradek)
        return self

    def __exit__(self, kind: type[BaseException] | None, *failure: object) -> None:
        self._ends.__exit__(kind, *failure)
        if kind is None:
            assert "Traceback" not in self.odradek.log_text
            written = self.kafka.log.read_text().splitlines()
            errors = [line for line in written if "] ERROR " in line]
            assert [each for each in errors if not (self._but_of and self._but_of in each)] == []
