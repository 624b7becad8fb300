"""The settings of the connection to ZooKeeper.  Kafka: ZkConfigs.

The names, ranges and defaults are Kafka 3.9's, except ``zookeeper.sasl.jaas.config``: Kafka's
broker takes that from the ``Client`` section of a JAAS file, which only a JVM reads.
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
from odradek.config.settings import Settings
from odradek.config.types import Password

TLS_PROTOCOLS = ("TLSv1.2", "TLSv1.3")

PORT_MAX = 65535
#: A host name, an IPv4 address or an IPv6 address in brackets, and optionally a port.
_SERVER = re.compile(r"(?:[\w.-]+|\[[0-9A-Fa-f:.]+(?:%\w+)?\])(?::(\d{1,5}))?", re.ASCII)


def _unsupported(name: str) -> SettingError:
    return SettingError(name, "true", "is not supported: must be false")


def _check_store_type(store_type: str) -> str | None:
    return None if store_type.upper() == "PEM" else "must be PEM, the only supported format"


def _check_connect(connect: str) -> str | None:
    servers, _, path = connect.partition("/")
    for server in servers.split(",") if connect else ():
        match = _SERVER.fullmatch(server.strip())
        if match is None:
            return (
                "must be host:port, separated by commas, optionally with a path after the "
                f"last{_quote_invalid(server)}"
            )
        if match[1] and not 0 < int(match[1]) <= PORT_MAX:
            return f"must have ports between 1 and {PORT_MAX}, but has {match[1]}"
    if path.rstrip("/") and {"", ".", ".."}.intersection(path.rstrip("/").split("/")):
        return "must have a path of names, each after a single /"
    return None


def _quote_invalid(server: str) -> str:
    return f", but {server.strip()!r} is invalid" if server.strip() else ""


def _check_endpoint_identification(algorithm: str) -> str | None:
    return None if algorithm.upper() in {"", "HTTPS"} else "must be HTTPS or empty"


class ZooKeeperSettings(Settings):
    """The address, timeouts, authentication and TLS of the connection to ZooKeeper."""

    connect: str | None = text(
        "zookeeper.connect",
        default=None,
        check=_check_connect,
        importance=Importance.HIGH,
        doc="The ZooKeeper servers as `host:port`, separated by commas.  A path such as `/kafka` "
        "after the last server is the parent of all znodes; it is created if it does not exist.",
    )
    session_timeout_ms: int = integer(
        "zookeeper.session.timeout.ms",
        default=18_000,
        at_least=1,
        importance=Importance.HIGH,
        doc="The ZooKeeper session timeout: ZooKeeper considers a broker dead if it receives "
        "nothing from it for this time.",
    )
    connection_timeout_ms: int = integer(
        "zookeeper.connection.timeout.ms",
        default=value_of("zookeeper.session.timeout.ms"),
        at_least=1,
        importance=Importance.HIGH,
        doc="The maximum time to establish the first connection to ZooKeeper.",
    )
    set_acl: bool = boolean(
        "zookeeper.set.acl",
        default=False,
        importance=Importance.HIGH,
        doc="Whether to create znodes with ACLs: only the authenticated client may change them, "
        "and only it may read secrets.  Requires SASL or a TLS certificate.",
    )
    max_in_flight_requests: int = integer(
        "zookeeper.max.in.flight.requests",
        default=10,
        at_least=1,
        importance=Importance.HIGH,
        doc="The maximum number of requests sent to ZooKeeper that wait for a response.",
    )
    sasl_jaas_config: Password | None = password(
        "zookeeper.sasl.jaas.config",
        default=None,
        doc="The user name and password for ZooKeeper (SASL, DIGEST-MD5): "
        '`org.apache.zookeeper.server.auth.DigestLoginModule required username="kafka" '
        'password="secret";`.',
    )
    ssl_client_enable: bool = boolean(
        "zookeeper.ssl.client.enable",
        default=False,
        doc="Whether to use TLS for connections to ZooKeeper.",
    )
    client_cnxn_socket: str | None = text(
        "zookeeper.clientCnxnSocket",
        default=None,
        doc="Has no effect: in Kafka, the class of the Java client that opens the connection.",
    )
    ssl_keystore_location: str | None = text(
        "zookeeper.ssl.keystore.location",
        default=None,
        doc="A PEM file with the client certificate for ZooKeeper, and its private key.",
    )
    ssl_keystore_password: Password | None = password(
        "zookeeper.ssl.keystore.password", default=None, doc="The password of the private key."
    )
    ssl_keystore_type: str | None = text(
        "zookeeper.ssl.keystore.type",
        default=None,
        check=_check_store_type,
        doc="The format of the keystore: `PEM`.",
    )
    ssl_truststore_location: str | None = text(
        "zookeeper.ssl.truststore.location",
        default=None,
        doc="A PEM file with the CA certificates that may sign ZooKeeper's certificate; without "
        "it, the CA certificates that the system trusts.",
    )
    ssl_truststore_password: Password | None = password(
        "zookeeper.ssl.truststore.password",
        default=None,
        doc="Has no effect: a PEM file of certificates is not encrypted.",
    )
    ssl_truststore_type: str | None = text(
        "zookeeper.ssl.truststore.type",
        default=None,
        check=_check_store_type,
        doc="The format of the truststore: `PEM`.",
    )
    ssl_protocol: str = choice(
        "zookeeper.ssl.protocol",
        TLS_PROTOCOLS,
        default="TLSv1.2",
        importance=Importance.LOW,
        doc="The TLS version if `zookeeper.ssl.enabled.protocols` is not set.",
    )
    ssl_enabled_protocols: tuple[str, ...] | None = text_list(
        "zookeeper.ssl.enabled.protocols",
        default=None,
        one_of=TLS_PROTOCOLS,
        importance=Importance.LOW,
        doc="The enabled TLS versions.",
    )
    ssl_cipher_suites: tuple[str, ...] | None = text_list(
        "zookeeper.ssl.cipher.suites",
        default=None,
        importance=Importance.LOW,
        doc="The enabled cipher suites, by OpenSSL's names; without it, OpenSSL's defaults.",
    )
    ssl_endpoint_identification_algorithm: str = text(
        "zookeeper.ssl.endpoint.identification.algorithm",
        default="HTTPS",
        check=_check_endpoint_identification,
        importance=Importance.LOW,
        doc="`HTTPS` to verify that ZooKeeper's certificate names the host, or empty to skip that.",
    )
    ssl_crl_enable: bool = boolean(
        "zookeeper.ssl.crl.enable",
        default=False,
        importance=Importance.LOW,
        doc="Whether to check certificate revocation lists; not supported.",
    )
    ssl_ocsp_enable: bool = boolean(
        "zookeeper.ssl.ocsp.enable",
        default=False,
        importance=Importance.LOW,
        doc="Whether to check certificates for revocation by OCSP; not supported.",
    )

    def check(self) -> None:
        if self.ssl_crl_enable:
            raise _unsupported("zookeeper.ssl.crl.enable")
        if self.ssl_ocsp_enable:
            raise _unsupported("zookeeper.ssl.ocsp.enable")
        if self.set_acl and not (self.sasl_jaas_config or self._has_certificate):
            raise SettingError(
                "zookeeper.set.acl",
                "true",
                "needs zookeeper.sasl.jaas.config, or zookeeper.ssl.client.enable=true with "
                "zookeeper.ssl.keystore.location, to authenticate to ZooKeeper",
            )

    @property
    def _has_certificate(self) -> bool:
        return self.ssl_client_enable and self.ssl_keystore_location is not None
