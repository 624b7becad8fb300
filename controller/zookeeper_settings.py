"""The settings of the connection to ZooKeeper.

The names, ranges and defaults are Kafka 3.9's, but for ``zookeeper.sasl.jaas.config``: Kafka's
broker takes that from the ``Client`` section of a JAAS file, which only a Java machine reads.
"""

import re

from odradek.config.definition import (
    Importance,
    SettingError,
    boolean,
    choice,
    integer,
    password,
    text,
    text_list,
    value_of,
)
from odradek.config.kinds import Password
from odradek.config.settings import Settings

TLS_PROTOCOLS = ("TLSv1.2", "TLSv1.3")

PORT_MAX = 65535
#: A name or an IPv4 address, or an IPv6 address in brackets; and a port, or the usual one.
_SERVER = re.compile(r"(?:[\w.-]+|\[[0-9A-Fa-f:.]+(?:%\w+)?\])(?::(\d{1,5}))?", re.ASCII)


def _not_offered(name: str) -> SettingError:
    return SettingError(name, "true", "is not offered: leave it false")


def _pem_only(kind: str) -> str | None:
    return None if kind.upper() == "PEM" else "must be PEM, the one format that is read here"


def _servers(connect: str) -> str | None:
    servers, _, path = connect.partition("/")
    for server in servers.split(",") if connect else ():
        match = _SERVER.fullmatch(server.strip())
        if match is None:
            return (
                f"must be host:port between commas, and a path after the last or none{_of(server)}"
            )
        if match[1] and not 0 < int(match[1]) <= PORT_MAX:
            return f"must have ports between 1 and {PORT_MAX}, but has {match[1]}"
    if path.rstrip("/") and {"", ".", ".."}.intersection(path.rstrip("/").split("/")):
        return "must have a path of names with one / before each"
    return None


def _of(server: str) -> str:
    return f", which {server.strip()!r} is not" if server.strip() else ""


def _host_check(algorithm: str) -> str | None:
    return None if algorithm.upper() in {"", "HTTPS"} else "must be HTTPS or empty"


class ZooKeeperSettings(Settings):
    """Where ZooKeeper is, how long it may be silent, and how we show who we are."""

    connect: str | None = text(
        "zookeeper.connect",
        default=None,
        check=_servers,
        importance=Importance.HIGH,
        doc="The ZooKeeper servers, `host:port` between commas, and after the last a path such as "
        "`/kafka` below which everything is kept; it is created if it is missing.",
    )
    session_timeout_ms: int = integer(
        "zookeeper.session.timeout.ms",
        default=18_000,
        at_least=1,
        importance=Importance.HIGH,
        doc="For how long ZooKeeper may hear nothing of a broker before it takes it for dead.",
    )
    connection_timeout_ms: int = integer(
        "zookeeper.connection.timeout.ms",
        default=value_of("zookeeper.session.timeout.ms"),
        at_least=1,
        importance=Importance.HIGH,
        doc="For how long a first connection to ZooKeeper is tried.",
    )
    set_acl: bool = boolean(
        "zookeeper.set.acl",
        default=False,
        importance=Importance.HIGH,
        doc="Whether what is created can be changed by us alone, and secrets be read by us alone.  "
        "Needs SASL or a TLS certificate to know us by.",
    )
    max_in_flight_requests: int = integer(
        "zookeeper.max.in.flight.requests",
        default=10,
        at_least=1,
        importance=Importance.HIGH,
        doc="How many requests are sent to ZooKeeper before the first must be answered.",
    )
    sasl_jaas_config: Password | None = password(
        "zookeeper.sasl.jaas.config",
        default=None,
        doc="The name and password that we show to ZooKeeper (SASL, DIGEST-MD5): "
        '`org.apache.zookeeper.server.auth.DigestLoginModule required username="kafka" '
        'password="secret";`.',
    )
    ssl_client_enable: bool = boolean(
        "zookeeper.ssl.client.enable",
        default=False,
        doc="Whether to speak TLS to ZooKeeper.",
    )
    client_cnxn_socket: str | None = text(
        "zookeeper.clientCnxnSocket",
        default=None,
        doc="Has no effect: which class of the Java client opens the connection.",
    )
    ssl_keystore_location: str | None = text(
        "zookeeper.ssl.keystore.location",
        default=None,
        doc="A PEM file with the certificate that we show to ZooKeeper, and its key.",
    )
    ssl_keystore_password: Password | None = password(
        "zookeeper.ssl.keystore.password", default=None, doc="What that key is locked with."
    )
    ssl_keystore_type: str | None = text(
        "zookeeper.ssl.keystore.type",
        default=None,
        check=_pem_only,
        doc="The format of the keystore: `PEM`.",
    )
    ssl_truststore_location: str | None = text(
        "zookeeper.ssl.truststore.location",
        default=None,
        doc="A PEM file with the certificates that ZooKeeper's must be signed by; without one, "
        "those that the system trusts.",
    )
    ssl_truststore_password: Password | None = password(
        "zookeeper.ssl.truststore.password",
        default=None,
        doc="Has no effect: a PEM file of certificates is not locked.",
    )
    ssl_truststore_type: str | None = text(
        "zookeeper.ssl.truststore.type",
        default=None,
        check=_pem_only,
        doc="The format of the truststore: `PEM`.",
    )
    ssl_protocol: str = choice(
        "zookeeper.ssl.protocol",
        TLS_PROTOCOLS,
        default="TLSv1.2",
        importance=Importance.LOW,
        doc="The version of TLS, where `zookeeper.ssl.enabled.protocols` names none.",
    )
    ssl_enabled_protocols: tuple[str, ...] | None = text_list(
        "zookeeper.ssl.enabled.protocols",
        default=None,
        one_of=TLS_PROTOCOLS,
        importance=Importance.LOW,
        doc="The versions of TLS that may be used.",
    )
    ssl_cipher_suites: tuple[str, ...] | None = text_list(
        "zookeeper.ssl.cipher.suites",
        default=None,
        importance=Importance.LOW,
        doc="The ciphers that may be used, by OpenSSL's names; without it, those that OpenSSL "
        "thinks safe.",
    )
    ssl_endpoint_identification_algorithm: str = text(
        "zookeeper.ssl.endpoint.identification.algorithm",
        default="HTTPS",
        check=_host_check,
        importance=Importance.LOW,
        doc="`HTTPS` if ZooKeeper's certificate must name the host connected to, else empty.",
    )
    ssl_crl_enable: bool = boolean(
        "zookeeper.ssl.crl.enable",
        default=False,
        importance=Importance.LOW,
        doc="Whether lists of revoked certificates are looked at; not offered.",
    )
    ssl_ocsp_enable: bool = boolean(
        "zookeeper.ssl.ocsp.enable",
        default=False,
        importance=Importance.LOW,
        doc="Whether the issuer is asked for revoked certificates; not offered.",
    )

    def check(self) -> None:
        if self.ssl_crl_enable:
            raise _not_offered("zookeeper.ssl.crl.enable")
        if self.ssl_ocsp_enable:
            raise _not_offered("zookeeper.ssl.ocsp.enable")
        if self.set_acl and not (self.sasl_jaas_config or self._has_certificate):
            raise SettingError(
                "zookeeper.set.acl",
                "true",
                "needs zookeeper.sasl.jaas.config, or zookeeper.ssl.client.enable=true with "
                "zookeeper.ssl.keystore.location, for ZooKeeper to know us by",
            )

    @property
    def _has_certificate(self) -> bool:
        return self.ssl_client_enable and self.ssl_keystore_location is not None
