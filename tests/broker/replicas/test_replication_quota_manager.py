"""Replication quotas: rates, the throttled replicas, and changes at run time."""

import pytest

from odradek.broker.replicas.replication_quota_manager import (
    RateQuota,
    ReplicationQuotaManager,
    ReplicationQuotaManagers,
)
from odradek.broker.settings.dynamic_settings import DynamicSettings
from odradek.broker.settings.server_settings import ServerSettings
from odradek.config.definition import ConfigSource
from odradek.controller.store import paths
from odradek.protocol.types import TopicPartition

FILE = {"log.dirs": "somewhere", "broker.id": "1"}


class Clock:
    """A clock in seconds."""

    now_s = 100.0

    def rate(self, limit, **options):
        rate = RateQuota(**{"windows": 11, "window_s": 1, **options}, now_s=lambda: self.now_s)
        rate.limit = limit
        return rate


def test_rate_is_measured_over_at_least_one_window():
    clock = Clock()
    rate = clock.rate(1000)
    rate.record(1000)
    assert not rate.is_exceeded
    rate.record(1)
    assert rate.is_exceeded
    clock.now_s += 1.002
    assert not rate.is_exceeded


def test_throttle_time_covers_the_excess():
    clock = Clock()
    rate = clock.rate(1000)
    rate.record(5000)
    assert rate.throttle_time_s == pytest.approx(5)
    clock.now_s += 3
    assert rate.throttle_time_s == pytest.approx(2)
    clock.now_s += 2.001
    assert rate.throttle_time_s == 0


def test_old_samples_do_not_count():
    clock = Clock()
    rate = clock.rate(100)
    rate.record(1_000_000)
    clock.now_s += 10.9
    rate.record(1)
    assert rate.is_exceeded
    clock.now_s += 0.2
    assert not rate.is_exceeded


def test_long_copy_keeps_to_the_quota():
    clock = Clock()
    rate = clock.rate(1000)
    copied = 0
    while clock.now_s < 200:
        if not rate.is_exceeded:
            rate.record(300)
            copied += 300
        clock.now_s += 0.05
    assert 0.95 <= copied / 100 / 1000 <= 1.05


def test_quota_of_zero_admits_one_sample_per_period():
    clock = Clock()
    rate = clock.rate(0)
    assert not rate.is_exceeded
    rate.record(1)
    assert rate.throttle_time_s == pytest.approx(11)
    clock.now_s += 11
    assert not rate.is_exceeded


@pytest.mark.parametrize(
    ("replicas", "throttled"),
    [((), []), (("*",), [0, 1, 2]), (("0:1", "1:2", "2:1"), [0, 2]), (("",), [])],
)
def test_throttled_replicas_are_matched_by_partition_and_broker(replicas, throttled):
    throttle = ReplicationQuotaManager(Clock().rate(0))
    throttle.configure("events", replicas, broker_id=1)
    throttle.rate.record(1)
    throttled_partitions = [
        partition
        for partition in range(3)
        if throttle.should_throttle(TopicPartition("events", partition))
    ]
    assert throttled_partitions == throttled
    assert not throttle.should_throttle(TopicPartition("others", 0))


def test_unthrottled_replicas_do_not_count():
    throttle = ReplicationQuotaManager(Clock().rate(10))
    throttle.record(TopicPartition("events", 0), 100)
    throttle.configure("events", ("0:1",), broker_id=1)
    throttle.record(TopicPartition("events", 1), 100)
    assert not throttle.rate.is_exceeded
    throttle.record(TopicPartition("events", 0), 100)
    assert throttle.rate.is_exceeded


async def test_quotas_and_throttled_replicas_change_at_run_time():
    settings = DynamicSettings(ServerSettings.read({ConfigSource.FILE: FILE}), broker_id=1)
    await settings.apply_config(
        paths.topic_config("early"), {"leader.replication.throttled.replicas": "*"}
    )
    throttles = ReplicationQuotaManagers.from_dynamic_settings(settings, broker_id=1)
    assert throttles.leader.is_throttled(TopicPartition("early", 7))
    await settings.apply_config(
        paths.topic_config("events"), {"follower.replication.throttled.replicas": "3:1,4:2"}
    )
    assert throttles.follower.is_throttled(TopicPartition("events", 3))
    assert not throttles.follower.is_throttled(TopicPartition("events", 4))
    assert not throttles.leader.is_throttled(TopicPartition("events", 3))
    rates = {
        "leader.replication.throttled.rate": "10",
        "follower.replication.throttled.rate": "20",
        "replica.alter.log.dirs.io.max.bytes.per.second": "30",
    }
    await settings.apply_config(paths.broker_config(None), rates)
    await settings.apply_config(paths.broker_config(1), {"leader.replication.throttled.rate": "11"})
    limits = (
        throttles.leader.rate.limit,
        throttles.follower.rate.limit,
        throttles.alter_log_dirs.limit,
    )
    assert limits == (11, 20, 30)
    await settings.apply_config(paths.broker_config(None), {})
    await settings.apply_config(paths.topic_config("events"), {})
    assert throttles.follower.rate.limit == 2**63 - 1
    assert not throttles.follower.is_throttled(TopicPartition("events", 3))


def test_quota_in_the_properties_file_is_ignored():
    file_settings = {**FILE, "leader.replication.throttled.rate": "10"}
    settings = ServerSettings.read({ConfigSource.FILE: file_settings})
    assert settings.quotas.leader_rate == 2**63 - 1
