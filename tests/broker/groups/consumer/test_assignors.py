"""Tests of broker/groups/consumer/assignors.py."""

import pytest

from odradek.broker.groups.consumer.assignors import Assignors, parse_assignors


def test_setting_accepts_kafka_class_names():
    setting = ("org.apache.kafka.coordinator.group.assignor.RangeAssignor", "uniform")
    assert parse_assignors(setting).names == ("range", "uniform")


def test_unknown_assignor_is_rejected():
    with pytest.raises(ValueError, match="round-robin: must be one of uniform, range"):
        parse_assignors(("round-robin",))


def test_assignor_with_most_votes_wins_and_the_default_without_votes():
    assignors = Assignors()
    assert assignors.preferred([]) == "uniform"
    assert assignors.preferred(["range", None, None]) == "range"
    assert assignors.preferred(["range", "uniform"]) == "uniform"
    assert assignors.preferred(["unheard of"]) == "uniform"
