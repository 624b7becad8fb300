"""Limits on the number of connections, per address and per second, with a fake clock."""

import pytest

from odradek.broker.network.connection_quotas import ConnectionQuotas, normalize_address
from odradek.broker.settings.network import NetworkSettings

THREE_LISTENERS = {
    "listeners": "CLIENTS://:1,BROKERS://:2,CONTROLLER://:3",
    "listener_security_protocol_map": "CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter_broker_listener_name": "BROKERS",
    "control_plane_listener_name": "CONTROLLER",
}


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def new_quotas(clock, **settings):
    return ConnectionQuotas(NetworkSettings(**settings), now=clock)


def test_slots_are_free_up_to_max_connections(clock):
    quotas = new_quotas(clock, max_connections=2)
    for host in ("a", "b"):
        assert quotas.has_slot("PLAINTEXT")
        assert quotas.try_acquire("PLAINTEXT", host)
    assert not quotas.has_slot("PLAINTEXT")
    assert quotas.excess == 0
    quotas.release("a")
    assert quotas.has_slot("PLAINTEXT")
    assert quotas.total == 1


def test_inter_broker_and_control_plane_listeners_always_have_a_slot(clock):
    quotas = new_quotas(clock, max_connections=1, **THREE_LISTENERS)
    assert quotas.try_acquire("CLIENTS", "a")
    assert not quotas.has_slot("CLIENTS")
    for protected in ("BROKERS", "CONTROLLER"):
        assert quotas.is_protected(protected)
        assert quotas.has_slot(protected)
    quotas.try_acquire("BROKERS", "b")
    assert quotas.excess == 1


def test_only_listener_is_not_protected(clock):
    quotas = new_quotas(clock, max_connections=0)
    assert not quotas.is_protected("PLAINTEXT")
    assert not quotas.has_slot("PLAINTEXT")


def test_address_override_replaces_the_general_limit(clock):
    overrides = "10.0.0.1:2,[::1]:0"
    quotas = new_quotas(clock, max_connections_per_ip=1, max_connections_per_ip_overrides=overrides)
    assert [quotas.try_acquire("PLAINTEXT", "10.0.0.1") for _ in range(3)] == [True, True, False]
    assert [quotas.try_acquire("PLAINTEXT", "10.0.0.2") for _ in range(2)] == [True, False]
    assert not quotas.try_acquire("PLAINTEXT", "::1")
    assert quotas.total == 3
    quotas.release("10.0.0.1")
    assert quotas.try_acquire("PLAINTEXT", "10.0.0.1")


@pytest.mark.parametrize("host", ["no-such-host.invalid", "10.0.0..1", "a" * 64])
def test_override_of_an_unknown_host_is_ignored_and_logged(clock, caplog, host):
    new_quotas(clock, max_connections_per_ip_overrides=f"{host}:5")
    assert f"max.connections.per.ip.overrides of {host}, failed to resolve host" in caplog.text


def test_connections_of_one_second_come_at_once_and_then_one_at_a_time(clock):
    quotas = new_quotas(clock, max_connection_creation_rate=4)
    for _ in range(4):
        assert quotas.throttle_delay_s("PLAINTEXT") == 0
        quotas.try_acquire("PLAINTEXT", "a")
    assert quotas.throttle_delay_s("PLAINTEXT") == pytest.approx(0.25)
    clock.now += 0.25
    assert quotas.throttle_delay_s("PLAINTEXT") == 0
    quotas.try_acquire("PLAINTEXT", "a")
    assert quotas.throttle_delay_s("PLAINTEXT") == pytest.approx(0.25)
    clock.now += 1
    assert quotas.throttle_delay_s("PLAINTEXT") == 0


@pytest.mark.parametrize("rate", [1, 3, 7, 10, 1000])
def test_rate_is_kept_over_a_minute(clock, rate):
    quotas = new_quotas(clock, max_connection_creation_rate=rate)
    admitted = 0
    end = clock.now + 60
    while clock.now < end:
        delay_s = quotas.throttle_delay_s("PLAINTEXT")
        clock.now += delay_s
        if not delay_s:
            quotas.try_acquire("PLAINTEXT", "a")
            admitted += 1
    assert 60 * rate <= admitted <= 61 * rate + 1


def test_rate_of_zero_still_allows_one_connection_per_second(clock):
    quotas = new_quotas(clock, max_connection_creation_rate=0)
    quotas.try_acquire("PLAINTEXT", "a")
    assert quotas.throttle_delay_s("PLAINTEXT") == pytest.approx(1)


def test_inter_broker_connections_do_not_count_for_the_rate(clock):
    quotas = new_quotas(clock, max_connection_creation_rate=1, **THREE_LISTENERS)
    for _ in range(10):
        assert quotas.throttle_delay_s("BROKERS") == 0
        quotas.try_acquire("BROKERS", "a")
    assert quotas.throttle_delay_s("CLIENTS") == 0


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", "127.0.0.1"), ("::ffff:10.1.2.3", "10.1.2.3"), ("fe80::1%lo", "fe80::1")],
)
def test_addresses_are_normalized(host, expected):
    assert normalize_address(host) == expected
