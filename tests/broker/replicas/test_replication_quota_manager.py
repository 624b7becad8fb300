"""How fast replicas are copied: rates, which replicas they are for, and where they are changed."""

import pytest

from odradek.broker.replicas.throttles import Rate, ReplicationThrottles, Throttle
from odradek.broker.settings.dynamic import DynamicSettings
from odradek.broker.settings.server_settings import ServerSettings
from odradek.config.definition import Layer
from odradek.controller.store import paths
from odradek.protocol.types import TopicPartition

FILE = {"log.dirs": "somewhere", "broker.id": "1"}


class Clock:
    """In seconds."""

    now_s = 100.0

    def rate(self, limit, **options):
        rate = Rate(**{"windows": 11, "window_s": 1, **options}, now_s=lambda: self.now_s)
        rate.limit = limit
        return rate


def test_a_rate_is_that_of_one_window_at_least():
    clock = Clock()
    rate = clock.rate(1000)
    rate.record(1000)
    assert not rate.is_exceeded
    rate.record(1)
    assert rate.is_exceeded
    clock.now_s += 1.002
    assert not rate.is_exceeded


def test_what_was_too_much_is_waited_for():
    clock = Clock()
    rate = clock.rate(1000)
    rate.record(5000)
    assert rate.rest_s == pytest.approx(5)
    clock.now_s += 3
    assert rate.rest_s == pytest.approx(2)
    clock.now_s += 2.001
    assert rate.rest_s == 0


def test_what_is_long_ago_does_not_count():
    clock = Clock()
    rate = clock.rate(100)
    rate.record(1_000_000)
    clock.now_s += 10.9
    rate.record(1)
    assert rate.is_exceeded
    clock.now_s += 0.2
    assert not rate.is_exceeded


def test_a_long_copy_keeps_to_the_rate():
    clock = Clock()
    rate = clock.rate(1000)
    copied = 0
    while clock.now_s < 200:
        if not rate.is_exceeded:
            rate.record(300)
            copied += 300
        clock.now_s += 0.05
    assert 0.95 <= copied / 100 / 1000 <= 1.05


def test_a_rate_of_zero_lets_something_pass_once_in_a_while():
    clock = Clock()
    rate = clock.rate(0)
    assert not rate.is_exceeded
    rate.record(1)
    assert rate.rest_s == pytest.approx(11)
    clock.now_s += 11
    assert not rate.is_exceeded


@pytest.mark.parametrize(
    ("replicas", "throttled"),
    [((), []), (("*",), [0, 1, 2]), (("0:1", "1:2", "2:1"), [0, 2]), (("",), [])],
)
def test_replicas_are_named_by_partition_and_broker(replicas, throttled):
    throttle = Throttle(Clock().rate(0))
    throttle.configure("events", replicas, broker_id=1)
    throttle.rate.record(1)
    held_up = [each for each in range(3) if throttle.holds_up(TopicPartition("events", each))]
    assert held_up == throttled
    assert not throttle.holds_up(TopicPartition("others", 0))


def test_what_is_not_throttled_does_not_count():
    throttle = Throttle(Clock().rate(10))
    throttle.record(TopicPartition("events", 0), 100)
    throttle.configure("events", ("0:1",), broker_id=1)
    throttle.record(TopicPartition("events", 1), 100)
    assert not throttle.rate.is_exceeded
    throttle.record(TopicPartition("events", 0), 100)
    assert throttle.rate.is_exceeded


async def test_rates_and_replicas_change_at_run_time():
    settings = DynamicSettings(ServerSettings.read({Layer.FILE: FILE}), broker_id=1)
    await settings.take(paths.topic_config("early"), {"leader.replication.throttled.replicas": "*"})
    throttles = ReplicationThrottles.following(settings, broker_id=1)
    assert throttles.leader.covers(TopicPartition("early", 7))
    await settings.take(
        paths.topic_config("events"), {"follower.replication.throttled.replicas": "3:1,4:2"}
    )
    assert throttles.follower.covers(TopicPartition("events", 3))
    assert not throttles.follower.covers(TopicPartition("events", 4))
    assert not throttles.leader.covers(TopicPartition("events", 3))
    rates = {
        "leader.replication.throttled.rate": "10",
        "follower.replication.throttled.rate": "20",
        "replica.alter.log.dirs.io.max.bytes.per.second": "30",
    }
    await settings.take(paths.broker_config(None), rates)
    await settings.take(paths.broker_config(1), {"leader.replication.throttled.rate": "11"})
    in_force = (throttles.leader.rate.limit, throttles.follower.rate.limit, throttles.moves.limit)
    assert in_force == (11, 20, 30)
    await settings.take(paths.broker_config(None), {})
    await settings.take(paths.topic_config("events"), {})
    assert throttles.follower.rate.limit == 2**63 - 1
    assert not throttles.follower.covers(TopicPartition("events", 3))


def test_a_file_has_no_rates():
    written = {**FILE, "leader.replication.throttled.rate": "10"}
    settings = ServerSettings.read({Layer.FILE: written})
    assert settings.quotas.leader_rate == 2**63 - 1
