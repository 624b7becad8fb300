"""Two brokers with the same settings, ours and Apache Kafka's, and what both of them serve.

Kafka 3.9.1 is asked everything that it has, 4.1.1 only what 3.9.1 has not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.field import Versions
from tests.interop.differential_requests import BROKER_ID, Scope
from tests.interop.differential_side import Side
from tests.support.apache_kafka import (
    BROKER_PROPERTIES,
    ApacheKafka,
    ZooKeeper,
    kraft_broker,
    zookeeper_broker,
)
from tests.support.broker_process import BrokerProcess
from tests.support.kafka_jars import KAFKA_3_9, KAFKA_4_1
from tests.support.wire_client import call

#: What both are told, besides where they are.
SETTINGS = {
    **BROKER_PROPERTIES,
    "num.partitions": "2",
    "auto.create.topics.enable": "true",
    "group.max.size": "2",
    "group.consumer.max.size": "3",
    "log.segment.delete.delay.ms": "1000",
    "log.retention.ms": "-1",  # records may be of 1970
    "log.message.timestamp.after.max.ms": "3600000",  # the default differs between releases
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
}

Served = Mapping[ApiKey, Versions]

#: What a broker with ZooKeeper says that it serves, and refuses.
ONLY_SAID = frozenset({ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.CONSUMER_GROUP_DESCRIBE})


@dataclass(frozen=True, slots=True)
class Pair:
    """Both run."""

    ours: Side
    theirs: Side
    scope: Scope

    def hang_up(self) -> None:
        self.ours.hang_up()
        self.theirs.hang_up()


@contextmanager
def pair_39(directory: Path, zookeeper: ZooKeeper) -> Iterator[Pair]:
    address = f"{zookeeper.address}/differential"
    dirs = {"log.dirs": _log_dirs(directory / "kafka")}
    settings = {**SETTINGS, **dirs}
    with (
        zookeeper_broker(directory, zookeeper=address, properties=settings) as kafka,
        _paired(directory, kafka, KAFKA_3_9, dirs["log.dirs"]) as pair,
    ):
        yield pair


@contextmanager
def pair_41(directory: Path, but: Served) -> Iterator[Pair]:
    """Asked everything but what another broker of Kafka's is asked."""
    dirs = {"log.dirs": _log_dirs(directory / "kafka")}
    settings = {**SETTINGS, **dirs}
    with (
        kraft_broker(directory, properties=settings) as kafka,
        _paired(directory, kafka, KAFKA_4_1, dirs["log.dirs"], but) as pair,
    ):
        yield pair


@contextmanager
def _paired(
    directory: Path, kafka: ApacheKafka, release: str, log_dirs: str, but: Served | None = None
) -> Iterator[Pair]:
    overrides = [f"{name}={text}" for name, text in SETTINGS.items()]
    own_dirs = _log_dirs(directory / "ours")
    process = BrokerProcess(
        directory / "odradek", *overrides, f"broker.id={BROKER_ID}", f"log.dirs={own_dirs}"
    )
    with process.start() as broker:
        ours = Side("Odradek", port=broker.port, log_dirs=own_dirs.split(","))
        theirs = Side(release, port=kafka.port, log_dirs=log_dirs.split(","))
        scope = scope_of(served_at(ours), served_at(theirs), but or {})
        pair = Pair(ours, theirs, scope)
        yield pair
        pair.hang_up()


def scope_of(ours: Served, theirs: Served, but: Served) -> Scope:
    return Scope(
        versions={key: versions for key, versions in theirs.items() if key in ours},
        covered=frozenset(every_version(ours) & every_version(theirs) - every_version(but)),
    )


def every_version(served: Served) -> set[tuple[ApiKey, int]]:
    return {
        (key, version)
        for key, versions in served.items()
        for version in range(versions.low, versions.high + 1)
    }


def served_at(side: Side) -> Served:
    answer = call(f"127.0.0.1:{side.port}", ApiKey.API_VERSIONS, 0)
    served = {
        ApiKey(each.api_key): Versions(each.min_version, each.max_version)
        for each in answer.api_keys
        if each.api_key in set(ApiKey)
    }
    if side.name == KAFKA_3_9:
        return {key: versions for key, versions in served.items() if key not in ONLY_SAID}
    return served


def _log_dirs(directory: Path) -> str:
    return ",".join(str(directory / f"logs-{number}") for number in range(2))
