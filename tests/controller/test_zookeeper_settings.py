"""ZooKeeper connection settings: Kafka's defaults and rejected values."""

import pytest

from odradek.config.definition import ConfigSource, SettingError
from odradek.config.types import Password
from odradek.controller.zookeeper_settings import ZooKeeperSettings


def read_settings(**texts):
    names = {f"zookeeper.{name.replace('_', '.')}": text for name, text in texts.items()}
    return ZooKeeperSettings.read({ConfigSource.FILE: names})


def test_defaults_equal_kafkas():
    settings = ZooKeeperSettings()
    assert settings.connect is None
    assert settings.session_timeout_ms == settings.connection_timeout_ms == 18_000
    assert settings.max_in_flight_requests == 10
    assert not settings.set_acl
    assert not settings.ssl_client_enable


def test_connection_timeout_defaults_to_the_session_timeout():
    assert read_settings(session_timeout_ms="7000").connection_timeout_ms == 7000
    texts = {"session_timeout_ms": "7000", "connection_timeout_ms": "9000"}
    assert read_settings(**texts).connection_timeout_ms == 9000


@pytest.mark.parametrize(
    "texts",
    [
        {"max_in_flight_requests": "0"},
        {"session_timeout_ms": "0"},
        {"ssl_keystore_type": "JKS"},
        {"ssl_truststore_type": "PKCS12"},
        {"ssl_protocol": "SSLv3"},
        {"ssl_endpoint_identification_algorithm": "LDAPS"},
        {"ssl_crl_enable": "true"},
        {"ssl_ocsp_enable": "true"},
        {"set_acl": "true"},
        {"set_acl": "true", "ssl_client_enable": "true"},
    ],
    ids=str,
)
def test_unsupported_settings_are_rejected(texts):
    with pytest.raises(SettingError):
        read_settings(**texts)


@pytest.mark.parametrize(
    "connect",
    [
        "",
        "localhost",
        "localhost:2181",
        "127.0.0.1:1,zoo-2.example.com:65535, zoo_3",
        "[::1]:2181,[fe80::1%eth0]",
        "localhost:2181/kafka/one",
        "localhost:2181/",
        "localhost:2181/kafka/",
    ],
)
def test_connect_string_may_have_ports_and_a_chroot(connect):
    assert read_settings(connect=connect).connect == connect


@pytest.mark.parametrize(
    ("connect", "rule"),
    [
        ("::::", "must be host:port.*'::::' is invalid"),
        ("localhost:abc", "must be host:port.*'localhost:abc' is invalid"),
        ("localhost:99999", "must have ports between 1 and 65535, but has 99999"),
        ("localhost:0", "must have ports between 1 and 65535, but has 0"),
        ("localhost:-1", "must be host:port"),
        ("::1:2181", "must be host:port"),
        ("a:1,,b:1", "must be host:port"),
        ("a:1,", "must be host:port"),
        ("a b:1", "must be host:port"),
        ("me@host:1", "must be host:port"),
        ("/kafka", "must be host:port"),
        ("127.0.0.1:1//x", "must have a path of names"),
        ("127.0.0.1:1/x//y", "must have a path of names"),
        ("127.0.0.1:1/../x", "must have a path of names"),
    ],
)
def test_invalid_connect_string_is_rejected(connect, rule):
    with pytest.raises(SettingError, match=rf"^zookeeper\.connect=.*: {rule}"):
        read_settings(connect=connect)


def test_set_acl_is_allowed_with_authentication():
    assert ZooKeeperSettings(set_acl=True, sasl_jaas_config=Password("x")).set_acl
    tls_settings = {"ssl_client_enable": "true", "ssl_keystore_location": "own.pem"}
    assert read_settings(set_acl="true", **tls_settings).set_acl


def test_secrets_are_hidden():
    settings = ZooKeeperSettings(sasl_jaas_config=Password("hunter2"))
    assert "hunter2" not in repr(settings)
    assert settings.describe("zookeeper.sasl.jaas.config").value is None
