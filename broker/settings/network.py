"""Settings of listeners, connections and requests.

Names, ranges and defaults are Kafka's, with these differences:

    num.network.threads   defaults to 1, which needs no extra thread
    num.io.threads        applies to each log directory and to one shared pool (disk_executor.py)
    both, and listeners   cannot change while the broker runs
    security protocols    only PLAINTEXT is supported yet
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from odradek.broker.network.endpoint import (
    SECURITY_PROTOCOLS,
    Endpoint,
    check_distinct_ports,
    parse_counts,
    parse_endpoints,
    parse_protocols,
)
from odradek.config.definition import (
    Importance,
    SettingError,
    UpdateMode,
    choice,
    integer,
    long,
    text,
)
from odradek.config.settings import Settings

INT_MAX = 2**31 - 1
SUPPORTED_PROTOCOLS = ("PLAINTEXT",)

Result = TypeVar("Result")


class NetworkSettings(Settings):
    """Settings of listeners, connections and request sizes."""

    listeners: str = text(
        "listeners",
        default="PLAINTEXT://:9092",
        importance=Importance.HIGH,
        doc="The addresses that the broker binds, as comma-separated `NAME://host:port`: an empty "
        "host means all interfaces, port 0 means any free port, and a name that is not a security "
        "protocol must be in `listener.security.protocol.map`.",
    )
    advertised_listeners: str | None = text(
        "advertised.listeners",
        default=None,
        importance=Importance.HIGH,
        doc="The addresses that clients and other brokers connect to if they differ from "
        "`listeners`, as behind a load balancer or with `0.0.0.0`; ports may occur more than once.",
    )
    listener_security_protocol_map: str = text(
        "listener.security.protocol.map",
        default="SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        importance=Importance.LOW,
        doc="The security protocol of each listener, as comma-separated `NAME:PROTOCOL`.",
    )
    inter_broker_listener_name: str | None = text(
        "inter.broker.listener.name",
        default=None,
        doc="The listener for connections between brokers; by default the one named like "
        "`security.inter.broker.protocol`.",
    )
    security_inter_broker_protocol: str | None = choice(
        "security.inter.broker.protocol",
        SECURITY_PROTOCOLS,
        default="PLAINTEXT",
        doc="The security protocol between brokers; not allowed together with "
        "`inter.broker.listener.name`.",
    )
    control_plane_listener_name: str | None = text(
        "control.plane.listener.name",
        default=None,
        importance=Importance.HIGH,
        doc="A separate listener for the controller, whose requests then never wait behind others; "
        "it must differ from the inter-broker listener.",
    )
    num_network_threads: int = integer(
        "num.network.threads",
        default=1,
        at_least=1,
        importance=Importance.HIGH,
        doc="The number of processors of each listener: one uses the main thread; more use a "
        "thread each, which is rarely faster.",
    )
    num_io_threads: int = integer(
        "num.io.threads",
        default=8,
        at_least=1,
        importance=Importance.HIGH,
        doc="The number of threads for blocking disk calls, for each log directory and once more "
        "for all other calls; a hanging disk does not block the others, and threads start when "
        "needed.",
    )
    queued_max_requests: int = integer(
        "queued.max.requests",
        default=500,
        at_least=1,
        importance=Importance.HIGH,
        doc="The number of requests in progress on a listener above which no more are read; "
        "delayed operations are not counted.",
    )
    queued_max_request_bytes: int = long(
        "queued.max.request.bytes",
        default=-1,
        doc="The number of bytes of requests in memory above which no more are read; 0 or less "
        "means no limit, and processors share it evenly.",
    )
    socket_send_buffer_bytes: int = integer(
        "socket.send.buffer.bytes",
        default=102_400,
        at_least=-1,
        importance=Importance.HIGH,
        doc="The SO_SNDBUF of connections; -1 uses the system default.",
    )
    socket_receive_buffer_bytes: int = integer(
        "socket.receive.buffer.bytes",
        default=102_400,
        at_least=-1,
        importance=Importance.HIGH,
        doc="The SO_RCVBUF of connections; -1 uses the system default.",
    )
    socket_request_max_bytes: int = integer(
        "socket.request.max.bytes",
        default=104_857_600,
        at_least=1,
        importance=Importance.HIGH,
        doc="The maximum size of a request; a larger one closes its connection.",
    )
    socket_listen_backlog_size: int = integer(
        "socket.listen.backlog.size",
        default=50,
        at_least=1,
        doc="The number of connections that may wait to be accepted; if more arrive at once, the "
        "others are delayed by a second or more.",
    )
    connections_max_idle_ms: int = long(
        "connections.max.idle.ms",
        default=600_000,
        doc="The idle time after which a connection is closed, even if it waits for a response; "
        "a negative value means never.",
    )
    max_connections: int = integer(
        "max.connections",
        default=INT_MAX,
        at_least=0,
        update=UpdateMode.CLUSTER,
        doc="The maximum number of connections: further ones wait, except on the inter-broker and "
        "control plane listeners, for which the least recently used connection of another listener "
        "is closed; connections of this broker's own controller are not limited.",
    )
    max_connections_per_ip: int = integer(
        "max.connections.per.ip",
        default=INT_MAX,
        at_least=0,
        update=UpdateMode.CLUSTER,
        doc="The maximum number of connections from one address; further ones are closed.",
    )
    max_connections_per_ip_overrides: str = text(
        "max.connections.per.ip.overrides",
        default="",
        update=UpdateMode.CLUSTER,
        doc="Exceptions from `max.connections.per.ip`, as comma-separated `host:number`, where "
        "host is an address or a host name.",
    )
    max_connection_creation_rate: int = integer(
        "max.connection.creation.rate",
        default=INT_MAX,
        at_least=0,
        update=UpdateMode.CLUSTER,
        doc="The maximum number of connections accepted per second: further ones wait, but at most "
        "one second each; inter-broker and control plane listeners are not counted.",
    )

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """The endpoints to bind, as configured."""
        return parse_endpoints(self.listeners, self.security_protocols)

    @property
    def advertised_endpoints(self) -> tuple[Endpoint, ...]:
        """As configured: hosts may be empty and ports may be 0."""
        if self.advertised_listeners is None:
            return self.endpoints
        return parse_endpoints(self.advertised_listeners, self.security_protocols)

    @property
    def security_protocols(self) -> dict[str, str]:
        return parse_protocols(self.listener_security_protocol_map)

    @property
    def inter_broker_listener(self) -> str:
        name = self.inter_broker_listener_name or self.security_inter_broker_protocol
        assert name is not None
        return name.upper()

    @property
    def control_plane_listener(self) -> str | None:
        return self.control_plane_listener_name and self.control_plane_listener_name.upper()

    @property
    def connections_per_host(self) -> dict[str, int]:
        return parse_counts(self.max_connections_per_ip_overrides)

    def check(self) -> None:
        self._parse("listener.security.protocol.map", lambda: self.security_protocols)
        endpoints = self._parse("listeners", lambda: self.endpoints)
        self._parse("listeners", lambda: check_distinct_ports(endpoints))
        if not endpoints:
            raise SettingError("listeners", self.listeners, "must name at least one listener")
        advertised = self._parse("advertised.listeners", lambda: self.advertised_endpoints)
        self._check_security_protocols(endpoints)
        self._check_advertised(endpoints, advertised)
        self._check_names([endpoint.listener for endpoint in advertised])
        overrides = self._parse(
            "max.connections.per.ip.overrides", lambda: self.connections_per_host
        )
        if not self.max_connections_per_ip and not overrides:
            rule = "needs max.connections.per.ip.overrides, otherwise no client can connect"
            raise SettingError("max.connections.per.ip", "0", rule)

    def _parse(self, name: str, parse: Callable[[], Result]) -> Result:
        try:
            return parse()
        except ValueError as error:
            text = getattr(self, self.attributes[name])
            raise SettingError(name, text, str(error)) from error

    def _check_security_protocols(self, endpoints: tuple[Endpoint, ...]) -> None:
        for endpoint in endpoints:
            if endpoint.security_protocol not in SUPPORTED_PROTOCOLS:
                rule = (
                    f"{endpoint.security_protocol} is not supported yet; use "
                    f"{SUPPORTED_PROTOCOLS[0]}"
                )
                raise SettingError("listeners", self.listeners, rule)

    def _check_advertised(
        self, endpoints: tuple[Endpoint, ...], advertised: tuple[Endpoint, ...]
    ) -> None:
        text = self.advertised_listeners
        if text is None:
            self._check_no_wildcard(endpoints)
            return
        if not advertised:
            raise SettingError("advertised.listeners", text, "must name at least one listener")
        names = [endpoint.listener for endpoint in endpoints]
        unknown = [each.listener for each in advertised if each.listener not in names]
        if unknown:
            rule = f"names {', '.join(unknown)}, but listeners has only {', '.join(names)}"
            raise SettingError("advertised.listeners", text, rule)
        if any(map(_is_wildcard, advertised)):
            rule = "must not use the nonroutable address 0.0.0.0; use a routable address"
            raise SettingError("advertised.listeners", text, rule)

    def _check_no_wildcard(self, endpoints: tuple[Endpoint, ...]) -> None:
        if any(map(_is_wildcard, endpoints)):
            rule = "needs advertised.listeners, because 0.0.0.0 is not routable"
            raise SettingError("listeners", self.listeners, rule)

    def _check_names(self, advertised: list[str]) -> None:
        name = "security.inter.broker.protocol"
        if self.inter_broker_listener_name and any(name in each for each in self._configs.values()):
            raise SettingError(
                name, None, "must not be set together with inter.broker.listener.name"
            )
        rule = f"must be one of the advertised listeners, {', '.join(advertised)}"
        if self.inter_broker_listener not in advertised:
            raise SettingError("inter.broker.listener.name", self.inter_broker_listener, rule)
        control_plane = self.control_plane_listener
        if control_plane is not None and control_plane not in advertised:
            raise SettingError("control.plane.listener.name", control_plane, rule)
        if control_plane == self.inter_broker_listener:
            rule = "must differ from the inter-broker listener"
            raise SettingError("control.plane.listener.name", control_plane, rule)


def _is_wildcard(endpoint: Endpoint) -> bool:
    return endpoint.host == "0.0.0.0"
