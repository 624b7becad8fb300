"""ACLs, SASL and TLS of ZooKeeper connections."""

import shutil
import socket
import subprocess
import time

import pytest

from odradek.config.definition import SettingError
from odradek.config.types import Password
from odradek.controller.store.base import CannotOpenSession, Create, NotPermitted
from odradek.controller.store.zookeeper import ZooKeeperStore
from odradek.controller.store.zookeeper_handler import KazooHandler
from odradek.controller.store.zookeeper_security import default_acls, sasl_options, tls_context
from odradek.controller.zookeeper_settings import ZooKeeperSettings
from tests.support.free_ports import free_port
from tests.support.loops import on_a_thread
from tests.support.zookeeper import opened, server_in, settings_for, skip_without_zookeeper

DIGEST_LOGIN = "org.apache.zookeeper.server.auth.DigestLoginModule"
LOGIN = f'{DIGEST_LOGIN} required username="kafka" password="quite \\"secret\\"";'
SERVER_LOGIN = f'Server {{ {DIGEST_LOGIN} required user_kafka="quite \\"secret\\""; }};'


def format_acls(acl):
    return [f"{entry.id.scheme}:{entry.id.id}:{entry.perms}" for entry in acl]


ALL, READ = 31, 1


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/brokers/ids/1", [f"auth::{ALL}", f"world:anyone:{READ}"]),
        ("/config/users/alice", [f"auth::{ALL}"]),
        ("/config/brokers/1", [f"auth::{ALL}"]),
        ("/delegation_token/tokens/x", [f"auth::{ALL}"]),
        ("/consumers", [f"world:anyone:{ALL}"]),
        ("/consumers/group", [f"auth::{ALL}", f"world:anyone:{READ}"]),
    ],
)
def test_acls_are_those_of_kafka(path, expected):
    assert format_acls(default_acls(path, set_acl=True)) == expected
    assert format_acls(default_acls(path, set_acl=False)) == [f"world:anyone:{ALL}"]


def test_login_is_parsed_from_jaas_syntax():
    settings = ZooKeeperSettings(sasl_jaas_config=Password(LOGIN))
    assert sasl_options(settings) == {
        "mechanism": "DIGEST-MD5",
        "username": "kafka",
        "password": 'quite "secret"',
    }
    assert sasl_options(ZooKeeperSettings()) is None


@pytest.mark.parametrize(
    "login",
    [
        "secret",
        f'{DIGEST_LOGIN} required username="kafka";',
        f'{DIGEST_LOGIN} required username="kafka" password="secret"',
        'com.sun.security.auth.module.Krb5LoginModule required principal="secret";',
    ],
)
def test_invalid_login_is_rejected_and_not_shown(login):
    with pytest.raises(SettingError) as caught:
        sasl_options(ZooKeeperSettings(sasl_jaas_config=Password(login)))
    assert "secret" not in str(caught.value)


@pytest.fixture
def sasl_server(tmp_path):
    skip_without_zookeeper()
    (tmp_path / "jaas.conf").write_text(SERVER_LOGIN)
    server = server_in(
        tmp_path / "zookeeper",
        properties={
            "authProvider.1": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
        },
        java_options=[f"-Djava.security.auth.login.config={tmp_path / 'jaas.conf'}"],
    )
    server.start()
    yield server
    server.kill()


async def test_only_brokers_change_their_znodes_and_read_sensitive_znodes(sasl_server):
    broker = await opened(
        settings_for(sasl_server, "/kafka", sasl_jaas_config=Password(LOGIN), set_acl=True)
    )
    unauthenticated = await opened(settings_for(sasl_server, "/kafka"))
    await broker.run([Create("/config"), Create("/config/users"), Create("/config/topics")])
    await broker.multi([Create("/config/users/alice", b"a"), Create("/config/topics/t", b"b")])
    assert (await broker.get("/config/users/alice")).value == b"a"
    await broker.set("/config/topics/t", b"c")
    assert (await unauthenticated.get("/config/topics/t")).value == b"c"
    for denied in (
        unauthenticated.get("/config/users/alice"),
        unauthenticated.set("/config/topics/t", b"d"),
        unauthenticated.create("/mine"),
        unauthenticated.delete("/config/topics/t"),
    ):
        with pytest.raises(NotPermitted):
            await denied


