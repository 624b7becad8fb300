"""The settings of the network: where the broker listens, and how much it takes from there.

Names, ranges and defaults are Kafka's, with these differences:

    num.network.threads   is 1, which needs no thread at all
    num.io.threads        counts for each log directory, and for one pool beside them (disk.py)
    both, and listeners   keep their values while the broker runs
    PLAINTEXT             is all that can be spoken yet
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
    """Listeners, connections, and what may be received of each."""

    listeners: str = text(
        "listeners",
        default="PLAINTEXT://:9092",
        importance=Importance.HIGH,
        doc="Where the broker listens: `NAME://host:port`, between commas.  No host: every "
        "interface.  Port 0: any that is free.  A name that is no security protocol must stand in "
        "`listener.security.protocol.map`.",
    )
    advertised_listeners: str | None = text(
        "advertised.listeners",
        default=None,
        importance=Importance.HIGH,
        doc="What clients and other brokers are told to connect to, where that is not `listeners`: "
        "behind a load balancer, or with `0.0.0.0` there.  Ports may be there more than once.",
    )
    listener_security_protocol_map: str = text(
        "listener.security.protocol.map",
        default="SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        importance=Importance.LOW,
        doc="What each listener speaks: `NAME:PROTOCOL`, between commas.",
    )
    inter_broker_listener_name: str | None = text(
        "inter.broker.listener.name",
        default=None,
        doc="The listener on which brokers talk to each other; if it is not given, the one with "
        "the name of `security.inter.broker.protocol`.",
    )
    security_inter_broker_protocol: str | None = choice(
        "security.inter.broker.protocol",
        SECURITY_PROTOCOLS,
        default="PLAINTEXT",
        doc="What brokers speak among each other; not together with `inter.broker.listener.name`.",
    )
    control_plane_listener_name: str | None = text(
        "control.plane.listener.name",
        default=None,
        importance=Importance.HIGH,
        doc="A listener for the controller alone, whose requests never wait behind others; it must "
        "not be the one between brokers.",
    )
    num_network_threads: int = integer(
        "num.network.threads",
        default=1,
        at_least=1,
        importance=Importance.HIGH,
        doc="Processors of each listener.  One reads and writes in the main thread; more have a "
        "thread each, which seldom pays.",
    )
    num_io_threads: int = integer(
        "num.io.threads",
        default=8,
        at_least=1,
        importance=Importance.HIGH,
        doc="Threads for calls that wait for a disk: so many for each log directory, so that one "
        "that hangs holds up no other, and as many again for all else.  They are started as they "
        "are needed.",
    )
    queued_max_requests: int = integer(
        "queued.max.requests",
        default=500,
        at_least=1,
        importance=Importance.HIGH,
        doc="How many requests may be in progress, for each listener, before no more are read.  "
        "Those that only wait (for records, replicas, leaders) are not counted.",
    )
    queued_max_request_bytes: int = long(
        "queued.max.request.bytes",
        default=-1,
        doc="How many bytes of requests may be in memory before no more are read; none or less: "
        "no bound.  Processors share it evenly.",
    )
    socket_send_buffer_bytes: int = integer(
        "socket.send.buffer.bytes",
        default=102_400,
        at_least=-1,
        importance=Importance.HIGH,
        doc="The SO_SNDBUF of connections; -1: as the system has it.",
    )
    socket_receive_buffer_bytes: int = integer(
        "socket.receive.buffer.bytes",
        default=102_400,
        at_least=-1,
        importance=Importance.HIGH,
        doc="The SO_RCVBUF of connections; -1: as the system has it.",
    )
    socket_request_max_bytes: int = integer(
        "socket.request.max.bytes",
        default=104_857_600,
        at_least=1,
        importance=Importance.HIGH,
        doc="The largest request; one that says it is larger closes its connection.",
    )
    socket_listen_backlog_size: int = integer(
        "socket.listen.backlog.size",
        default=50,
        at_least=1,
        doc="How many new connections may wait to be accepted; if more come at once, the rest are "
        "late by a second or more.",
    )
    connections_max_idle_ms: int = long(
        "connections.max.idle.ms",
        default=600_000,
        doc="A connection on which nothing happened for so long is closed, even if it waits for "
        "an answer; less than 0: never.",
    )
    max_connections: int = integer(
        "max.connections",
        default=INT_MAX,
        at_least=0,
        update=UpdateMode.CLUSTER,
        doc="The most connections at any time; further ones wait.  Brokers and the controller "
        "always get in: the least recently used connection of another listener is closed for "
        "them.  The broker's own controller is not counted, and gets in by any listener.",
    )
    max_connections_per_ip: int = integer(
        "max.connections.per.ip",
        default=INT_MAX,
        at_least=0,
        update=UpdateMode.CLUSTER,
        doc="The most connections from one address; further ones are closed.",
    )
    max_connections_per_ip_overrides: str = text(
        "max.connections.per.ip.overrides",
        default="",
        update=UpdateMode.CLUSTER,
        doc="Other numbers for single addresses or host names: `host:number`, between commas.",
    )
    max_connection_creation_rate: int = integer(
        "max.connection.creation.rate",
        default=INT_MAX,
        at_least=0,
        update=UpdateMode.CLUSTER,
        doc="How many connections are accepted in a second; further ones wait, but no longer than "
        "a second each.  Brokers and the controller are not counted.",
    )

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """Where to listen, as written."""
        return parse_endpoints(self.listeners, self.security_protocols)

    @property
    def advertised_endpoints(self) -> tuple[Endpoint, ...]:
        """As written: hosts may be empty and ports 0."""
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
            raise SettingError("listeners", self.listeners, "must have at least one")
        advertised = self._parse("advertised.listeners", lambda: self.advertised_endpoints)
        self._check_security_protocols(endpoints)
        self._check_advertised(endpoints, advertised)
        self._check_names([endpoint.listener for endpoint in advertised])
        overrides = self._parse(
            "max.connections.per.ip.overrides", lambda: self.connections_per_host
        )
        if not self.max_connections_per_ip and not overrides:
            rule = "needs max.connections.per.ip.overrides, or nobody could connect"
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
            raise SettingError("advertised.listeners", text, "must have at least one")
        names = [endpoint.listener for endpoint in endpoints]
        unknown = [each.listener for each in advertised if each.listener not in names]
        if unknown:
            rule = f"names {', '.join(unknown)}, but listeners has only {', '.join(names)}"
            raise SettingError("advertised.listeners", text, rule)
        if any(map(_is_wildcard, advertised)):
            rule = "must give an address that others can connect to, which 0.0.0.0 is not"
            raise SettingError("advertised.listeners", text, rule)

    def _check_no_wildcard(self, endpoints: tuple[Endpoint, ...]) -> None:
        if any(map(_is_wildcard, endpoints)):
            rule = "needs advertised.listeners, since nobody else can connect to 0.0.0.0"
            raise SettingError("listeners", self.listeners, rule)

    def _check_names(self, advertised: list[str]) -> None:
        name = "security.inter.broker.protocol"
        if self.inter_broker_listener_name and any(name in each for each in self._configs.values()):
            raise SettingError(name, None, "must not be given beside inter.broker.listener.name")
        rule = f"must be one of the advertised listeners, {', '.join(advertised)}"
        if self.inter_broker_listener not in advertised:
            raise SettingError("inter.broker.listener.name", self.inter_broker_listener, rule)
        control_plane = self.control_plane_listener
        if control_plane is not None and control_plane not in advertised:
            raise SettingError("control.plane.listener.name", control_plane, rule)
        if control_plane == self.inter_broker_listener:
            rule = "must not be the listener between brokers"
            raise SettingError("control.plane.listener.name", control_plane, rule)


def _is_wildcard(endpoint: Endpoint) -> bool:
    return endpoint.host == "0.0.0.0"
