"""A moment that keeps being put off."""

import pytest

from odradek.broker.groups.deadline import Deadline
from tests.support.virtual_loop import VirtualLoop


@pytest.fixture
def loop():
    loop = VirtualLoop()
    yield loop
    loop.close()


class Counted:
    """How often timers were set."""

    def __init__(self, loop):
        self.loop = loop
        self.count = 0

    def time(self):
        return self.loop.time()

    def call_at(self, when, callback):
        self.count += 1
        return self.loop.call_at(when, callback)


def test_it_passes_once(loop):
    passed = []
    Deadline(loop, lambda: passed.append(loop.time())).put_off(by_ms=1000)
    loop.pass_time(5)
    assert passed == [1.0]


def test_it_passes_as_long_after_it_was_last_put_off(loop):
    passed = []
    deadline = Deadline(loop, lambda: passed.append(loop.time()))
    for _ in range(3):
        deadline.put_off(by_ms=1000)
        loop.pass_time(0.75)
    loop.pass_time(5)
    assert passed == [2.5]


def test_putting_it_off_sets_no_timer(loop):
    timers = Counted(loop)
    deadline = Deadline(timers, lambda: None)
    for _ in range(1000):
        deadline.put_off(by_ms=1000)
    assert timers.count == 1
    deadline.call_off()


def test_it_may_come_sooner_than_it_was(loop):
    passed = []
    deadline = Deadline(loop, lambda: passed.append(loop.time()))
    deadline.put_off(by_ms=300_000)
    deadline.put_off(by_ms=1000)
    loop.pass_time(400)
    assert passed == [1.0]


def test_what_was_called_off_never_comes(loop):
    passed = []
    deadline = Deadline(loop, lambda: passed.append(1))
    deadline.put_off(by_ms=1000)
    deadline.call_off()
    assert not deadline.is_set
    loop.pass_time(5)
    assert passed == []


class HeldUp:
    """A loop that was held up: its timers ring late."""

    def __init__(self):
        self.now = 0.0
        self.set = []

    def time(self):
        return self.now

    def call_at(self, when, callback):
        self.set.append((when, callback))
        return self

    def cancel(self): ...


def test_when_everything_was_held_up_heartbeats_have_a_moment_to_be_heard():
    timers, passed = HeldUp(), []
    deadline = Deadline(timers, lambda: passed.append(timers.now))
    deadline.put_off(by_ms=1000)
    timers.now = 9.0
    timers.set.pop()[1]()
    assert passed == []
    when, ring = timers.set.pop()
    timers.now = when
    ring()
    assert passed == [when]


def test_but_only_one():
    timers, passed = HeldUp(), []
    deadline = Deadline(timers, lambda: passed.append(timers.now))
    deadline.put_off(by_ms=1000)
    timers.now = 9.0
    timers.set.pop()[1]()
    timers.now = 20.0
    timers.set.pop()[1]()
    assert passed == [20.0]
