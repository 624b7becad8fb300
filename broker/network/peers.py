"""Clients of the brokers of the cluster, this one among them, for one purpose.

Requests to one broker wait for one another (client.py): who must not wait for others' requests has
peers of their own.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from odradek.broker.metadata.picture import Node
from odradek.protocol.schema import Message


class Client(Protocol):
    """Of one broker."""

    async def send(self, request: Message, *, version: int) -> Message:
        """Raises OSError or DecodeError; then it may be tried again."""

    def close(self) -> None: ...


class Peers:
    """One client for each broker, made on first use and again when the broker has moved."""

    def __init__(self, connect: Callable[[Node], Client]) -> None:
        self._connect = connect
        self._clients: dict[int, tuple[Node, Client]] = {}

    def client(self, node: Node) -> Client:
        known = self._clients.get(node.id)
        if known is not None and known[0] == node:
            return known[1]
        if known is not None:
            known[1].close()
        client = self._connect(node)
        self._clients[node.id] = node, client
        return client

    def close(self) -> None:
        for _, client in self._clients.values():
            client.close()
        self._clients.clear()
