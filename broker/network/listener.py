"""Server sockets of listeners, and the endpoints that the broker advertises.

A socket listens as soon as it is bound: otherwise another process could take over the port
unnoticed.  Clients that connect before the broker accepts wait in the backlog.

Owner: the core loop.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from odradek.broker.network.endpoint import Endpoint

USE_DEFAULT_BUFFER_SIZE = -1


class ListenerError(Exception):
    """A listener cannot be opened; the message names it and the reason."""


@dataclass(frozen=True, slots=True)
class Listener:
    """``endpoint`` has the bound port, also if the settings say port 0."""

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
    except (OSError, UnicodeError) as error:  # UnicodeError: a..b, or a name that is too long
        reason = getattr(error, "strerror", None) or str(error)
        raise ListenerError(f"failed to bind to {endpoint}: {reason}") from error
    return Listener(replace(endpoint, port=server_socket.getsockname()[1]), server_socket)


def resolve_advertised(
    advertised: Sequence[Endpoint],
    listeners: Sequence[Listener],
    *,
    local_host: Callable[[], str] = socket.getfqdn,
) -> tuple[Endpoint, ...]:
    """Return the endpoints to register: bound ports instead of 0, this host instead of none."""
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
        # The wildcard address accepts IPv4 as well.
        server_socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, address[0] != "::")
    if receive_buffer_bytes != USE_DEFAULT_BUFFER_SIZE:
        # Set before listen(), so connections have it from their first packet on.
        server_socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
    server_socket.bind(address)
    server_socket.listen(backlog)


def _bind_address(endpoint: Endpoint) -> tuple[socket.AddressFamily, tuple[str, int]]:
    if not endpoint.host:
        if _has_ipv6():
            return socket.AF_INET6, ("::", endpoint.port)
        return socket.AF_INET, ("0.0.0.0", endpoint.port)
    addresses = socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
    # IPv4 first, as in Java, for a name such as localhost that has both.
    family, _, _, _, address = min(addresses, key=lambda entry: entry[0] != socket.AF_INET)
    return family, (str(address[0]), int(address[1]))


def _has_ipv6() -> bool:
    """Whether an IPv6 socket can be bound; a kernel with IPv6 support may still refuse."""
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::", 0))
    except OSError:
        return False
    return True
