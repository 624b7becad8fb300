"""Counters of the connections to other brokers, by purpose.

Owner: the event loop.
"""

from __future__ import annotations


class ConnectionCounter:
    """The number of open connections of one purpose."""

    def __init__(self) -> None:
        self.count = 0


class OutgoingConnections:
    """Counters by purpose and broker, such as "markers to broker 2"."""

    def __init__(self) -> None:
        self._counters: dict[str, ConnectionCounter] = {}

    def counter(self, name: str) -> ConnectionCounter:
        return self._counters.setdefault(name, ConnectionCounter())

    def counts(self) -> dict[str, int]:
        """Return the counters that are not zero."""
        return {name: counter.count for name, counter in self._counters.items() if counter.count}
