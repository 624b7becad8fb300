"""What a test does to the network of a cluster, however that is made.

    isolate   a broker from its peers and from ZooKeeper; never from clients
    delay     what is on its way
    mend      and hasten: all is as it was

A cut is a cable that is pulled: nobody is told.

Owner: the thread of the test.
"""

from __future__ import annotations

from collections.abc import Callable

ZOOKEEPER = -1
EVERYWHERE: frozenset[int] = frozenset()

#: A broker, and another or ZOOKEEPER.
Pair = frozenset[int]


class Links:
    """Whole until something is cut."""

    def __init__(self, *, brokers: int) -> None:
        self._brokers = range(brokers)
        #: By the pairs that they are between; without any, everywhere.
        self._delays_s: dict[Pair, float] = {}
        self._cut: set[Pair] = set()

    def settings_of(self, broker: int, *, port: int, branch: str) -> tuple[str, ...]:
        """``port`` is for clients, ``branch`` the cluster's in ZooKeeper."""
        raise NotImplementedError

    def cut(self, one: int, *others: int) -> None:
        """Between one and each of the others."""
        pairs = {frozenset((one, other)) for other in others}
        self._steer(lambda: self._cut.update(pairs))

    def cut_from_peers(self, broker: int) -> None:
        self.cut(broker, *(each for each in self._brokers if each != broker))

    def cut_from_zookeeper(self, *brokers: int) -> None:
        self.cut(ZOOKEEPER, *brokers)

    def isolate(self, broker: int) -> None:
        """From all but clients."""
        self.cut_from_peers(broker)
        self.cut_from_zookeeper(broker)

    def mend(self) -> None:
        """All that is cut."""
        self._steer(self._cut.clear)

    def delay(self, seconds: float, *between: int) -> None:
        """Everywhere, or only between two."""

        def change() -> None:
            self._delays_s[frozenset(between)] = seconds

        self._steer(change)

    def hasten(self) -> None:
        """Nothing is late any more."""
        self._steer(self._delays_s.clear)

    # For whoever carries what is sent

    def _steer(self, change: Callable[[], object]) -> None:
        """Where it can be changed while it is looked at."""
        change()

    def _late_s(self, pair: Pair) -> float:
        return max(self._delays_s.get(each, 0.0) for each in (EVERYWHERE, pair))
