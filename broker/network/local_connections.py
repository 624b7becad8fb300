"""Connections of this broker to itself, from its own controller; the connection quotas ignore them.

Kafka applies its quotas to the controller too, because the controller also connects by TCP, unless
brokers have a separate listener.  An operator who locks the controller out changes the setting back
in ZooKeeper.  With an embedded store only the broker itself can change it, so the broker must at
least start.

A port that a socket of this process is bound to belongs to no other process.  Therefore a
connection is local if it comes from such a port, and from the same address that it connects to.
Until an expected connection arrives, the acceptors accept every connection, and close those that
exceed a quota.

Owner: the core loop.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

# After this time it has arrived, unless the address was not one of this broker.
ARRIVAL_TIMEOUT_S = 30.0


class LocalConnections:
    """The expected local connections; ``on_expected`` is called when one begins to connect."""

    def __init__(self, on_expected: Callable[[], None]) -> None:
        self._on_expected = on_expected
        self._expected_ports: set[int] = set()

    @property
    def has_expected(self) -> bool:
        return bool(self._expected_ports)

    async def connect(self, host: str, port: int) -> socket.socket:
        """Connect to this broker.  Raises OSError."""
        loop = asyncio.get_running_loop()
        error = OSError(f"{host} does not resolve to an address")
        for family, kind, protocol, _, address in await loop.getaddrinfo(
            host, port, type=socket.SOCK_STREAM
        ):
            client_socket = socket.socket(family, kind, protocol)
            try:
                client_socket.setblocking(False)
                client_socket.bind(("", 0))
                self._expect(client_socket.getsockname()[1])
                await loop.sock_connect(client_socket, address)
            except OSError as connect_error:
                client_socket.close()
                error = connect_error
            except asyncio.CancelledError:
                client_socket.close()
                raise
            else:
                return client_socket
        raise error

    def claim(self, accepted_socket: socket.socket) -> bool:
        """Return whether this is an expected connection; if so, it is expected no longer."""
        try:
            host, port = accepted_socket.getpeername()[:2]
            is_local = port in self._expected_ports and host == accepted_socket.getsockname()[0]
        except OSError:  # already disconnected
            return False
        if is_local:
            self._expected_ports.discard(port)
        return is_local

    def _expect(self, port: int) -> None:
        self._expected_ports.add(port)
        asyncio.get_running_loop().call_later(ARRIVAL_TIMEOUT_S, self._expected_ports.discard, port)
        self._on_expected()
