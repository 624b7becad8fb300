"""LogSegments: the ordered segments of a log."""

import pytest

from odradek.storage.log_segment import LogSegment, SegmentConfig
from odradek.storage.log_segments import LogSegments
from odradek.storage.transaction_index import AbortedTxn


def bases(segments):
    return [segment.base_offset for segment in segments]


@pytest.fixture
def at(tmp_path):
    return lambda base_offset: LogSegment(tmp_path, base_offset, SegmentConfig())


@pytest.fixture
def three(at):
    return LogSegments([at(30), at(10), at(20)])


def test_segments_are_ordered_by_base_offset(three):
    assert bases(three) == [10, 20, 30]
    assert bases(reversed(three)) == [30, 20, 10]
    assert len(three) == 3
    assert (three.first.base_offset, three.active.base_offset) == (10, 30)


@pytest.mark.parametrize(
    ("offset", "base_offset"), [(10, 10), (19, 10), (20, 20), (29, 20), (30, 30), (10**18, 30)]
)
def test_floor_segment_is_the_last_one_that_begins_at_or_before_the_offset(
    three, offset, base_offset
):
    assert three.floor_segment(offset).base_offset == base_offset


def test_floor_segment_before_the_first_is_none(three):
    assert three.floor_segment(9) is None
    assert LogSegments().floor_segment(0) is None


def test_get_finds_a_segment_only_by_its_base_offset(three):
    assert three.get(20).base_offset == 20
    assert [three.get(offset) for offset in (9, 21, 31)] == [None, None, None]


def test_higher_segment_of_the_active_one_is_none(three):
    assert three.higher_segment(three.first).base_offset == 20
    assert three.higher_segment(three.active) is None


def test_higher_segment_of_a_removed_one_is_the_next_remaining(three):
    middle = three.get(20)
    three.remove([middle])
    assert three.higher_segment(middle).base_offset == 30


@pytest.mark.parametrize(
    ("offset", "expected"), [(0, [10, 20, 30]), (15, [10, 20, 30]), (20, [20, 30]), (99, [30])]
)
def test_from_offset_starts_with_the_segment_that_holds_it(three, offset, expected):
    assert bases(three.from_offset(offset)) == expected
    assert LogSegments().from_offset(offset) == []


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (0, 10, []),
        (0, 11, [10]),
        (10, 20, [10]),
        (15, 21, [10, 20]),
        (20, 30, [20]),
        (29, 99, [20, 30]),
        (99, 100, [30]),
        (20, 20, []),
    ],
)
def test_between_returns_segments_that_may_hold_an_offset_of_the_range(three, start, end, expected):
    assert bases(three.between(start, end)) == expected


def test_added_segment_becomes_active(three, at):
    three.add(at(40))
    assert three.active.base_offset == 40
    with pytest.raises(AssertionError):
        three.add(at(40))


def test_segments_can_be_removed_at_both_ends(three):
    three.remove([three.first, three.active])
    assert bases(three) == [20]
    assert three.first is three.active


def test_replace_puts_one_segment_in_place_of_several(three, at):
    old = [three.get(10), three.get(20)]
    merged = at(10)
    three.replace(old, [merged])
    assert bases(three) == [10, 30]
    assert three.floor_segment(25) is merged


def test_returned_list_does_not_change_with_the_segments(three):
    returned = three.from_offset(0)
    three.remove([three.first])
    assert bases(returned) == [10, 20, 30]


def test_size_is_the_sum_of_all_segments(three):
    for segment in three:
        segment.size_bytes = segment.base_offset
    assert three.size_bytes == 60
    assert LogSegments().size_bytes == 0


# Aborted transactions


def abort_in(segment):
    offset = segment.base_offset
    segment.transaction_index.append(AbortedTxn(1, offset, offset + 1, offset + 2))


def test_only_segments_with_aborted_transactions_are_returned(three):
    abort_in(three.get(10))
    abort_in(three.get(30))
    assert (
        bases(three.with_aborted_txns_from(0))
        == bases(three.with_aborted_txns_from(19))
        == [10, 30]
    )
    assert bases(three.with_aborted_txns_from(20)) == [30]


def test_later_abort_is_found_before_and_after_its_segment_is_sealed(three, at):
    assert bases(three.with_aborted_txns_from(0)) == []
    abort_in(three.active)
    assert bases(three.with_aborted_txns_from(0)) == [30]
    three.add(at(40))
    assert bases(three.with_aborted_txns_from(0)) == [30]


def test_replaced_segments_are_checked_again(three, at):
    abort_in(three.get(20))
    assert bases(three.with_aborted_txns_from(0)) == [20]
    three.get(20).transaction_index.reset()
    abort_in(at(10))
    three.replace([three.get(10), three.get(20)], [at(10)])
    assert bases(three.with_aborted_txns_from(0)) == [10]


def test_segment_whose_transaction_index_was_not_read_is_checked(at):
    abort_in(at(10))
    assert bases(LogSegments([at(10), at(20)]).with_aborted_txns_from(0)) == [10]
