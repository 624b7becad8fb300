"""The registration of a broker: its listeners and its features.  Kafka: BrokerIdZNode.

/brokers/ids/ID

    {"features":{},"listener_security_protocol_map":{"INSIDE":"PLAINTEXT"},
     "endpoints":["INSIDE://host:9092"],"rack":"a","jmx_port":-1,"port":9092,"host":"host",
     "version":5,"timestamp":"1700000000000"}

    v1  host and port, of a listener named PLAINTEXT
    v2  endpoints, whose listeners have the names of their security protocols
    v3  rack, which is omitted if there is none
    v4  listener_security_protocol_map
    v5  features (KIP-584)

Host and port are still written, for the oldest clients: those of the first PLAINTEXT endpoint, or
null and -1.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from odradek.controller.store.payloads.json_object import JsonObject, write_json
from odradek.controller.store.payloads.key_order import order_like_java_properties

CURRENT_VERSION = 5
NO_PORT = -1
UNKNOWN_TIMESTAMP_MS = -1


class SecurityProtocol(Enum):
    """The security protocol of a listener; the value is its id in requests."""

    PLAINTEXT = 0
    SSL = 1
    SASL_PLAINTEXT = 2
    SASL_SSL = 3


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An address of a broker; ``host`` is empty if the endpoint names none."""

    listener: str
    host: str
    port: int
    security_protocol: SecurityProtocol

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.listener}://{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class SupportedVersionRange:
    """The versions of a feature that a broker supports (KIP-584)."""

    min_version: int
    max_version: int


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """The registration of a broker.  The broker epoch is the znode's czxid.  Kafka: BrokerInfo."""

    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    features: Mapping[str, SupportedVersionRange] = field(default_factory=dict)
    jmx_port: int = NO_PORT
    timestamp_ms: int = UNKNOWN_TIMESTAMP_MS
    extra: Mapping[str, Any] = field(default_factory=dict)

    def encode(self, *, version: int = CURRENT_VERSION) -> bytes:
        """Version 4 is for ``inter.broker.protocol.version`` below 2.7."""
        assert version in (4, 5), version
        fields: dict[str, Any] = {}
        if version >= 5:
            fields["features"] = self._encode_features()
        fields["listener_security_protocol_map"] = {
            endpoint.listener: endpoint.security_protocol.name for endpoint in self.endpoints
        }
        fields["endpoints"] = [str(endpoint) for endpoint in self.endpoints]
        if self.rack is not None:
            fields["rack"] = self.rack
        plaintext = self._plaintext_endpoint()
        fields["jmx_port"] = self.jmx_port
        fields["port"] = plaintext.port if plaintext else NO_PORT
        fields["host"] = plaintext.host or None if plaintext else None
        fields["version"] = version
        fields["timestamp"] = str(self.timestamp_ms)
        return write_json(fields, self.extra)

    @classmethod
    def decode(cls, value: bytes, path: str = "a broker") -> BrokerRegistration:
        fields = JsonObject.parse(value, path)
        version = fields.int32("version")
        if version < 1:
            fields.raise_corrupt(f"version {version}: must be at least 1")
        return cls(
            endpoints=_decode_endpoints(fields) if version > 1 else (_decode_v1_endpoint(fields),),
            rack=fields.text("rack") if fields.has("rack") else None,
            features={
                name: _decode_feature(name, feature)
                for name, feature in fields.object_map("features").items()
            },
            jmx_port=fields.int32("jmx_port"),
            timestamp_ms=fields.int64_from_text("timestamp", default=UNKNOWN_TIMESTAMP_MS),
            extra=fields.fields_except(_KNOWN_FIELDS),
        )

    def _encode_features(self) -> dict[str, dict[str, int]]:
        return {
            name: {"min_version": feature.min_version, "max_version": feature.max_version}
            for name, feature in order_like_java_properties(self.features).items()
        }

    def _plaintext_endpoint(self) -> Endpoint | None:
        for endpoint in self.endpoints:
            if endpoint.security_protocol is SecurityProtocol.PLAINTEXT:
                return endpoint
        return None


def _decode_v1_endpoint(fields: JsonObject) -> Endpoint:
    return Endpoint(
        "PLAINTEXT", fields.text("host"), fields.int32("port"), SecurityProtocol.PLAINTEXT
    )


def _decode_endpoints(fields: JsonObject) -> tuple[Endpoint, ...]:
    protocols = _PROTOCOLS
    if fields.has("listener_security_protocol_map"):
        protocols = {
            listener: _decode_security_protocol(name, fields)
            for listener, name in fields.text_map("listener_security_protocol_map").items()
        }
    return tuple(
        _decode_endpoint(text, protocols, fields) for text in fields.text_list("endpoints")
    )


def _decode_endpoint(
    text: str, protocols: Mapping[str, SecurityProtocol], fields: JsonObject
) -> Endpoint:
    match = _ENDPOINT.fullmatch(text)
    if match is None:
        fields.raise_corrupt(f"invalid endpoint {text!r}")
    listener = match[1].upper()
    if listener not in protocols:
        fields.raise_corrupt(f"listener {listener} has no security protocol")
    return Endpoint(listener, match[2], int(match[3]), protocols[listener])


def _decode_security_protocol(name: str, fields: JsonObject) -> SecurityProtocol:
    protocol = _PROTOCOLS.get(name.upper())
    if protocol is None:
        fields.raise_corrupt(f"unknown security protocol {name!r}")
    return protocol


def _decode_feature(name: str, fields: JsonObject) -> SupportedVersionRange:
    versions = SupportedVersionRange(fields.int32("min_version"), fields.int32("max_version"))
    if not 0 <= versions.min_version <= versions.max_version:
        fields.raise_corrupt(f"invalid versions of feature {name}: {versions}")
    return versions


# Kafka's pattern allows a port with any number of digits.
_ENDPOINT = re.compile(r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]{1,5})", re.ASCII)
_PROTOCOLS = {protocol.name: protocol for protocol in SecurityProtocol}
_KNOWN_FIELDS = frozenset(
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