async def test_wrong_password_is_reported(sasl_server):
    wrong = Password(LOGIN.replace("quite", "not"))
    store = ZooKeeperStore(
        settings_for(sasl_server, sasl_jaas_config=wrong), run_in_thread=on_a_thread
    )
    with pytest.raises(
        CannotOpenSession, match=f"ZooKeeper at {sasl_server.address}: .*AUTH_FAILED"
    ):
        await store.open_session()


@pytest.fixture
def pem(tmp_path):
    """A self-signed certificate and its key, in one file."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is needed to make a certificate")
    parts = {"-keyout": tmp_path / "key.pem", "-out": tmp_path / "certificate.pem"}
    subprocess.run(
        [
            *(openssl, "req", "-x509", "-nodes", "-days", "1", "-subj", "/CN=localhost"),
            *("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
            *("-addext", "subjectAltName=DNS:localhost"),
            *(str(word) for pair in parts.items() for word in pair),
        ],
        check=True,
        capture_output=True,
    )
    both = tmp_path / "both.pem"
    both.write_text("".join(path.read_text() for path in parts.values()))
    return both


def wait_for_listener(port):
    """Wait for the TLS port: ZooKeeper opens it after the port that shows that it has started."""
    until_s = time.monotonic() + 30
    with socket.socket() as probe:
        while probe.connect_ex(("127.0.0.1", port)):
            assert time.monotonic() < until_s
            time.sleep(0.01)


@pytest.fixture
def tls_server(tmp_path, pem):
    skip_without_zookeeper()
    port = free_port()
    server = server_in(
        tmp_path / "zookeeper",
        properties={
            "secureClientPort": str(port),
            "secureClientPortAddress": "127.0.0.1",
            "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
            "ssl.keyStore.location": str(pem),
            "ssl.trustStore.location": str(pem),
            "ssl.clientAuth": "need",
            "authProvider.x509": "org.apache.zookeeper.server.auth.X509AuthenticationProvider",
        },
    )
    server.start()
    wait_for_listener(port)
    yield server, port
    server.kill()


def tls_settings(port, pem, *, host="localhost", **values):
    return ZooKeeperSettings(
        **{
            "connect": f"{host}:{port}/kafka",
            "ssl_client_enable": True,
            "ssl_enabled_protocols": ("TLSv1.2", "TLSv1.3"),
            "ssl_keystore_location": str(pem),
            "ssl_truststore_location": str(pem),
            **values,
        }
    )


async def test_broker_authenticates_with_its_certificate(tls_server, pem):
    server, port = tls_server
    store = await opened(tls_settings(port, pem, set_acl=True, max_in_flight_requests=500))
    unauthenticated = await opened(settings_for(server, "/kafka"))
    outcomes = await store.run([Create(f"/{count}", bytes(100)) for count in range(300)])
    assert [outcome.path for outcome in outcomes] == [f"/{count}" for count in range(300)]
    assert len(await store.get_children("/")) == 300
    with pytest.raises(NotPermitted):
        await unauthenticated.set("/1", b"")


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"host": "127.0.0.1"}, "IP address mismatch"),
        ({"ssl_truststore_location": None}, "self.signed certificate"),
    ],
    ids=["another host", "not trusted"],
)
def test_connection_to_an_untrusted_server_is_rejected(tls_server, pem, values, reason):
    _, port = tls_server
    settings = tls_settings(port, pem, **values)
    handler = KazooHandler(lambda *_: None, tls_context(settings))
    host = (settings.connect or "").partition(":")[0]
    with pytest.raises(OSError, match=reason):
        handler.create_connection(("127.0.0.1", port), hostname=host, timeout=30)
    assert handler.last_error is not None


def test_host_name_check_can_be_disabled(pem):
    settings = tls_settings(1, pem, ssl_endpoint_identification_algorithm="")
    context = tls_context(settings)
    assert context is not None
    assert not context.check_hostname


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({"ssl_keystore_location": "/none"}, "zookeeper.ssl.keystore.location"),
        ({"ssl_truststore_location": "/none"}, "zookeeper.ssl.truststore.location"),
        ({"ssl_cipher_suites": ("rot13",)}, "zookeeper.ssl.cipher.suites"),
    ],
)
def test_error_names_the_invalid_tls_setting(pem, values, name):
    with pytest.raises(SettingError) as caught:
        tls_context(tls_settings(1, pem, **values))
    assert caught.value.name == name
