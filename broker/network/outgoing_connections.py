"""Connections to other brokers, counted by what they are for.

Owner: the event loop.
"""

from __future__ import annotations


class ConnectionCounter:
    """How many there are of one kind."""

    def __init__(self) -> None:
        self.count = 0


class OutgoingConnections:
    """By what they are for, and to whom: "markers to broker 2"."""

    def __init__(self) -> None:
        self._counters: dict[str, ConnectionCounter] = {}

    def counter(self, name: str) -> ConnectionCounter:
        return self._counters.setdefault(name, ConnectionCounter())

    def counts(self) -> dict[str, int]:
        """Of those that there are."""
        return {name: counter.count for name, counter in self._counters.items() if counter.count}
