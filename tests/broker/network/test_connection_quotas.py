"""How many connections, from where, how fast: with a clock of the test's own."""

import pytest

from odradek.broker.network.connection_limits import ConnectionLimits, plain_host
from odradek.broker.settings.network import NetworkSettings

THREE = {
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


def limits(clock, **settings):
    return ConnectionLimits(NetworkSettings(**settings), now=clock)


def test_there_is_room_until_there_are_too_many(clock):
    counted = limits(clock, max_connections=2)
    for host in ("a", "b"):
        assert counted.has_room("PLAINTEXT")
        assert counted.admit("PLAINTEXT", host)
    assert not counted.has_room("PLAINTEXT")
    assert counted.excess == 0
    counted.release("a")
    assert counted.has_room("PLAINTEXT")
    assert counted.total == 1


def test_brokers_and_the_controller_always_have_room(clock):
    counted = limits(clock, max_connections=1, **THREE)
    assert counted.admit("CLIENTS", "a")
    assert not counted.has_room("CLIENTS")
    for privileged in ("BROKERS", "CONTROLLER"):
        assert counted.is_privileged(privileged)
        assert counted.has_room(privileged)
    counted.admit("BROKERS", "b")
    assert counted.excess == 1


def test_the_only_listener_is_not_privileged(clock):
    counted = limits(clock, max_connections=0)
    assert not counted.is_privileged("PLAINTEXT")
    assert not counted.has_room("PLAINTEXT")


def test_an_address_has_its_own_limit_and_others_have_the_general_one(clock):
    overrides = "10.0.0.1:2,[::1]:0"
    counted = limits(clock, max_connections_per_ip=1, max_connections_per_ip_overrides=overrides)
    assert [counted.admit("PLAINTEXT", "10.0.0.1") for _ in range(3)] == [True, True, False]
    assert [counted.admit("PLAINTEXT", "10.0.0.2") for _ in range(2)] == [True, False]
    assert not counted.admit("PLAINTEXT", "::1")
    assert counted.total == 3
    counted.release("10.0.0.1")
    assert counted.admit("PLAINTEXT", "10.0.0.1")


@pytest.mark.parametrize("host", ["no-such-host.invalid", "10.0.0..1", "a" * 64])
def test_a_host_that_is_not_found_has_no_limit_of_its_own(clock, caplog, host):
    limits(clock, max_connections_per_ip_overrides=f"{host}:5")
    assert f"{host} is not found" in caplog.text


def test_a_second_s_worth_may_come_at_once_and_then_one_at_a_time(clock):
    counted = limits(clock, max_connection_creation_rate=4)
    for _ in range(4):
        assert counted.delay_s("PLAINTEXT") == 0
        counted.admit("PLAINTEXT", "a")
    assert counted.delay_s("PLAINTEXT") == pytest.approx(0.25)
    clock.now += 0.25
    assert counted.delay_s("PLAINTEXT") == 0
    counted.admit("PLAINTEXT", "a")
    assert counted.delay_s("PLAINTEXT") == pytest.approx(0.25)
    clock.now += 1
    assert counted.delay_s("PLAINTEXT") == 0


@pytest.mark.parametrize("rate", [1, 3, 7, 10, 1000])
def test_over_a_minute_the_rate_is_kept(clock, rate):
    counted = limits(clock, max_connection_creation_rate=rate)
    admitted = 0
    end = clock.now + 60
    while clock.now < end:
        delay_s = counted.delay_s("PLAINTEXT")
        clock.now += delay_s
        if not delay_s:
            counted.admit("PLAINTEXT", "a")
            admitted += 1
    assert 60 * rate <= admitted <= 61 * rate + 1


def test_a_rate_of_none_still_lets_one_in_every_second(clock):
    counted = limits(clock, max_connection_creation_rate=0)
    counted.admit("PLAINTEXT", "a")
    assert counted.delay_s("PLAINTEXT") == pytest.approx(1)


def test_brokers_do_not_count_for_the_rate(clock):
    counted = limits(clock, max_connection_creation_rate=1, **THREE)
    for _ in range(10):
        assert counted.delay_s("BROKERS") == 0
        counted.admit("BROKERS", "a")
    assert counted.delay_s("CLIENTS") == 0


@pytest.mark.parametrize(
    ("host", "plain"),
    [("127.0.0.1", "127.0.0.1"), ("::ffff:10.1.2.3", "10.1.2.3"), ("fe80::1%lo", "fe80::1")],
)
def test_a_host_is_one_address_however_it_came(host, plain):
    assert plain_host(host) == plain
