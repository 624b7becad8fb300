"""Tests of broker/groups/consumer/assignors.py."""

import pytest

from odradek.broker.groups.consumer.assignors import Assignors, assignors_of


def test_the_setting_may_name_kafkas_classes():
    setting = ("org.apache.kafka.coordinator.group.assignor.RangeAssignor", "uniform")
    assert assignors_of(setting).names == ("range", "uniform")


def test_an_assignor_that_there_is_not_is_refused():
    with pytest.raises(ValueError, match="round-robin is none of uniform, range"):
        assignors_of(("round-robin",))


def test_most_votes_win_and_the_default_where_there_are_none():
    assignors = Assignors()
    assert assignors.preferred([]) == "uniform"
    assert assignors.preferred(["range", None, None]) == "range"
    assert assignors.preferred(["range", "uniform"]) == "uniform"
    assert assignors.preferred(["unheard of"]) == "uniform"
