"""The checker of histories finds each thing that a broker may never show, and nothing else."""

import pytest

from odradek.protocol.types import TopicPartition
from tests.support.histories import History, Kind, anomalies, check

TOPIC = "events"
HERE, THERE = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)
VALUES = (b"a", b"b", b"c")


@pytest.fixture
def history():
    """Three records, all of them acked and polled."""
    made = History()
    for offset, value in enumerate(VALUES):
        written(made, offset, value)
        made.polled("consumer", HERE, offset, value)
    return made


def written(history, offset, value, partition=HERE):
    history.sent("producer", partition, value)
    history.acked(partition, offset, value)


def kinds(history, **idempotence):
    return [each.kind for each in anomalies(history, **idempotence)]


def reread(history, *offsets):
    """What somebody polls once more when all is over."""
    for offset in offsets:
        history.polled("late", HERE, offset, VALUES[offset])
    history.final("late", TOPIC)


# For each kind: what a broker may never show, and what is almost the same and may be shown.


def lost_write(history, is_bad):
    written(history, 3, b"d")
    if not is_bad:
        history.polled("consumer", HERE, 3, b"d")
    history.sent("producer", HERE, b"e")
    history.polled("consumer" if not is_bad else "another", HERE, 4, b"e")


def unseen(history, is_bad):
    """Whoever polled it before, the last record is gone in the end."""
    reread(history, 0, 1, *([] if is_bad else [2]))


def duplicate(history, is_bad):
    history.sent("producer", HERE, b"d")
    history.polled("consumer", HERE, 3, b"a" if is_bad else b"d")


def inconsistent_offsets(history, is_bad):
    history.sent("another", HERE, b"d")
    history.polled("another", HERE, 1, b"d" if is_bad else b"b")


def aborted_read(history, is_bad):
    written(history, 3, b"d")
    history.aborted(b"d")
    if is_bad:
        history.polled("consumer", HERE, 3, b"d")


def circular_flow(history, is_bad):
    """Two transactions, one of which polled what the other one sent; or each did."""
    history.sent_in("first", b"b")
    history.sent_in("second", b"c")
    history.polled("of the second", HERE, 1, b"b", "second")
    if is_bad:
        history.polled("of the first", HERE, 2, b"c", "first")


def precommitted_read(history, is_bad):
    history.sent_in("first", b"b")
    history.polled("of it", HERE, 1, b"b", "first" if is_bad else "second")


def nonmonotonic_poll(history, is_bad):
    """Two transactions of one consumer; or one that was told to begin there again."""
    history.polled("another", HERE, 1, b"b", "first")
    if not is_bad:
        history.began("another", HERE, 1)
    history.polled("another", HERE, 1, b"b", "second")


def poll_skip(history, is_bad):
    for offset in (0, 2) if is_bad else (0, 1, 2):
        history.polled("another", HERE, offset, VALUES[offset], f"{offset}")


def internal_nonmonotonic_poll(history, is_bad):
    for offset in (0, 1, 0) if is_bad else (0, 1):
        history.polled("another", HERE, offset, VALUES[offset], "first")


def internal_poll_skip(history, is_bad):
    for offset in (0, 2) if is_bad else (1, 2):
        history.polled("another", HERE, offset, VALUES[offset], "first")


def reordered(history, is_bad):
    offsets = {b"d": 4, b"e": 3} if is_bad else {b"d": 3, b"e": 4}
    for value, offset in offsets.items():
        written(history, offset, value)
    for value in sorted(offsets, key=offsets.get):
        history.polled("consumer", HERE, offsets[value], value)


def never_sent(history, is_bad):
    if not is_bad:
        history.sent("producer", HERE, b"d")
    history.polled("consumer", HERE, 3, b"d")


def wrong_partition(history, is_bad):
    history.sent("producer", THERE if is_bad else HERE, b"d")
    history.polled("consumer", HERE, 3, b"d")


SHOWN = [
    lost_write,
    unseen,
    duplicate,
    inconsistent_offsets,
    aborted_read,
    circular_flow,
    precommitted_read,
    nonmonotonic_poll,
    poll_skip,
    internal_nonmonotonic_poll,
    internal_poll_skip,
    reordered,
    never_sent,
    wrong_partition,
]


def test_there_is_a_bad_history_of_each_kind():
    assert {each.__name__.upper() for each in SHOWN} == set(Kind.__members__)


@pytest.mark.parametrize("show", SHOWN)
def test_what_may_never_be_shown_is_found_by_its_name_alone(history, show):
    show(history, is_bad=True)
    assert kinds(history) == [Kind[show.__name__.upper()]]


@pytest.mark.parametrize("show", SHOWN)
def test_what_is_almost_the_same_and_may_be_shown_is_in_order(history, show):
    show(history, is_bad=False)
    assert kinds(history) == []


def test_a_history_of_a_sound_broker_is_in_order(history):
    reread(history, 0, 1, 2)
    check(history)


def test_a_history_that_nobody_has_read_again_in_the_end_is_not_taken_for_sound(history):
    with pytest.raises(AssertionError, match="nobody has read again"):
        check(history)
    history.final("late", "another")
    with pytest.raises(AssertionError, match=r"nobody has read {'events'} again"):
        check(history)


