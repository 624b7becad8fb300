"""The transaction index holds the aborted transactions of a segment."""

import pytest

from odradek.storage.log_loader import LogLoadReport
from odradek.storage.paths import LogFileType
from odradek.storage.transaction_index import ENTRY, AbortedTxn, TransactionIndex
from tests.support.logs import NOW_MS, append, batches_from, end_transaction, opened
from tests.support.read_committed import read_committed

# The second began before the first and was still open when the first ended.
FIRST = AbortedTxn(producer_id=1, first_offset=5, last_offset=10, last_stable_offset=3)
SECOND = AbortedTxn(producer_id=2, first_offset=3, last_offset=20, last_stable_offset=21)


@pytest.fixture
def index(tmp_path):
    return TransactionIndex(tmp_path / "00000000000000000000.txnindex")


def test_file_is_created_by_the_first_abort(index):
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


def test_collect_returns_transactions_that_overlap_the_range(index):
    index.append(FIRST)
    index.append(SECOND)
    assert index.collect_aborted_txns(start=0, end=3).aborted_txns == []
    assert index.collect_aborted_txns(start=0, end=4).aborted_txns == [SECOND]
    assert index.collect_aborted_txns(start=10, end=12).aborted_txns == [FIRST, SECOND]
    assert index.collect_aborted_txns(start=11, end=12).aborted_txns == [SECOND]
    assert index.collect_aborted_txns(start=21, end=30).aborted_txns == []


def test_collect_is_complete_when_no_later_transaction_can_overlap(index):
    index.append(FIRST)
    assert index.collect_aborted_txns(start=0, end=3).is_complete
    assert not index.collect_aborted_txns(start=0, end=4).is_complete


def test_truncate_removes_transactions_that_ended_at_or_after_the_offset(index):
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
def test_damaged_index_fails_the_sanity_check(index, damage):
    index.append(FIRST)
    assert TransactionIndex(index.path).passes_sanity_check(base_offset=0)
    index.path.write_bytes(damage(index.path.read_bytes()))
    assert not TransactionIndex(index.path).passes_sanity_check(base_offset=0)


@pytest.fixture
def leader(tmp_path):
    """Producer 1 aborts, begins again before producer 2 begins, and aborts again."""
    log = opened(tmp_path / "leader-0")
    transactional = {"producer_epoch": 0, "is_transactional": True}
    append(log, b"a", producer_id=1, base_sequence=0, **transactional)
    end_transaction(log, producer_id=1, commit=False)
    append(log, b"b", producer_id=1, base_sequence=1, **transactional)
    append(log, b"c", producer_id=2, base_sequence=0, **transactional)
    end_transaction(log, producer_id=1, commit=False)
    end_transaction(log, producer_id=2, commit=True)
    return log


class TestFollower:
    @pytest.fixture(params=[[6], [1, 2, 3, 4, 5, 6], [2, 6], [4, 6]])
    def follower(self, leader, tmp_path, request):
        """A follower that replicates up to each of the given offsets in one append."""
        log = opened(tmp_path / "events-0")
        for end in request.param:
            batches = batches_from(leader, log.log_end_offset, up_to=end)
            log.append_as_follower(
                bytearray(b"".join(batch.view for batch in batches)), now_ms=NOW_MS
            )
        log.update_high_watermark(log.log_end_offset)
        return log

    def test_index_entries_equal_those_of_the_leader_for_any_append_size(self, leader, follower):
        entries = follower.segments.first.transaction_index.entries
        assert entries == leader.segments.first.transaction_index.entries
        assert entries == [(1, 0, 1, 2), (1, 2, 4, 3)]
        index = TransactionIndex(follower.segments.first.path(LogFileType.TRANSACTION_INDEX))
        assert index.passes_sanity_check(base_offset=0)

    def test_read_committed_returns_no_aborted_record_for_any_max_bytes(self, follower):
        for max_bytes in (1, 100, 10_000):
            records = read_committed(follower, 0, max_bytes=max_bytes)
            assert [record.value for record in records] == [b"c"]

    def test_index_written_by_a_kafka_follower_is_rebuilt(self, follower, tmp_path):
        path = follower.segments.first.path(LogFileType.TRANSACTION_INDEX)
        expected = follower.segments.first.transaction_index.entries
        follower.close(now_ms=NOW_MS)
        path.write_bytes(ENTRY.pack(0, 1, 0, 1, 3) + ENTRY.pack(0, 1, 2, 4, 3))
        assert not TransactionIndex(path).passes_sanity_check(base_offset=0)
        load_report = LogLoadReport()
        reopened = opened(tmp_path / "events-0", load_report)
        assert reopened.segments.first.transaction_index.entries == expected
        assert len(load_report.problems) == 1
        records = read_committed(reopened, 2, max_bytes=1)
        assert [record.value for record in records] == [b"c"]
