"""Listener endpoints as the settings write them: ``NAME://host:port``, separated by commas.

Kafka: EndPoint.  Used for ``listeners`` and ``advertised.listeners``.

A listener name is converted to upper case, and ``listener.security.protocol.map`` maps it to a
security protocol.  No host means every interface; port 0 means any free port.  IPv6 addresses are
written in brackets.

Owner: none; immutable, any thread.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
PORT_MAX = 65535

_ENDPOINT = re.compile(r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One listener, as the settings write it."""

    listener: str
    security_protocol: str
    #: Empty for every interface.
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.listener}://{host}:{self.port}"


def parse_endpoints(text: str, protocols: Mapping[str, str]) -> tuple[Endpoint, ...]:
    """Parse endpoints.  Raises ValueError with the rule that the text breaks."""
    endpoints = tuple(_endpoint(entry.strip(), protocols) for entry in text.split(",") if entry)
    names = Counter(endpoint.listener for endpoint in endpoints)
    for name, count in names.items():
        if count > 1:
            raise ValueError(f"must name each listener once, but has {name} twice")
    return endpoints


def check_distinct_ports(endpoints: Sequence[Endpoint]) -> None:
    """Raise ValueError unless all endpoints can be bound at the same time.

    Two endpoints may share a port if one has an IPv4 address and the other an IPv6 address.
    """
    for port, count in Counter(endpoint.port for endpoint in endpoints).items():
        if port and count > 1:
            sharing = [endpoint for endpoint in endpoints if endpoint.port == port]
            versions = sorted(_ip_version(endpoint.host) for endpoint in sharing)
            if versions != [4, 6]:
                raise ValueError(
                    f"must have a different port for each listener, but {port} is used {count} "
                    "times (two may share a port if one has an IPv4 and one an IPv6 address)"
                )


def parse_protocols(text: str) -> dict[str, str]:
    """Parse ``NAME:PROTOCOL``, separated by commas, into protocols by listener name."""
    protocols: dict[str, str] = {}
    for entry in filter(None, map(str.strip, text.split(","))):
        name, colon, protocol = (part.strip().upper() for part in entry.rpartition(":"))
        if not colon or not name:
            raise ValueError(f"must be NAME:PROTOCOL, separated by commas, but {entry!r} is not")
        if protocol not in SECURITY_PROTOCOLS:
            raise ValueError(f"must name one of {', '.join(SECURITY_PROTOCOLS)} for {name}")
        if name in protocols:
            raise ValueError(f"must name each listener once, but has {name} twice")
        protocols[name] = protocol
    return protocols


def parse_counts(text: str) -> dict[str, int]:
    """Parse ``host:number``, separated by commas, into numbers by host."""
    counts: dict[str, int] = {}
    for entry in filter(None, map(str.strip, text.split(","))):
        host, colon, number = (part.strip() for part in entry.rpartition(":"))
        if not colon or not host or not number.isdecimal():
            raise ValueError(f"must be host:number, separated by commas, but {entry!r} is not")
        counts[host.strip("[]")] = int(number)
    return counts


def _endpoint(text: str, protocols: Mapping[str, str]) -> Endpoint:
    match = _ENDPOINT.fullmatch(text)
    if match is None:
        raise ValueError(f"must be NAME://host:port, separated by commas, but {text!r} is not")
    name, host, port = match[1].upper(), match[2], int(match[3])
    if not name:
        raise ValueError(f"must have a name for each listener, but {text!r} has none")
    if not 0 <= port <= PORT_MAX:
        raise ValueError(f"must have ports between 0 and {PORT_MAX}, but has {port}")
    if not _is_host(host):
        raise ValueError(f"must have valid host names, but {host!r} is not one")
    if name not in protocols:
        raise ValueError(f"names {name}, which is not in listener.security.protocol.map")
    return Endpoint(name, protocols[name], host, port)


def _is_host(text: str) -> bool:
    """Whether it can be a host name: no label is empty or longer than 63 characters."""
    try:
        text.encode("idna")
    except UnicodeError:
        return False
    return True


def _ip_version(host: str) -> int:
    """Return 4 or 6 for an address; 0 for a name or an empty host."""
    try:
        return ip_address(host).version
    except ValueError:
        return 0
