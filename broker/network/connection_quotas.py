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
RATE_BURST_S = 1.0
# Far below any interval, far above what adding up seconds loses.
ROUNDING_S = 1e-9
NO_CONNECTIONS_WARNING = (
    "max.connections is 0: nobody is let in, but for whoever comes by the listener of the brokers "
    "(inter.broker.listener.name), if there are others"
)


class ConnectionQuotas:
    """Counts what acceptors admit and processors close."""

    def __init__(self, settings: NetworkSettings, *, now: Callable[[], float]) -> None:
        """``now`` in seconds, never jumping."""
        self._now = now
        self._counts_by_address: Counter[str] = Counter()
        self._total = 0
        #: Each connection moves it on by its share of a second.
        self._rate_used_until_s = 0.0
        self._protected_listeners = _find_protected_listeners(settings)
        self.apply(settings)
        self.apply_overrides(resolve_overrides(settings.connections_per_host))

    def apply(self, settings: NetworkSettings) -> None:
        """Change the limits, but for those of single addresses."""
        self._settings = settings
        if not settings.max_connections:
            log.warning(NO_CONNECTIONS_WARNING)
        self._interval_s = RATE_BURST_S / max(settings.max_connection_creation_rate, 1)

    def apply_overrides(self, limits_by_address: Mapping[str, int]) -> None:
        """As ``by_address`` finds them."""
        self._limits_by_address = limits_by_address

    @property
    def total(self) -> int:
        return self._total

    def is_protected(self, listener: str) -> bool:
        return listener in self._protected_listeners

    def has_slot(self, listener: str) -> bool:
        return self._total < self._settings.max_connections or listener in self._protected_listeners

    @property
    def excess(self) -> int:
        """So many are too many, since privileged ones came in, or fewer are allowed than before."""
        return max(self._total - self._settings.max_connections, 0)

    def throttle_delay_s(self, listener: str) -> float:
        """For how long nothing more may be accepted; 0 is not at all."""
        if listener in self._protected_listeners:
            return 0.0
        delay_s = self._rate_used_until_s - self._now() - (RATE_BURST_S - self._interval_s)
        return min(delay_s, RATE_BURST_S) if delay_s > ROUNDING_S else 0.0

    def try_acquire(self, listener: str, host: str) -> bool:
        """Count a connection, unless there are too many from its address."""
        if listener not in self._protected_listeners:
            self._rate_used_until_s = max(self._rate_used_until_s, self._now()) + self._interval_s
        limit = self._limits_by_address.get(host, self._settings.max_connections_per_ip)
        if self._counts_by_address[host] >= limit:
            return False
        self._counts_by_address[host] += 1
        self._total += 1
        return True

    def release(self, host: str) -> None:
        """A connection that was admitted has closed."""
        self._total -= 1
        self._counts_by_address[host] -= 1
        if not self._counts_by_address[host]:
            del self._counts_by_address[host]


def resolve_overrides(overrides: Mapping[str, int]) -> dict[str, int]:
    """Of each host the addresses; may have to ask a server for them, and wait."""
    return {address: limit for host, limit in overrides.items() for address in _resolve_host(host)}


def normalize_address(host: str) -> str:
    """An address as text, IPv4 as such even where it came to an IPv6 socket."""
    bare = host.partition("%")[0]
    address = ip_address(bare)
    return str(getattr(address, "ipv4_mapped", None) or address)


def _find_protected_listeners(settings: NetworkSettings) -> frozenset[str]:
    names = {endpoint.listener for endpoint in settings.endpoints}
    protected = {settings.inter_broker_listener, settings.control_plane_listener} & names
    return frozenset() if protected == names else frozenset(filter(None, protected))


def _resolve_host(host: str) -> set[str]:
    """Of a name, all; one that cannot be found is nobody's."""
    try:
        addresses = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:  # the latter of a..b, or of too long a name
        log.warning("max.connections.per.ip.overrides: %s is not found: %s", host, error)
        return set()
    return {normalize_address(str(address[0])) for _, _, _, _, address in addresses}
