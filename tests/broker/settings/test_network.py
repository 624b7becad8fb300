"""The rules between network settings."""

import pytest

from odradek.broker.settings.network import NetworkSettings
from odradek.config.definition import ConfigSource, SettingError

NAMED = {
    "listeners": "INTERNAL://:1,EXTERNAL://:2,CONTROLLER://:3",
    "listener.security.protocol.map": "INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "internal",
}


def read(**changes):
    texts = {name.replace("_", "."): text for name, text in changes.items()}
    return NetworkSettings.read({ConfigSource.FILE: {**NAMED, **texts}})


def test_default_listener_has_the_port_of_kafka():
    settings = NetworkSettings()
    assert [str(endpoint) for endpoint in settings.endpoints] == ["PLAINTEXT://:9092"]
    assert settings.advertised_endpoints == settings.endpoints
    assert settings.inter_broker_listener == "PLAINTEXT"
    assert settings.control_plane_listener is None


def test_listeners_have_names_and_advertised_addresses():
    settings = read(
        advertised_listeners="INTERNAL://a:1,EXTERNAL://front:1,CONTROLLER://a:3",
        control_plane_listener_name="controller",
    )
    assert [str(endpoint) for endpoint in settings.advertised_endpoints][1] == "EXTERNAL://front:1"
    assert settings.inter_broker_listener == "INTERNAL"
    assert settings.control_plane_listener == "CONTROLLER"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"listeners": ""}, "listeners=: must name at least one listener"),
        ({"listeners": "x"}, "listeners=x: must be NAME://host:port"),
        ({"listeners": "INTERNAL://:1,EXTERNAL://:1"}, "must have a different port"),
        ({"listeners": "EXTERNAL://:1"}, "inter.broker.listener.name=INTERNAL: must be one of"),
        ({"listener.security.protocol.map": "INTERNAL"}, "listener.security.protocol.map=INTERNAL"),
        (
            {"listener.security.protocol.map": "INTERNAL:SSL,EXTERNAL:SSL,CONTROLLER:SSL"},
            "SSL is not supported yet",
        ),
        ({"advertised.listeners": ""}, "advertised.listeners=: must name at least one listener"),
        (
            {"advertised.listeners": "INTERNAL://0.0.0.0:1"},
            "must not use the nonroutable address 0.0.0.0",
        ),
        ({"listeners": "INTERNAL://0.0.0.0:1"}, "listeners=INTERNAL://0.0.0.0:1: needs adv"),
        ({"control.plane.listener.name": "INTERNAL"}, "must differ from the inter-broker listener"),
        ({"control.plane.listener.name": "OTHER"}, "control.plane.listener.name=OTHER: must be"),
        ({"security.inter.broker.protocol": "PLAINTEXT"}, "must not be set together with"),
        ({"max.connections.per.ip": "0"}, "max.connections.per.ip=0: needs"),
        ({"max.connections.per.ip.overrides": "x"}, "must be host:number"),
        ({"num.network.threads": "0"}, "num.network.threads=0: must be at least 1"),
        ({"socket.request.max.bytes": "0"}, "must be at least 1"),
    ],
)
def test_invalid_value_is_rejected_with_its_rule(changes, message):
    with pytest.raises(SettingError) as error:
        read(**changes)
    assert message in str(error.value)


def test_advertised_listener_must_be_a_listener():
    with pytest.raises(SettingError, match="names CONTROLLER, but listeners has only INTERNAL"):
        read(listeners="INTERNAL://:1", advertised_listeners="INTERNAL://a:1,CONTROLLER://a:3")
