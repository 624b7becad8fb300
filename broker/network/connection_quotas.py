"""How many connections there may be: in all, from one address, and new ones in a second.

In all and in a second: a listener without room accepts no more until there is; where there are too
many in all, the least recently used are closed.  From one address: what comes beyond is closed.
The listeners between brokers and for the controller are privileged, if there are others: they have
room always, at the cost of a connection of the others.  This broker's own controller is not
counted, and comes in by any (own_connections.py).

Owner: the core loop.
"""

from __future__ import annotations

import logging
import socket
from collections import Counter
from collections.abc import Callable, Mapping
from ipaddress import ip_address

from odradek.broker.settings.network import NetworkSettings

log = logging.getLogger(__name__)

# So many seconds' worth may come at once, and no connection is kept waiting for longer.
BURST_S = 1.0
# Far below any interval, far above what adding up seconds loses.
ROUNDING_S = 1e-9
NOBODY = (
    "max.connections is 0: nobody is let in, but for whoever comes by the listener of the brokers "
    "(inter.broker.listener.name), if there are others"
)


class ConnectionLimits:
    """Counts what acceptors admit and processors close."""

    def __init__(self, settings: NetworkSettings, *, now: Callable[[], float]) -> None:
        """``now`` in seconds, never jumping."""
        self._now = now
        self._by_host: Counter[str] = Counter()
        self._total = 0
        #: Each connection moves it on by its share of a second.
        self._spent_until = 0.0
        self._privileged = _privileged(settings)
        self.apply(settings)
        self.apply_overrides(by_address(settings.connections_per_host))

    def apply(self, settings: NetworkSettings) -> None:
        """Change the limits, but for those of single addresses."""
        self._settings = settings
        if not settings.max_connections:
            log.warning(NOBODY)
        self._interval_s = BURST_S / max(settings.max_connection_creation_rate, 1)

    def apply_overrides(self, most_by_address: Mapping[str, int]) -> None:
        """As ``by_address`` finds them."""
        self._max_by_host = most_by_address

    @property
    def total(self) -> int:
        return self._total

    def is_privileged(self, listener: str) -> bool:
        return listener in self._privileged

    def has_room(self, listener: str) -> bool:
        return self._total < self._settings.max_connections or listener in self._privileged

    @property
    def excess(self) -> int:
        """So many are too many, since privileged ones came in, or fewer are allowed than before."""
        return max(self._total - self._settings.max_connections, 0)

    def delay_s(self, listener: str) -> float:
        """For how long nothing more may be accepted; 0 is not at all."""
        if listener in self._privileged:
            return 0.0
        delay_s = self._spent_until - self._now() - (BURST_S - self._interval_s)
        return min(delay_s, BURST_S) if delay_s > ROUNDING_S else 0.0

    def admit(self, listener: str, host: str) -> bool:
        """Count a connection, unless there are too many from its address."""
        if listener not in self._privileged:
            self._spent_until = max(self._spent_until, self._now()) + self._interval_s
        most = self._max_by_host.get(host, self._settings.max_connections_per_ip)
        if self._by_host[host] >= most:
            return False
        self._by_host[host] += 1
        self._total += 1
        return True

    def release(self, host: str) -> None:
        """A connection that was admitted has closed."""
        self._total -= 1
        self._by_host[host] -= 1
        if not self._by_host[host]:
            del self._by_host[host]


def by_address(overrides: Mapping[str, int]) -> dict[str, int]:
    """Of each host the addresses; may have to ask a server for them, and wait."""
    return {address: most for host, most in overrides.items() for address in _addresses(host)}


def plain_host(host: str) -> str:
    """An address as text, IPv4 as such even where it came to an IPv6 socket."""
    bare = host.partition("%")[0]
    address = ip_address(bare)
    return str(getattr(address, "ipv4_mapped", None) or address)


def _privileged(settings: NetworkSettings) -> frozenset[str]:
    names = {endpoint.listener for endpoint in settings.endpoints}
    chosen = {settings.inter_broker_listener, settings.control_plane_listener} & names
    return frozenset() if chosen == names else frozenset(filter(None, chosen))


def _addresses(host: str) -> set[str]:
    """Of a name, all; one that cannot be found is nobody's."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as failure:  # the latter of a..b, or of too long a name
        log.warning("max.connections.per.ip.overrides: %s is not found: %s", host, failure)
        return set()
    return {plain_host(str(address[0])) for _, _, _, _, address in found}
