"""Clients of the brokers of this cluster, one for each, made when it is first needed.

Whoever sends requests to brokers has clients of its own: what waits in them holds up nobody else.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Callable

from odradek.broker.metadata.picture import Node
from odradek.broker.network.client import BrokerClient


class BrokerClients:
    """By the ids of brokers."""

    def __init__(self, new: Callable[[Node], BrokerClient]) -> None:
        self._new = new
        self._known: dict[int, tuple[Node, BrokerClient]] = {}

    def to(self, node: Node) -> BrokerClient:
        known = self._known.get(node.id)
        if known is not None:
            if known[0] == node:
                return known[1]
            known[1].close()  # it has moved
        client = self._new(node)
        self._known[node.id] = node, client
        return client

    def close(self) -> None:
        for _, client in self._known.values():
            client.close()
        self._known.clear()
