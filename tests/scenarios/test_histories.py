"""The checker of histories finds each thing that a broker may never show, and nothing else."""

import pytest

from odradek.protocol.types import TopicPartition
from tests.support.histories import History, Kind, anomalies, check

HERE, THERE = TopicPartition("events", 0), TopicPartition("events", 1)
VALUES = (b"a", b"b", b"c")


@pytest.fixture
def history():
    """Three records, all of them acked and polled."""
    made = History()
    for offset, value in enumerate(VALUES):
        made.sent("producer", HERE, value)
        made.acked(HERE, offset, value)
        made.polled("consumer", HERE, offset, value)
    return made


def kinds(history, **idempotence):
    return [each.kind for each in anomalies(history, **idempotence)]


def test_a_history_of_a_sound_broker_is_in_order(history):
    check(history)


def test_what_was_not_acked_may_be_there_or_not(history):
    for value in (b"d", b"e"):
        history.sent("producer", HERE, value)
    history.polled("consumer", HERE, 3, b"d")
    check(history)


def test_an_acked_record_before_a_polled_one_is_lost_if_nobody_polled_it(history):
    history.acked(HERE, 3, b"d")
    history.polled("another", HERE, 4, b"e")
    assert kinds(history) == [Kind.LOST_WRITE]


def test_an_acked_record_that_nobody_polled_is_unseen(history):
    history.acked(HERE, 3, b"d")
    history.acked(THERE, 0, b"e")
    assert kinds(history) == [Kind.UNSEEN, Kind.UNSEEN]


def test_what_was_acked_without_its_place_has_to_be_polled_too(history):
    history.acked(HERE, None, b"a")
    check(history)
    history.acked(THERE, None, b"a")
    assert kinds(history) == [Kind.UNSEEN]


def test_a_value_at_two_offsets_is_a_duplicate(history):
    history.polled("consumer", HERE, 3, b"a")
    assert kinds(history) == [Kind.DUPLICATE]


def test_a_value_that_was_polled_elsewhere_than_it_was_acked_is_a_duplicate(history):
    history.sent("producer", THERE, b"d")
    history.acked(THERE, 0, b"d")
    history.polled("consumer", THERE, 1, b"d")
    assert kinds(history) == [Kind.LOST_WRITE, Kind.DUPLICATE]


def test_without_idempotence_a_value_may_be_at_two_offsets(history):
    history.polled("consumer", HERE, 3, b"a")
    assert kinds(history, is_idempotent=False) == []


@pytest.mark.parametrize("value", [b"d", None])
def test_an_offset_with_two_values_is_inconsistent(history, value):
    history.polled("another", HERE, 1, value)
    assert kinds(history) == [Kind.INCONSISTENT_OFFSETS]


def test_what_was_aborted_may_not_be_polled(history):
    history.aborted(b"b")
    assert kinds(history) == [Kind.ABORTED_READ]


def test_a_consumer_may_not_step_back(history):
    history.polled("consumer", HERE, 2, b"c")
    assert kinds(history) == [Kind.NONMONOTONIC_POLL]


def test_a_consumer_may_not_pass_over_what_another_has_polled(history):
    for offset in (0, 2):
        history.polled("another", HERE, offset, VALUES[offset])
    assert kinds(history) == [Kind.POLL_SKIP]


def test_a_consumer_may_pass_over_what_nobody_can_poll(history):
    history.polled("consumer", HERE, 7, b"h")
    check(history)


def test_a_consumer_may_pass_over_what_was_aborted(history):
    history.acked(HERE, 3, b"d")
    history.aborted(b"d")
    history.polled("consumer", HERE, 4, b"e")
    assert Kind.POLL_SKIP not in kinds(history)


def test_a_consumer_that_was_given_its_partitions_anew_may_begin_anywhere(history):
    history.reassigned("consumer")
    history.polled("consumer", HERE, 0, b"a")
    check(history)


def test_partitions_are_polled_one_beside_the_other(history):
    history.polled("consumer", THERE, 0, b"d")
    history.polled("consumer", HERE, 3, b"e")
    check(history)


def test_the_values_of_a_producer_are_in_the_order_of_sending(history):
    for offset, value in ((4, b"d"), (3, b"e")):
        history.sent("producer", HERE, value)
        history.acked(HERE, offset, value)
    for offset, value in ((3, b"e"), (4, b"d")):
        history.polled("consumer", HERE, offset, value)
    assert kinds(history) == [Kind.REORDERED]
    assert kinds(history, is_idempotent=False) == []


def test_what_is_wrong_is_told(history):
    history.acked(HERE, 3, b"d")
    with pytest.raises(AssertionError, match=r"unseen in .*b'd', acked at 3"):
        check(history)
