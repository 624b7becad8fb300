"""What a client may never be told of leaders and ends of logs is noticed."""

import pytest

from tests.support.leader_watch import Latest, LeaderWatch, Led


@pytest.fixture
def watch():
    """Of a topic that was led by 1 and then by 2."""
    made = LeaderWatch([], "events")
    for led, offset in ((Led(0, 1), 5), (Led(0, 1), 7), (Led(1, 2), 7)):
        made.leaders[0, led.epoch].add(led.leader)
        made.latest[0].append(Latest(offset, led))
    return made


def test_leaders_that_take_turns_are_in_order(watch):
    watch.check()


def test_two_leaders_in_one_epoch_are_noticed(watch):
    watch.leaders[0, 1].add(3)
    with pytest.raises(AssertionError, match="leaders by partition and epoch"):
        watch.check()


def test_an_end_before_one_told_earlier_is_noticed(watch):
    watch.latest[0].append(Latest(6, Led(1, 2)))
    with pytest.raises(AssertionError, match="offset=6"):
        watch.check()
