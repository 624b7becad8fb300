"""When is what done to the logs?"""

import pytest

from odradek.broker.schedules import start_schedules
from odradek.broker.settings.dynamic import DynamicSettings
from odradek.broker.settings.sources import load

DAY_S = 86_400.0


class Noted:
    """Stands for the background: what would come round, and how often."""

    def __init__(self):
        self.intervals = {}

    def every(self, interval_s, job, *, name, first_after_s=None):
        self.intervals[name] = interval_s


class Care:
    """Whatever is done, it is not done here."""

    def __getattr__(self, name):
        return lambda: None


def intervals(*overrides):
    settings = load(file=None, environment={}, overrides=overrides)
    noted = Noted()
    start_schedules(noted, *[Care()] * 4, DynamicSettings(settings, broker_id=1))
    return {name: interval_s() for name, interval_s in noted.intervals.items()}


def test_checkpoints_are_written_as_often_as_the_most_frequent_of_them():
    assert intervals()["checkpoints"] == 5
    assert intervals("log.flush.offset.checkpoint.interval.ms=700")["checkpoints"] == 0.7


@pytest.mark.parametrize("text", ["0", "-1"])
def test_an_interval_of_0_or_less_comes_round_no_more_as_in_kafka(text):
    only = "replica.high.watermark.checkpoint.interval.ms"
    others = ("log.flush.offset", "log.flush.start.offset")
    settings = [f"{only}={text}", *(f"{each}.checkpoint.interval.ms=0" for each in others)]
    assert intervals(*settings)["checkpoints"] == DAY_S
    assert intervals(f"{only}={text}")["checkpoints"] == 60


def test_but_of_the_cleaner_it_is_a_pause():
    assert intervals("log.cleaner.backoff.ms=0")["compaction"] == 0


def test_transactions_are_looked_at_as_often_as_the_settings_say():
    assert intervals()["transaction timeouts"] == 10
    assert intervals()["transactional id expiry"] == 3600
    short = "transaction.abort.timed.out.transaction.cleanup.interval.ms=500"
    assert intervals(short)["transaction timeouts"] == 0.5


def test_laggards_are_looked_for_twice_as_often_as_one_may_lag():
    assert intervals()["in-sync replicas"] == 15
    assert intervals("replica.lag.time.max.ms=700")["in-sync replicas"] == 0.35
