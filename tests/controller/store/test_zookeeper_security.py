"""Who may do what in a ZooKeeper that knows us by a password or by a certificate."""

import shutil
import socket
import subprocess
import time

import pytest

from odradek.config.definition import SettingError
from odradek.config.kinds import Password
from odradek.controller.settings import ZooKeeperSettings
from odradek.controller.store.base import CannotOpen, Create, NotPermitted
from odradek.controller.store.zookeeper import ZooKeeperStore
from odradek.controller.store.zookeeper_access import access_list, sasl_options, tls_context
from odradek.controller.store.zookeeper_handler import Handler
from tests.support.free_ports import free_port
from tests.support.loops import on_a_thread
from tests.support.zookeeper import opened, server_in, settings_for, skip_without_zookeeper

DIGEST_LOGIN = "org.apache.zookeeper.server.auth.DigestLoginModule"
LOGIN = f'{DIGEST_LOGIN} required username="kafka" password="quite \\"secret\\"";'
SERVER_LOGIN = f'Server {{ {DIGEST_LOGIN} required user_kafka="quite \\"secret\\""; }};'


def shown(acl):
    return [f"{each.id.scheme}:{each.id.id}:{each.perms}" for each in acl]


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
def test_access_lists_are_those_that_kafka_writes(path, expected):
    assert shown(access_list(path, set_acl=True)) == expected
    assert shown(access_list(path, set_acl=False)) == [f"world:anyone:{ALL}"]


def test_a_login_is_read_as_jaas_files_write_it():
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
def test_a_bad_login_is_refused_without_being_shown(login):
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


async def test_what_a_broker_creates_only_brokers_change_and_secrets_only_they_read(sasl_server):
    broker = await opened(
        settings_for(sasl_server, "/kafka", sasl_jaas_config=Password(LOGIN), set_acl=True)
    )
    stranger = await opened(settings_for(sasl_server, "/kafka"))
    await broker.run([Create("/config"), Create("/config/users"), Create("/config/topics")])
    await broker.multi([Create("/config/users/alice", b"a"), Create("/config/topics/t", b"b")])
    assert (await broker.get("/config/users/alice")).value == b"a"
    await broker.set("/config/topics/t", b"c")
    assert (await stranger.get("/config/topics/t")).value == b"c"
    for refused in (
        stranger.get("/config/users/alice"),
        stranger.set("/config/topics/t", b"d"),
        stranger.create("/mine"),
        stranger.delete("/config/topics/t"),
    ):
        with pytest.raises(NotPermitted):
            await refused


async def test_a_wrong_password_is_told(sasl_server):
    wrong = Password(LOGIN.replace("quite", "not"))
    store = ZooKeeperStore(settings_for(sasl_server, sasl_jaas_config=wrong), run=on_a_thread)
    with pytest.raises(CannotOpen, match=f"ZooKeeper at {sasl_server.address}: .*AUTH_FAILED"):
        await store.open_session()


@pytest.fixture
def pem(tmp_path):
    """A certificate that signs itself, and its key, in one file."""
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
    """ZooKeeper opens this port after the one by which we know that it has started."""
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


async def test_zookeeper_knows_us_by_our_certificate(tls_server, pem):
    server, port = tls_server
    store = await opened(tls_settings(port, pem, set_acl=True, max_in_flight_requests=500))
    stranger = await opened(settings_for(server, "/kafka"))
    outcomes = await store.run([Create(f"/{count}", bytes(100)) for count in range(300)])
    assert [outcome.path for outcome in outcomes] == [f"/{count}" for count in range(300)]
    assert len(await store.children("/")) == 300
    with pytest.raises(NotPermitted):
        await stranger.set("/1", b"")


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"host": "127.0.0.1"}, "IP address mismatch"),
        ({"ssl_truststore_location": None}, "self.signed certificate"),
    ],
    ids=["another host", "not trusted"],
)
def test_a_server_that_is_not_who_we_think_is_left_alone(tls_server, pem, values, reason):
    _, port = tls_server
    settings = tls_settings(port, pem, **values)
    handler = Handler(lambda *_: None, tls_context(settings))
    host = (settings.connect or "").partition(":")[0]
    with pytest.raises(OSError, match=reason):
        handler.create_connection(("127.0.0.1", port), hostname=host, timeout=30)
    assert handler.last_failure is not None


def test_hosts_are_not_compared_where_that_is_turned_off(pem):
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
def test_tls_settings_that_cannot_be_used_are_named(pem, values, name):
    with pytest.raises(SettingError) as caught:
        tls_context(tls_settings(1, pem, **values))
    assert caught.value.name == name
