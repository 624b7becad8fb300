"""Timeouts of kazoo connections, tested with a server that is not ZooKeeper."""

import socket

from odradek.config.definition import ConfigSource
from odradek.controller.store import zookeeper_handler
from odradek.controller.store.zookeeper_client import ZooKeeperClient
from odradek.controller.zookeeper_settings import ZooKeeperSettings
from tests.support.loops import on_a_thread

WAIT_S = 20


async def test_client_reconnects_to_a_server_that_never_responds(monkeypatch):
    monkeypatch.setattr(zookeeper_handler, "RESPONSE_TIMEOUT_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(WAIT_S)
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        texts = {"zookeeper.connect": address, "zookeeper.session.timeout.ms": "3600000"}
        client = ZooKeeperClient(
            address, ZooKeeperSettings.read({ConfigSource.FILE: texts}), lambda report: None
        )
        client.start()
        try:
            for _ in range(2):
                connection, _ = await on_a_thread(listener.accept)
                with connection:
                    connection.settimeout(WAIT_S)
                    # The client sends a connect request and closes the connection on timeout.
                    while await on_a_thread(connection.recv, 1024):
                        pass
        finally:
            await on_a_thread(client.stop)
