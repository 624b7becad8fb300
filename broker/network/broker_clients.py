"""Clients of the brokers of this cluster, one per broker, created on first use.

Each component that sends requests to brokers has its own BrokerClients, so the pending requests of
one component do not delay another component.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from odradek.broker.metadata.metadata_snapshot import Node
from odradek.protocol.schema import Message


class Client(Protocol):
    """A client of one broker."""

    async def send(self, request: Message, /, *, version: int) -> Message: ...

    def close(self) -> None: ...


class BrokerClients:
    """Clients by broker id."""

    def __init__(self, create_client: Callable[[Node], Client]) -> None:
        self._create_client = create_client
        self._clients: dict[int, tuple[Node, Client]] = {}
        self._is_closed = False

    def client_for(self, node: Node) -> Client:
        cached = self._clients.get(node.id)
        if cached is not None:
            if cached[0] == node:
                return cached[1]
            cached[1].close()  # the broker has a new address
        client = self._create_client(node)
        if self._is_closed:
            client.close()
        self._clients[node.id] = node, client
        return client

    def close_all_except(self, broker_id: int) -> None:
        """Fail the requests that wait for a response of any other broker."""
        for other in [known_id for known_id in self._clients if known_id != broker_id]:
            self._clients.pop(other)[1].close()

    def close(self) -> None:
        """Close all clients.  ``client_for`` returns closed clients from now on."""
        self._is_closed = True
        for _, client in self._clients.values():
            client.close()
