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

USE_DEFAULT_BUFFER_SIZE = -1


class ListenerError(Exception):
    """A listener cannot be opened; the text names it, and says why."""


@dataclass(frozen=True, slots=True)
class Listener:
    """``endpoint`` has the port that was bound, where any was asked for."""

    endpoint: Endpoint
    server_socket: socket.socket

    def close(self) -> None:
        self.server_socket.close()


def open_listener(endpoint: Endpoint, *, backlog: int, receive_buffer_bytes: int) -> Listener:
    try:
        family, address = _bind_address(endpoint)
        server_socket = socket.socket(family, socket.SOCK_STREAM)
        try:
            _listen(server_socket, address, backlog, receive_buffer_bytes)
        except OSError:
            server_socket.close()
            raise
    except (OSError, UnicodeError) as error:  # the latter of a..b, or of too long a name
        reason = getattr(error, "strerror", None) or str(error)
        raise ListenerError(f"failed to bind to {endpoint}: {reason}") from error
    return Listener(replace(endpoint, port=server_socket.getsockname()[1]), server_socket)


def resolve_advertised(
    advertised: Sequence[Endpoint],
    listeners: Sequence[Listener],
    *,
    local_host: Callable[[], str] = socket.getfqdn,
) -> tuple[Endpoint, ...]:
    """What others are told: ports that were bound in place of 0, our name in place of no host."""
    ports = {listener.endpoint.listener: listener.endpoint.port for listener in listeners}
    return tuple(
        replace(
            endpoint,
            host=endpoint.host or local_host(),
            port=endpoint.port or ports[endpoint.listener],
        )
        for endpoint in advertised
    )


def _listen(
    server_socket: socket.socket, address: tuple[str, int], backlog: int, receive_buffer_bytes: int
) -> None:
    server_socket.setblocking(False)
    server_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if server_socket.family == socket.AF_INET6:
        # Also for IPv4, if it is for every interface.
        server_socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, address[0] != "::")
    if receive_buffer_bytes != USE_DEFAULT_BUFFER_SIZE:
        # Before listening, so that connections have it from their first packet on.
        server_socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
    server_socket.bind(address)
    server_socket.listen(backlog)


def _bind_address(endpoint: Endpoint) -> tuple[socket.AddressFamily, tuple[str, int]]:
    if not endpoint.host:
        if _has_ipv6():
            return socket.AF_INET6, ("::", endpoint.port)
        return socket.AF_INET, ("0.0.0.0", endpoint.port)
    addresses = socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
    # IPv4 first, as in Java, for a name such as localhost that is both.
    family, _, _, _, address = min(addresses, key=lambda entry: entry[0] != socket.AF_INET)
    return family, (str(address[0]), int(address[1]))


def _has_ipv6() -> bool:
    """Whether it can be bound, which a kernel that knows it may still refuse."""
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::", 0))
    except OSError:
        return False
    return True
