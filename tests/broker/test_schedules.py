"""The intervals of the periodic tasks of a broker."""

import pytest

from odradek.broker.schedules import start_schedules
from odradek.broker.settings.dynamic_settings import DynamicSettings
from odradek.broker.settings.sources import load

DAY_S = 86_400.0


class FakeRegistry:
    """Records the interval of each task instead of running it."""

    def __init__(self):
        self.intervals = {}

    def schedule(self, interval_s, job, *, name, initial_delay_s=None):
        self.intervals[name] = interval_s


class FakeMaintenance:
    """Has every method and does nothing."""

    def __getattr__(self, name):
        return lambda: None


def intervals(*overrides):
    settings = load(file=None, environment={}, overrides=overrides)
    registry = FakeRegistry()
    start_schedules(registry, *[FakeMaintenance()] * 4, DynamicSettings(settings, broker_id=1))
    return {name: interval_s() for name, interval_s in registry.intervals.items()}


def test_checkpoints_are_written_at_the_shortest_of_their_intervals():
    assert intervals()["checkpoints"] == 5
    assert intervals("log.flush.offset.checkpoint.interval.ms=700")["checkpoints"] == 0.7


@pytest.mark.parametrize("text", ["0", "-1"])
def test_interval_of_zero_or_less_is_never_as_in_kafka(text):
    only = "replica.high.watermark.checkpoint.interval.ms"
    others = ("log.flush.offset", "log.flush.start.offset")
    settings = [f"{only}={text}", *(f"{prefix}.checkpoint.interval.ms=0" for prefix in others)]
    assert intervals(*settings)["checkpoints"] == DAY_S
    assert intervals(f"{only}={text}")["checkpoints"] == 60


def test_cleaner_backoff_of_zero_is_no_pause():
    assert intervals("log.cleaner.backoff.ms=0")["compaction"] == 0


def test_transaction_tasks_run_at_the_configured_intervals():
    assert intervals()["transaction timeouts"] == 10
    assert intervals()["transactional id expiry"] == 3600
    short = "transaction.abort.timed.out.transaction.cleanup.interval.ms=500"
    assert intervals(short)["transaction timeouts"] == 0.5


def test_isr_is_checked_at_half_of_the_maximum_lag():
    assert intervals()["in-sync replicas"] == 15
    assert intervals("replica.lag.time.max.ms=700")["in-sync replicas"] == 0.35
