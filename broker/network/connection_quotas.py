"""Connection quotas: limits on connections in total, per address, and on new ones per second.

Kafka: ConnectionQuotas.

    total      a listener without a free slot stops accepting; if there are more connections than
               ``max.connections``, the least recently used are closed
    rate       a listener stops accepting until the rate allows another connection
    address    a connection above the limit of its address is closed

The inter-broker and control plane listeners are protected if there are other listeners: they always
accept, and a connection of another listener is closed instead.  Connections of this broker's own
controller are not counted, and every listener accepts them (local_connections.py).

Owner: the core loop.
"""

from __future__ import annotations

import logging
import socket
from collections import Counter
from collections.abc import Callable, Mapping
from ipaddress import ip_address

from odradek.broker.settings.network import NetworkSettings

log = logging.getLogger("kafka.network")

# A burst may use up so many seconds of the rate, and no connection is delayed for longer.
RATE_BURST_S = 1.0
# Far below any interval, and far above the rounding error of adding up seconds.
ROUNDING_S = 1e-9
NO_CONNECTIONS_WARNING = (
    "max.connections=0: no connection is accepted, except on the inter-broker and control plane "
    "listeners if the broker has other listeners"
)


class ConnectionQuotas:
    """Counts the connections that acceptors admit and processors close."""

    def __init__(self, settings: NetworkSettings, *, now: Callable[[], float]) -> None:
        """``now`` is a monotonic clock in seconds."""
        self._now = now
        self._counts_by_address: Counter[str] = Counter()
        self._total = 0
        #: The time until which the rate is used up; each connection adds one interval.
        self._rate_used_until_s = 0.0
        self._protected_listeners = _find_protected_listeners(settings)
        self.apply(settings)
        self.apply_overrides(resolve_overrides(settings.connections_per_host))

    def apply(self, settings: NetworkSettings) -> None:
        """Change the limits, except the overrides of single addresses."""
        self._settings = settings
        if not settings.max_connections:
            log.warning(NO_CONNECTIONS_WARNING)
        self._interval_s = RATE_BURST_S / max(settings.max_connection_creation_rate, 1)

    def apply_overrides(self, limits_by_address: Mapping[str, int]) -> None:
        """Replace the limits of single addresses; see ``resolve_overrides``."""
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
        """The number of connections above max.connections.

        It is positive after a protected listener accepted one, or after the limit was lowered.
        """
        return max(self._total - self._settings.max_connections, 0)

    def throttle_delay_s(self, listener: str) -> float:
        """Return how long to accept nothing more; 0 means accept now."""
        if listener in self._protected_listeners:
            return 0.0
        delay_s = self._rate_used_until_s - self._now() - (RATE_BURST_S - self._interval_s)
        return min(delay_s, RATE_BURST_S) if delay_s > ROUNDING_S else 0.0

    def try_acquire(self, listener: str, host: str) -> bool:
        """Count a connection; return False if its address has too many."""
        if listener not in self._protected_listeners:
            self._rate_used_until_s = max(self._rate_used_until_s, self._now()) + self._interval_s
        limit = self._limits_by_address.get(host, self._settings.max_connections_per_ip)
        if self._counts_by_address[host] >= limit:
            return False
        self._counts_by_address[host] += 1
        self._total += 1
        return True

    def release(self, host: str) -> None:
        """Count an admitted connection as closed."""
        self._total -= 1
        self._counts_by_address[host] -= 1
        if not self._counts_by_address[host]:
            del self._counts_by_address[host]


def resolve_overrides(overrides: Mapping[str, int]) -> dict[str, int]:
    """Return the limits by address.  This may wait for a name server."""
    return {address: limit for host, limit in overrides.items() for address in _resolve_host(host)}


def normalize_address(host: str) -> str:
    """Return the address as text; an IPv4-mapped IPv6 address becomes IPv4."""
    bare = host.partition("%")[0]
    address = ip_address(bare)
    return str(getattr(address, "ipv4_mapped", None) or address)


def _find_protected_listeners(settings: NetworkSettings) -> frozenset[str]:
    names = {endpoint.listener for endpoint in settings.endpoints}
    protected = {settings.inter_broker_listener, settings.control_plane_listener} & names
    return frozenset() if protected == names else frozenset(filter(None, protected))


def _resolve_host(host: str) -> set[str]:
    """Return all addresses of a host name; none if it cannot be resolved."""
    try:
        addresses = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:  # UnicodeError: a..b, or a name that is too long
        log.warning(
            "Ignoring max.connections.per.ip.overrides of %s, failed to resolve host: %s",
            host,
            error,
        )
        return set()
    return {normalize_address(str(address[0])) for _, _, _, _, address in addresses}
