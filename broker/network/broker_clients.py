"""Clients of the brokers of this cluster, one for each, made when it is first needed.

Whoever sends requests to brokers has clients of its own: what waits in them holds up nobody else.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from odradek.broker.metadata.picture import Node
from odradek.protocol.schema import Message


class Client(Protocol):
    """Of one broker."""

    async def send(self, request: Message, /, *, version: int) -> Message: ...

    def close(self) -> None: ...


class BrokerClients:
    """By the ids of brokers."""

    def __init__(self, new: Callable[[Node], Client]) -> None:
        self._new = new
        self._known: dict[int, tuple[Node, Client]] = {}
        self._is_closed = False

    def to(self, node: Node) -> Client:
        known = self._known.get(node.id)
        if known is not None:
            if known[0] == node:
                return known[1]
            known[1].close()  # it has moved
        client = self._new(node)
        if self._is_closed:
            client.close()
        self._known[node.id] = node, client
        return client

    def drop_others(self, broker: int) -> None:
        """Whoever waits for what any other might still answer is told at once that it will not."""
        for other in [each for each in self._known if each != broker]:
            self._known.pop(other)[1].close()

    def close(self) -> None:
        """Whoever still asks gets clients that are closed."""
        self._is_closed = True
        for _, client in self._known.values():
            client.close()
