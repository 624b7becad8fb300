"""Listening sockets, and the addresses that clients and brokers are told.

A socket listens as soon as it is bound: else another could take the port from us unnoticed.  Who
connects before the broker accepts waits in the backlog.

Owner: the core loop.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from odradek.broker.network.endpoint import Endpoint

AS_THE_SYSTEM_HAS_IT = -1


class ListenerError(Exception):
    """A listener cannot be opened; the text names it, and says why."""


@dataclass(frozen=True, slots=True)
class Listener:
    """``endpoint`` has the port that was bound, where any was asked for."""

    endpoint: Endpoint
    listening: socket.socket

    def close(self) -> None:
        self.listening.close()


def open_listener(endpoint: Endpoint, *, backlog: int, receive_buffer_bytes: int) -> Listener:
    try:
        family, address = _address_of(endpoint)
        listening = socket.socket(family, socket.SOCK_STREAM)
        try:
            _listen(listening, address, backlog, receive_buffer_bytes)
        except OSError:
            listening.close()
            raise
    except (OSError, UnicodeError) as failure:  # the latter of a..b, or of too long a name
        reason = getattr(failure, "strerror", None) or str(failure)
        raise ListenerError(f"{endpoint} cannot be listened on: {reason}") from failure
    return Listener(replace(endpoint, port=listening.getsockname()[1]), listening)


def resolved(
    advertised: Sequence[Endpoint],
    listeners: Sequence[Listener],
    *,
    own_host: Callable[[], str] = socket.getfqdn,
) -> tuple[Endpoint, ...]:
    """What others are told: ports that were bound in place of 0, our name in place of no host."""
    ports = {listener.endpoint.listener: listener.endpoint.port for listener in listeners}
    return tuple(
        replace(
            endpoint,
            host=endpoint.host or own_host(),
            port=endpoint.port or ports[endpoint.listener],
        )
        for endpoint in advertised
    )


def _listen(
    listening: socket.socket, address: tuple[str, int], backlog: int, receive_buffer_bytes: int
) -> None:
    listening.setblocking(False)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if listening.family == socket.AF_INET6:
        # Also for IPv4, if it is for every interface.
        listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, address[0] != "::")
    if receive_buffer_bytes != AS_THE_SYSTEM_HAS_IT:
        # Before listening, so that connections have it from their first packet on.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
    listening.bind(address)
    listening.listen(backlog)


def _address_of(endpoint: Endpoint) -> tuple[socket.AddressFamily, tuple[str, int]]:
    if not endpoint.host:
        if _has_ipv6():
            return socket.AF_INET6, ("::", endpoint.port)
        return socket.AF_INET, ("0.0.0.0", endpoint.port)
    found = socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
    # IPv4 first, as in Java, for a name such as localhost that is both.
    family, _, _, _, address = min(found, key=lambda each: each[0] != socket.AF_INET)
    return family, (str(address[0]), int(address[1]))


def _has_ipv6() -> bool:
    """Whether it can be bound, which a kernel that knows it may still refuse."""
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::", 0))
    except OSError:
        return False
    return True
