"""A timer that can be reset cheaply."""

import pytest

from odradek.broker.groups.expiration_timer import ExpirationTimer
from tests.support.virtual_loop import VirtualLoop


@pytest.fixture
def loop():
    loop = VirtualLoop()
    yield loop
    loop.close()


class CountingLoop:
    """A loop that counts how often a timer was set."""

    def __init__(self, loop):
        self.loop = loop
        self.count = 0

    def time(self):
        return self.loop.time()

    def call_at(self, when, callback):
        self.count += 1
        return self.loop.call_at(when, callback)


def test_timer_expires_once(loop):
    expired = []
    ExpirationTimer(loop, lambda: expired.append(loop.time())).reset(timeout_ms=1000)
    loop.pass_time(5)
    assert expired == [1.0]


def test_reset_postpones_the_expiration(loop):
    expired = []
    timer = ExpirationTimer(loop, lambda: expired.append(loop.time()))
    for _ in range(3):
        timer.reset(timeout_ms=1000)
        loop.pass_time(0.75)
    loop.pass_time(5)
    assert expired == [2.5]


def test_repeated_resets_set_one_loop_timer(loop):
    counting = CountingLoop(loop)
    timer = ExpirationTimer(counting, lambda: None)
    for _ in range(1000):
        timer.reset(timeout_ms=1000)
    assert counting.count == 1
    timer.cancel()


def test_reset_to_an_earlier_time_expires_earlier(loop):
    expired = []
    timer = ExpirationTimer(loop, lambda: expired.append(loop.time()))
    timer.reset(timeout_ms=300_000)
    timer.reset(timeout_ms=1000)
    loop.pass_time(400)
    assert expired == [1.0]


def test_cancelled_timer_never_expires(loop):
    expired = []
    timer = ExpirationTimer(loop, lambda: expired.append(1))
    timer.reset(timeout_ms=1000)
    timer.cancel()
    assert not timer.is_scheduled
    loop.pass_time(5)
    assert expired == []


class BlockedLoop:
    """A loop that was blocked: its timers fire late."""

    def __init__(self):
        self.now = 0.0
        self.scheduled = []

    def time(self):
        return self.now

    def call_at(self, when, callback):
        self.scheduled.append((when, callback))
        return self

    def cancel(self): ...


def test_late_timer_grants_a_grace_period_for_queued_heartbeats():
    loop, expired = BlockedLoop(), []
    timer = ExpirationTimer(loop, lambda: expired.append(loop.now))
    timer.reset(timeout_ms=1000)
    loop.now = 9.0
    loop.scheduled.pop()[1]()
    assert expired == []
    when, fire = loop.scheduled.pop()
    loop.now = when
    fire()
    assert expired == [when]


def test_grace_period_is_granted_once():
    loop, expired = BlockedLoop(), []
    timer = ExpirationTimer(loop, lambda: expired.append(loop.now))
    timer.reset(timeout_ms=1000)
    loop.now = 9.0
    loop.scheduled.pop()[1]()
    loop.now = 20.0
    loop.scheduled.pop()[1]()
    assert expired == [20.0]