def test_what_was_not_acked_may_be_there_or_not(history):
    for value in (b"d", b"e"):
        history.sent("producer", HERE, value)
    history.polled("consumer", HERE, 3, b"d")
    assert kinds(history) == []


def test_what_was_polled_once_is_to_be_there_in_the_end_though_it_was_not_acked(history):
    history.sent("producer", HERE, b"d")
    history.polled("consumer", HERE, 3, b"d")
    reread(history, 0, 1, 2)
    assert kinds(history) == [Kind.UNSEEN]


def test_what_is_gone_from_the_start_of_the_log_is_unseen_in_the_end(history):
    reread(history, 2)
    assert kinds(history) == [Kind.UNSEEN, Kind.UNSEEN]


def test_unless_it_was_deleted(history):
    history.starts_at(HERE, 2)
    reread(history, 2)
    check(history)


def test_what_was_deleted_before_anybody_polled_it_is_not_lost(history):
    written(history, 0, b"d", THERE)
    history.starts_at(THERE, 1)
    assert kinds(history) == []


def test_each_of_those_who_poll_in_the_end_has_to_see_all(history):
    reread(history, 0, 1, 2)
    history.final("another", TOPIC)
    assert kinds(history) == [Kind.UNSEEN] * 3


def test_an_acked_record_that_nobody_polled_is_unseen(history):
    history.acked(HERE, 3, b"d")
    history.acked(THERE, 0, b"e")
    assert kinds(history) == [Kind.UNSEEN, Kind.UNSEEN]


def test_what_was_acked_without_its_place_has_to_be_polled_too(history):
    history.acked(HERE, None, b"a")
    assert kinds(history) == []
    history.acked(THERE, None, b"a")
    assert kinds(history) == [Kind.UNSEEN]


def test_a_value_that_was_polled_elsewhere_than_it_was_acked_is_a_duplicate(history):
    history.sent("producer", THERE, b"d")
    history.acked(THERE, 0, b"d")
    history.polled("consumer", THERE, 1, b"d")
    assert kinds(history) == [Kind.LOST_WRITE, Kind.DUPLICATE]


def test_without_idempotence_a_value_may_be_at_two_offsets(history):
    history.polled("consumer", HERE, 3, b"a")
    assert kinds(history, is_idempotent=False) == []


def test_a_value_that_is_null_in_place_of_another_is_inconsistent(history):
    history.polled("another", HERE, 1, None)
    assert kinds(history) == [Kind.INCONSISTENT_OFFSETS, Kind.NEVER_SENT]


def test_a_consumer_may_pass_over_what_nobody_can_poll(history):
    history.sent("producer", HERE, b"h")
    history.polled("consumer", HERE, 7, b"h")
    assert kinds(history) == []


def test_a_consumer_may_pass_over_what_was_aborted(history):
    written(history, 3, b"d")
    history.aborted(b"d")
    history.sent("producer", HERE, b"e")
    history.polled("consumer", HERE, 4, b"e")
    assert kinds(history) == []


@pytest.mark.parametrize(("start", "found"), [(1, [Kind.POLL_SKIP]), (2, [])])
def test_a_consumer_may_not_pass_over_the_first_that_it_was_to_poll(history, start, found):
    history.began("another", HERE, start)
    history.polled("another", HERE, 2, b"c")
    assert kinds(history) == found


def test_a_consumer_may_not_begin_before_where_it_was_to(history):
    history.began("another", HERE, 2)
    history.polled("another", HERE, 1, b"b")
    assert kinds(history) == [Kind.NONMONOTONIC_POLL]


def test_a_consumer_that_was_given_its_partitions_anew_may_begin_anywhere(history):
    history.reassigned("consumer")
    history.polled("consumer", HERE, 0, b"a")
    assert kinds(history) == []


def test_partitions_are_polled_one_beside_the_other(history):
    for partition, offset, value in ((THERE, 0, b"d"), (HERE, 3, b"e")):
        history.sent("producer", partition, value)
        history.polled("consumer", partition, offset, value)
    assert kinds(history) == []


def test_without_idempotence_values_need_not_be_in_the_order_of_sending(history):
    reordered(history, is_bad=True)
    assert kinds(history, is_idempotent=False) == []


def test_what_was_sent_beside_all_others_may_be_there_more_than_once(history):
    history.sent_beside(HERE, b"d")
    for offset in (3, 4):
        history.polled("consumer", HERE, offset, b"d")
    assert kinds(history) == []
    history.polled("consumer", THERE, 0, b"d")
    assert kinds(history) == [Kind.WRONG_PARTITION]


def test_transactions_may_poll_what_one_another_sent_in_a_row(history):
    """Or the same from several."""
    for number, value in enumerate(VALUES):
        history.sent_in(f"{number}", value)
        for sender in range(number):
            history.polled(f"by {number}", HERE, sender, VALUES[sender], f"{number}")
    assert kinds(history) == []


def test_what_is_wrong_is_told(history):
    written(history, 3, b"d")
    reread(history, 0, 1, 2)
    with pytest.raises(AssertionError, match=r"unseen in .*b'd', acked at 3"):
        check(history)
