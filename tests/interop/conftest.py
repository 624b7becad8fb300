"""Apache Kafka for the tests beside this file, started once for all of them.

Every test here is marked ``interop``, and skipped with the reason where it lacks what it needs.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import server_process
from tests.support.apache_kafka import (
    ApacheKafka,
    ZooKeeper,
    kraft_broker,
    old_format_broker,
    zookeeper_broker,
)
from tests.support.broker_process import BrokerProcess
from tests.support.java_client import JavaClient
from tests.support.kafka_jars import KAFKA_3_9, KAFKA_4_1, KafkaUnavailable, kafka_jars

# Before they are imported, or a failure of theirs would not show what was compared.
pytest.register_assert_rewrite(
    "tests.broker.cli.groups.test_command",
    "tests.broker.cli.groups.test_reset",
    "tests.clients.test_admin",
    "tests.clients.test_produce_and_consume",
    "tests.clients.test_restarts",
    "tests.interop.client_behaviour",
    "tests.interop.handover_groups",
    "tests.interop.handover_records",
)

SERVERS = {"zookeeper", "kafka_41"}  # those that all other servers here stand on, and the one alone


@pytest.hookimpl(tryfirst=True)  # before pytest chooses by marker
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.interop)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.failed and not SERVERS.isdisjoint(item.fixturenames):
        for server in server_process.running:
            report.sections.append((f"end of the log of {server.name}", server.log_tail()))
    broker = getattr(item, "funcargs", {}).get("broker")
    if report.failed and isinstance(broker, BrokerProcess):
        report.sections.append(("end of the log of our broker", broker.log_tail()))
    return report


@pytest.fixture(scope="session")
def kafka_39_jars() -> Path:
    return _jars_or_skip(KAFKA_3_9)


@pytest.fixture(scope="session")
def kafka_41_jars() -> Path:
    return _jars_or_skip(KAFKA_4_1)


@pytest.fixture(scope="session")
def zookeeper(kafka_39_jars, tmp_path_factory) -> Iterator[ZooKeeper]:
    with ZooKeeper(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


@pytest.fixture(scope="session")
def kafka_39(zookeeper, tmp_path_factory) -> Iterator[ApacheKafka]:
    """A Kafka 3.9 broker in ZooKeeper mode."""
    directory = tmp_path_factory.mktemp("kafka-3.9")
    with zookeeper_broker(directory, zookeeper=zookeeper.address) as broker:
        yield broker


@pytest.fixture(scope="session")
def kafka_39_with_old_formats(zookeeper, tmp_path_factory) -> Iterator[ApacheKafka]:
    """A Kafka 3.9 broker that still writes magic 0 and 1 where a topic says so."""
    directory = tmp_path_factory.mktemp("kafka-3.9-old-formats")
    with old_format_broker(directory, zookeeper.address) as broker:
        yield broker


@pytest.fixture(scope="session")
def kafka_41(kafka_41_jars, tmp_path_factory) -> Iterator[ApacheKafka]:
    """A Kafka 4.1 broker in KRaft mode."""
    with kraft_broker(tmp_path_factory.mktemp("kafka-4.1")) as broker:
        yield broker


@pytest.fixture(scope="session")
def java_client(kafka_39, kafka_39_jars) -> Iterator[JavaClient]:
    """The Java client of the same release, connected to ``kafka_39``."""
    with JavaClient(kafka_39_jars, kafka_39.bootstrap) as client:
        yield client


def _jars_or_skip(version: str) -> Path:
    try:
        return kafka_jars(version)
    except KafkaUnavailable as reason:
        pytest.skip(str(reason))
