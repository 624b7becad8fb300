"""The offsets of one group."""

from odradek.broker.groups.offsets import NO_EXPIRE_TIMESTAMP, GroupOffsets, OffsetAndMetadata

PARTITION, OTHER = ("events", 0), ("events", 1)


def commit(offset, *, record_offset):
    return OffsetAndMetadata(offset, -1, "", 1, NO_EXPIRE_TIMESTAMP, record_offset)


def test_later_commit_in_the_log_wins():
    offsets = GroupOffsets()
    offsets.commit(PARTITION, commit(7, record_offset=2))
    offsets.commit(PARTITION, commit(5, record_offset=1))
    assert offsets.committed[PARTITION].offset == 7


def test_pending_offset_counts_when_its_transaction_is_committed():
    offsets = GroupOffsets()
    offsets.commit(PARTITION, commit(5, record_offset=1))
    offsets.commit_pending(9, PARTITION, commit(8, record_offset=2))
    assert offsets.committed[PARTITION].offset == 5
    assert (offsets.is_pending(PARTITION), offsets.is_pending(OTHER)) == (True, False)
    offsets.complete_transaction(9, is_commit=True)
    assert offsets.committed[PARTITION].offset == 8
    assert not offsets.is_pending(PARTITION)


def test_aborted_pending_offset_is_dropped():
    offsets = GroupOffsets()
    offsets.commit_pending(9, PARTITION, commit(8, record_offset=2))
    offsets.complete_transaction(9, is_commit=False)
    assert offsets.is_empty


def test_later_plain_commit_wins_over_a_transactional_one():
    offsets = GroupOffsets()
    offsets.commit_pending(9, PARTITION, commit(8, record_offset=2))
    offsets.commit(PARTITION, commit(11, record_offset=3))
    offsets.complete_transaction(9, is_commit=True)
    assert offsets.committed[PARTITION].offset == 11


def test_each_transaction_completes_only_its_own_offsets():
    offsets = GroupOffsets()
    offsets.commit_pending(1, PARTITION, commit(8, record_offset=2))
    offsets.commit_pending(2, OTHER, commit(9, record_offset=3))
    offsets.complete_transaction(1, is_commit=True)
    assert set(offsets.committed) == {PARTITION}
    assert offsets.is_pending(OTHER)
    offsets.complete_transaction(3, is_commit=True)


def test_removed_offset_is_not_restored_by_a_transaction():
    offsets = GroupOffsets()
    offsets.commit(PARTITION, commit(5, record_offset=1))
    offsets.commit_pending(9, PARTITION, commit(8, record_offset=2))
    offsets.commit_pending(9, OTHER, commit(9, record_offset=3))
    offsets.remove(PARTITION)
    assert list(offsets.partitions()) == [OTHER]
    offsets.complete_transaction(9, is_commit=True)
    assert set(offsets.committed) == {OTHER}


def test_removing_all_offsets_removes_pending_ones():
    offsets = GroupOffsets()
    offsets.commit_pending(9, PARTITION, commit(8, record_offset=2))
    offsets.remove(PARTITION)
    assert offsets.is_empty
