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
EXPECTED_S = 30.0


class OwnConnections:
    """Those that are on their way; ``on_expected`` is called when one sets out."""

    def __init__(self, on_expected: Callable[[], None]) -> None:
        self._on_expected = on_expected
        self._ports: set[int] = set()

    @property
    def are_expected(self) -> bool:
        return bool(self._ports)

    async def connect(self, host: str, port: int) -> socket.socket:
        """Raises OSError."""
        loop = asyncio.get_running_loop()
        failure = OSError(f"{host} has no address")
        for family, kind, protocol, _, address in await loop.getaddrinfo(
            host, port, type=socket.SOCK_STREAM
        ):
            connecting = socket.socket(family, kind, protocol)
            try:
                connecting.setblocking(False)
                connecting.bind(("", 0))
                self._expect(connecting.getsockname()[1])
                await loop.sock_connect(connecting, address)
            except OSError as refused:
                connecting.close()
                failure = refused
            except asyncio.CancelledError:
                connecting.close()
                raise
            else:
                return connecting
        raise failure

    def takes(self, accepted: socket.socket) -> bool:
        """Whether this is one of them; it has come then."""
        try:
            host, port = accepted.getpeername()[:2]
            is_own = port in self._ports and host == accepted.getsockname()[0]
        except OSError:  # gone already
            return False
        if is_own:
            self._ports.discard(port)
        return is_own

    def _expect(self, port: int) -> None:
        self._ports.add(port)
        asyncio.get_running_loop().call_later(EXPECTED_S, self._ports.discard, port)
        self._on_expected()
