"""A real ZooKeeper for tests: one server for a whole run of pytest, a branch of it for each test.

    zookeeper         the server, shared: not to be stopped
    own_zookeeper     a server of the test's own, to be killed, suspended and started again
    zookeeper_stores  stores below a chroot that no other test has
    chroot            that chroot

A conftest.py that imports these has them as fixtures.  Tests are skipped, with the reason, where
there is no Java or no jars; with ODRADEK_NEEDS_ZOOKEEPER set they fail instead.
"""

from __future__ import annotations

import asyncio
import os
import socket
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from kazoo.protocol.serialization import CloseInstance, Connect, int_struct

from odradek.controller.store.base import MetadataStore, SessionState
from odradek.controller.store.zookeeper import ZooKeeperStore
from odradek.controller.zookeeper_server import (
    LOOPBACK,
    CannotStart,
    ZooKeeperServer,
    find_classpath,
    find_java,
)
from odradek.controller.zookeeper_settings import ZooKeeperSettings
from tests.support.free_ports import free_port
from tests.support.loops import at_end, on_a_thread
from tests.support.severable_wire import SeverableWire, severable_wire

SESSION_TIMEOUT_MS = 10_000
# Sessions may be short, and are found expired soon.
PROPERTIES = {"tickTime": "100", "minSessionTimeout": "200"}
# Little code runs for long; nothing need survive a power cut.
JAVA_OPTIONS = ["-XX:TieredStopAtLevel=1", "-Xmx256m", "-Dzookeeper.forceSync=no"]


def server_in(
    directory: Path,
    *,
    host: str = LOOPBACK,
    properties: Mapping[str, str] = {},
    java_options: Sequence[str] = (),
) -> ZooKeeperServer:
    return ZooKeeperServer(
        directory,
        host=host,
        port=free_port(),
        properties={**PROPERTIES, **properties},
        java_options=[*JAVA_OPTIONS, *java_options],
    )


def skip_without_zookeeper() -> None:
    try:
        find_java()
        find_classpath()
    except CannotStart as reason:
        if os.environ.get("ODRADEK_NEEDS_ZOOKEEPER"):
            raise
        pytest.skip(str(reason))


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    skip_without_zookeeper()
    server = server_in(tmp_path_factory.mktemp("zookeeper"))
    server.start()
    yield server
    server.kill()


@pytest.fixture
def own_zookeeper(tmp_path: Path) -> Iterator[ZooKeeperServer]:
    skip_without_zookeeper()
    server = server_in(tmp_path / "zookeeper")
    server.start()
    yield server
    if server.is_running():
        server.kill()


def settings_for(server: ZooKeeperServer, chroot: str = "", **values: object) -> ZooKeeperSettings:
    return ZooKeeperSettings(
        **{
            "connect": server.address + chroot,
            "session_timeout_ms": SESSION_TIMEOUT_MS,
            **values,
        }
    )


async def opened(settings: ZooKeeperSettings) -> ZooKeeperStore:
    """A store, closed when the test has ended."""
    store = ZooKeeperStore(settings, run_in_thread=on_a_thread)
    at_end(store.close)
    await store.open_session()
    return store


async def on_a_wire(
    server: ZooKeeperServer, chroot: str, **values: object
) -> tuple[ZooKeeperStore, SeverableWire, States]:
    """A store, the wire that it has to the server, and what its listeners are told."""
    wire = await severable_wire(server.address)
    store = await opened(settings_for(server, **{"connect": wire.address + chroot, **values}))
    return store, wire, States(store)


class ZooKeeperStores:
    """Stores on one tree; see tests/support/stores.py."""

    def __init__(self, server: ZooKeeperServer) -> None:
        self.settings = settings_for(server, f"/{uuid.uuid4().hex}")

    async def open(self) -> MetadataStore:
        return await opened(self.settings)

    async def expire(self, store: MetadataStore) -> None:
        assert isinstance(store, ZooKeeperStore)
        await expired(store, self.settings)


@pytest.fixture
def zookeeper_stores(zookeeper: ZooKeeperServer) -> ZooKeeperStores:
    return ZooKeeperStores(zookeeper)


@pytest.fixture
def chroot(zookeeper_stores: ZooKeeperStores) -> str:
    return "/" + (zookeeper_stores.settings.connect or "").partition("/")[2]


class States:
    """What a store's listener is told."""

    def __init__(self, store: MetadataStore) -> None:
        self.seen: list[SessionState] = []
        self._is_told = asyncio.Event()
        store.add_session_listener(self._take)

    def _take(self, state: SessionState) -> None:
        self.seen.append(state)
        self._is_told.set()

    async def wait_for(self, state: SessionState) -> None:
        while state not in self.seen:
            self._is_told.clear()
            await self._is_told.wait()


async def expired(store: ZooKeeperStore, settings: ZooKeeperSettings) -> None:
    """Somebody else closes the session; the store has heard of it afterwards."""
    states = States(store)
    address = (settings.connect or "").partition("/")[0]
    await on_a_thread(_close_session, address, *store.credentials)
    await states.wait_for(SessionState.EXPIRED)


def _close_session(address: str, session_id: int, secret: bytes) -> None:
    """Take it over and close it in one breath, or the store would take it back."""
    host, _, port = address.rpartition(":")
    requests = [
        Connect(0, 0, SESSION_TIMEOUT_MS, session_id, secret, False).serialize(),
        int_struct.pack(1) + int_struct.pack(CloseInstance.type),
    ]
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(b"".join(int_struct.pack(len(each)) + each for each in requests))
        while connection.recv(4096):
            continue
