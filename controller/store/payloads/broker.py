"""A broker's registration: where it listens, and what it supports.

/brokers/ids/ID

    {"features":{},"listener_security_protocol_map":{"INSIDE":"PLAINTEXT"},
     "endpoints":["INSIDE://host:9092"],"rack":"a","jmx_port":-1,"port":9092,"host":"host",
     "version":5,"timestamp":"1700000000000"}

    v1  host and port, for a listener called PLAINTEXT
    v2  endpoints, whose listeners are called as their security protocols are
    v3  rack, which is left out if there is none
    v4  listener_security_protocol_map
    v5  features (KIP-584)

Host and port are still written, for the oldest clients: those of the first endpoint without
encryption and authentication, or null and -1.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from odradek.controller.store.payloads.fields import Fields, write_json
from odradek.controller.store.payloads.key_order import like_properties

CURRENT_VERSION = 5
NO_PORT = -1
UNKNOWN_TIME_MS = -1


class SecurityProtocol(Enum):
    """How a listener is spoken to; its value is the number that requests carry."""

    PLAINTEXT = 0
    SSL = 1
    SASL_PLAINTEXT = 2
    SASL_SSL = 3


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An address at which a broker can be reached; ``host`` is empty if it names none."""

    listener: str
    host: str
    port: int
    security_protocol: SecurityProtocol

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.listener}://{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class FeatureVersions:
    """The versions of a feature that a broker supports."""

    min_version: int
    max_version: int


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """What a broker tells of itself.  Its epoch is the transaction that made the node."""

    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    features: Mapping[str, FeatureVersions] = field(default_factory=dict)
    jmx_port: int = NO_PORT
    timestamp_ms: int = UNKNOWN_TIME_MS
    extra: Mapping[str, Any] = field(default_factory=dict)

    def encode(self, *, version: int = CURRENT_VERSION) -> bytes:
        """Version 4 is for ``inter.broker.protocol.version`` below 2.7."""
        assert version in (4, 5), version
        fields: dict[str, Any] = {}
        if version >= 5:
            fields["features"] = self._features()
        fields["listener_security_protocol_map"] = {
            each.listener: each.security_protocol.name for each in self.endpoints
        }
        fields["endpoints"] = [str(each) for each in self.endpoints]
        if self.rack is not None:
            fields["rack"] = self.rack
        plaintext = self._first_plaintext()
        fields["jmx_port"] = self.jmx_port
        fields["port"] = plaintext.port if plaintext else NO_PORT
        fields["host"] = plaintext.host or None if plaintext else None
        fields["version"] = version
        fields["timestamp"] = str(self.timestamp_ms)
        return write_json(fields, self.extra)

    @classmethod
    def decode(cls, value: bytes, node: str = "a broker") -> BrokerRegistration:
        fields = Fields.parse(value, node)
        version = fields.int32("version")
        if version < 1:
            fields.refuse(f"version {version} was never written")
        return cls(
            endpoints=_endpoints(fields) if version > 1 else (_only_endpoint(fields),),
            rack=fields.text("rack") if fields.has("rack") else None,
            features={
                name: _feature(name, each) for name, each in fields.objects_map("features").items()
            },
            jmx_port=fields.int32("jmx_port"),
            timestamp_ms=fields.int64_in_text("timestamp", default=UNKNOWN_TIME_MS),
            extra=fields.beyond(_KNOWN),
        )

    def _features(self) -> dict[str, dict[str, int]]:
        return {
            name: {"min_version": each.min_version, "max_version": each.max_version}
            for name, each in like_properties(self.features).items()
        }

    def _first_plaintext(self) -> Endpoint | None:
        for each in self.endpoints:
            if each.security_protocol is SecurityProtocol.PLAINTEXT:
                return each
        return None


def _only_endpoint(fields: Fields) -> Endpoint:
    return Endpoint(
        "PLAINTEXT", fields.text("host"), fields.int32("port"), SecurityProtocol.PLAINTEXT
    )


def _endpoints(fields: Fields) -> tuple[Endpoint, ...]:
    protocols = _PROTOCOLS
    if fields.has("listener_security_protocol_map"):
        protocols = {
            listener: _protocol(name, fields)
            for listener, name in fields.text_map("listener_security_protocol_map").items()
        }
    return tuple(_endpoint(each, protocols, fields) for each in fields.texts("endpoints"))


def _endpoint(text: str, protocols: Mapping[str, SecurityProtocol], fields: Fields) -> Endpoint:
    match = _ENDPOINT.fullmatch(text)
    if match is None:
        fields.refuse(f"not an endpoint: {text!r}")
    listener = match[1].upper()
    if listener not in protocols:
        fields.refuse(f"listener {listener} has no security protocol")
    return Endpoint(listener, match[2], int(match[3]), protocols[listener])


def _protocol(name: str, fields: Fields) -> SecurityProtocol:
    protocol = _PROTOCOLS.get(name.upper())
    if protocol is None:
        fields.refuse(f"not a security protocol: {name!r}")
    return protocol


def _feature(name: str, fields: Fields) -> FeatureVersions:
    versions = FeatureVersions(fields.int32("min_version"), fields.int32("max_version"))
    if not 0 <= versions.min_version <= versions.max_version:
        fields.refuse(f"not the versions of a feature: {name} {versions}")
    return versions


# Kafka's own pattern lets a port have more digits than any port has.
_ENDPOINT = re.compile(r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]{1,5})", re.ASCII)
_PROTOCOLS = {protocol.name: protocol for protocol in SecurityProtocol}
_KNOWN = frozenset(
    (
        "version",
        "host",
        "port",
        "jmx_port",
        "timestamp",
        "endpoints",
        "rack",
        "listener_security_protocol_map",
        "features",
    )
)
