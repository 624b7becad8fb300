"""Connections of a broker to itself: its own controller's, which no limit on connections keeps out.

Kafka's limits hold for its controller too, which also comes by TCP, unless brokers have a listener
of their own; who locks it out changes the setting back in ZooKeeper.  Where the store is embedded
there is only the broker to change it by: it must at least start.

A port that one of our sockets is bound to is no other process's.  So whoever comes from such a
port, and from the address that it comes to, is one of ours.  Until it has come, the acceptors let
in whoever comes before it, and turn those away again for whom there is no room.

Owner: the core loop.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

# By then it has come, unless what it was told to connect to is not this broker after all.
ARRIVAL_TIMEOUT_S = 30.0


class LocalConnections:
    """Those that are on their way; ``on_expected`` is called when one sets out."""

    def __init__(self, on_expected: Callable[[], None]) -> None:
        self._on_expected = on_expected
        self._expected_ports: set[int] = set()

    @property
    def has_expected(self) -> bool:
        return bool(self._expected_ports)

    async def connect(self, host: str, port: int) -> socket.socket:
        """Raises OSError."""
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
        """Whether this is one of them; it has come then."""
        try:
            host, port = accepted_socket.getpeername()[:2]
            is_local = port in self._expected_ports and host == accepted_socket.getsockname()[0]
        except OSError:  # gone already
            return False
        if is_local:
            self._expected_ports.discard(port)
        return is_local

    def _expect(self, port: int) -> None:
        self._expected_ports.add(port)
        asyncio.get_running_loop().call_later(ARRIVAL_TIMEOUT_S, self._expected_ports.discard, port)
        self._on_expected()
