"""Connections to other brokers, counted by what they are for.

Owner: the event loop.
"""

from __future__ import annotations


class Tally:
    """How many there are of one kind."""

    def __init__(self) -> None:
        self.count = 0


class Outgoing:
    """By what they are for, and to whom: "markers to broker 2"."""

    def __init__(self) -> None:
        self._tallies: dict[str, Tally] = {}

    def tally(self, name: str) -> Tally:
        return self._tallies.setdefault(name, Tally())

    def counts(self) -> dict[str, int]:
        """Of those that there are."""
        return {name: each.count for name, each in self._tallies.items() if each.count}
