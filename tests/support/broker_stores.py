"""Brokers on each metadata store there is: a file beside their logs, or a real ZooKeeper.

    new_store   makes settings for a broker with a store of its own: "embedded", then "zookeeper"
    broker      one for each module and store

A test module or conftest.py that imports ``broker`` from here, in place of broker_process's, runs
twice.  Brokers on ZooKeeper share a server and have each a branch of it.
"""

import uuid
from collections.abc import Callable, Iterator

import pytest

from odradek.controller.zookeeper_server import ZooKeeperServer
from tests.support.broker_process import BrokerProcess

EMBEDDED, ZOOKEEPER = "embedded", "zookeeper"
#: A broker that was killed is forgotten after this, and only then comes back.
SESSION_TIMEOUT_MS = 3_000

NewStore = Callable[[], tuple[str, ...]]


def on_zookeeper(
    server: ZooKeeperServer, *, session_timeout_ms: int = SESSION_TIMEOUT_MS
) -> tuple[str, ...]:
    """Settings for a broker in a branch that nobody else has."""
    address = f"{server.address}/{uuid.uuid4().hex}"
    return settings_of_branch(address, session_timeout_ms=session_timeout_ms)


def settings_of_branch(address: str, *, session_timeout_ms: int) -> tuple[str, ...]:
    """Of a broker at host:port/branch of a ZooKeeper."""
    return (
        f"zookeeper.connect={address}",
        f"zookeeper.session.timeout.ms={session_timeout_ms}",
        # Where there may be other brokers, none is taken to be alone.
        "offsets.topic.replication.factor=1",
        "transaction.state.log.replication.factor=1",
        "transaction.state.log.min.isr=1",
    )


@pytest.fixture(scope="module", params=[EMBEDDED, ZOOKEEPER])
def new_store(request: pytest.FixtureRequest) -> NewStore:
    if request.param == EMBEDDED:
        return tuple
    server: ZooKeeperServer = request.getfixturevalue("zookeeper")
    return lambda: on_zookeeper(server)


@pytest.fixture(scope="module")
def broker(
    tmp_path_factory: pytest.TempPathFactory, new_store: NewStore
) -> Iterator[BrokerProcess]:
    data_dir = tmp_path_factory.mktemp("broker") / "logs"
    with BrokerProcess(data_dir, *new_store()).start() as running:
        yield running
