"""The offsets of one group id."""

from odradek.broker.groups.offsets import NEVER, Commit, GroupOffsets

PLACE, OTHER = ("events", 0), ("events", 1)


def commit(offset, *, at):
    return Commit(offset, -1, "", 1, NEVER, at)


def test_of_two_commits_the_later_in_the_log_counts():
    offsets = GroupOffsets()
    offsets.commit(PLACE, commit(7, at=2))
    offsets.commit(PLACE, commit(5, at=1))
    assert offsets.committed[PLACE].offset == 7


def test_what_is_pending_does_not_count_before_its_transaction_is_committed():
    offsets = GroupOffsets()
    offsets.commit(PLACE, commit(5, at=1))
    offsets.commit_pending(9, PLACE, commit(8, at=2))
    assert offsets.committed[PLACE].offset == 5
    assert (offsets.is_pending(PLACE), offsets.is_pending(OTHER)) == (True, False)
    offsets.complete(9, is_commit=True)
    assert offsets.committed[PLACE].offset == 8
    assert not offsets.is_pending(PLACE)


def test_nor_ever_if_it_is_aborted():
    offsets = GroupOffsets()
    offsets.commit_pending(9, PLACE, commit(8, at=2))
    offsets.complete(9, is_commit=False)
    assert offsets.is_empty


def test_a_plain_commit_that_came_later_stays_when_the_transaction_is_committed():
    offsets = GroupOffsets()
    offsets.commit_pending(9, PLACE, commit(8, at=2))
    offsets.commit(PLACE, commit(11, at=3))
    offsets.complete(9, is_commit=True)
    assert offsets.committed[PLACE].offset == 11


def test_each_producer_completes_its_own():
    offsets = GroupOffsets()
    offsets.commit_pending(1, PLACE, commit(8, at=2))
    offsets.commit_pending(2, OTHER, commit(9, at=3))
    offsets.complete(1, is_commit=True)
    assert set(offsets.committed) == {PLACE}
    assert offsets.is_pending(OTHER)
    offsets.complete(3, is_commit=True)


def test_what_is_forgotten_does_not_come_back_by_a_transaction():
    offsets = GroupOffsets()
    offsets.commit(PLACE, commit(5, at=1))
    offsets.commit_pending(9, PLACE, commit(8, at=2))
    offsets.commit_pending(9, OTHER, commit(9, at=3))
    offsets.forget(PLACE)
    assert list(offsets.places()) == [OTHER]
    offsets.complete(9, is_commit=True)
    assert set(offsets.committed) == {OTHER}


def test_where_all_is_forgotten_nothing_is_pending():
    offsets = GroupOffsets()
    offsets.commit_pending(9, PLACE, commit(8, at=2))
    offsets.forget(PLACE)
    assert offsets.is_empty
