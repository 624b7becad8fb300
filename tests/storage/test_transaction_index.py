"""Which transactions were aborted."""

import pytest

from odradek.storage.transaction_index import AbortedTransaction, TransactionIndex

# The second began before the first and was still open when the first ended.
FIRST = AbortedTransaction(producer_id=1, first_offset=5, last_offset=10, last_stable_offset=3)
SECOND = AbortedTransaction(producer_id=2, first_offset=3, last_offset=20, last_stable_offset=21)


@pytest.fixture
def index(tmp_path):
    return TransactionIndex(tmp_path / "00000000000000000000.txnindex")


def test_there_is_no_file_before_the_first_abort(index):
    assert index.entries == []
    assert not index.path.exists()


def test_an_entry_has_34_bytes(index):
    index.append(FIRST)
    assert index.path.read_bytes() == bytes.fromhex(
        "0000 0000000000000001 0000000000000005 000000000000000a 0000000000000003"
    )


def test_entries_are_read_back(index):
    index.append(FIRST)
    index.append(SECOND)
    assert TransactionIndex(index.path).entries == [FIRST, SECOND]


def test_a_fetch_is_told_of_what_reaches_into_its_range(index):
    index.append(FIRST)
    index.append(SECOND)
    assert index.overlapping(start=0, end=3).transactions == []
    assert index.overlapping(start=0, end=4).transactions == [SECOND]
    assert index.overlapping(start=10, end=12).transactions == [FIRST, SECOND]
    assert index.overlapping(start=11, end=12).transactions == [SECOND]
    assert index.overlapping(start=21, end=30).transactions == []


def test_the_search_ends_where_nothing_later_can_reach_back(index):
    index.append(FIRST)
    assert index.overlapping(start=0, end=3).is_complete
    assert not index.overlapping(start=0, end=4).is_complete


def test_truncating_forgets_what_ended_at_or_after_the_offset(index):
    index.append(FIRST)
    index.append(SECOND)
    index.truncate(20)
    assert TransactionIndex(index.path).entries == [FIRST]


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:-1],
        lambda content: b"\x00\x01" + content[2:],
        lambda content: content[:10] + b"\x7f" + content[11:],
        lambda content: content + content,
        lambda content: content[:10] + content[18:26] + content[10:18] + content[26:],
    ],
)
def test_what_makes_no_sense_is_not_sound(index, damage):
    index.append(FIRST)
    assert TransactionIndex(index.path).is_sound(base_offset=0)
    index.path.write_bytes(damage(index.path.read_bytes()))
    assert not TransactionIndex(index.path).is_sound(base_offset=0)
