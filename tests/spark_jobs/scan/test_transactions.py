"""Committed, aborted and open transactions, with and without indexes."""

import pytest

from odradek.spark_jobs.scan.damage import ScanFailed
from odradek.storage.paths import LogFileType
from odradek.storage.producer_state.snapshot import encode
from odradek.storage.transaction_index import ENTRY, VERSION
from tests.support.laid_transactions import FIRST, SECOND, History
from tests.support.scans import LogDirectory


@pytest.fixture
def history():
    return History.usual()


@pytest.fixture
def directory(tmp_path, history):
    directory = LogDirectory(tmp_path)
    directory.write(0, history.batches)
    return directory


def write_index(directory, *entries, base=0):
    content = b"".join(ENTRY.pack(VERSION, *entry) for entry in entries)
    directory.file(base, LogFileType.TRANSACTION_INDEX).write_bytes(content)


class TestIsolation:
    def test_read_uncommitted_returns_all_records_and_no_markers(self, directory):
        scanned = directory.scan(isolationLevel="read_uncommitted")
        assert scanned.offsets == [0, 1, 2, 3, 4, 7, 8, 9]

    def test_read_committed_skips_aborted_records_and_stops_at_an_open_transaction(self, directory):
        assert directory.scan(mode="FAILFAST").offsets == [0, 1, 3, 7]

    def test_control_records_are_returned_with_the_option(self, directory):
        scanned = directory.scan(includeControl="true")
        assert [(row["offset"], row["isControl"]) for row in scanned.rows] == [
            *((0, False), (1, False), (3, False), (5, True), (6, True), (7, False)),
        ]

    def test_transaction_that_ends_above_the_high_watermark_is_open(self, directory):
        directory.set_high_watermark(6)
        assert directory.scan(mode="FAILFAST").offsets == [0, 1]
        directory.set_high_watermark(7)
        assert directory.scan(mode="FAILFAST").offsets == [0, 1, 3]

    def test_batches_view_has_all_batches(self, directory):
        rows = directory.scan(view="batches").rows
        assert [row["baseOffset"] for row in rows] == list(range(10))
        assert [row["baseOffset"] for row in rows if row["isControl"]] == [5, 6]
        markers = {row["baseOffset"]: row["marker"] for row in rows if row["marker"] is not None}
        assert markers == {5: "commit", 6: "abort"}

    def test_splits_know_the_aborted_transactions_around_them(self, directory):
        assert directory.scan(maxSplitBytes="1", mode="FAILFAST").offsets == [0, 1, 3, 7]


class TestIndex:
    """A snapshot at the log end lists no open transaction, so the scan uses the indexes only."""

    @pytest.fixture
    def directory(self, tmp_path, history):
        from odradek.storage.producer_state import snapshot

        del history.batches[8:]
        directory = LogDirectory(tmp_path)
        directory.write(0, history.batches)
        directory.file(8, LogFileType.PRODUCER_SNAPSHOT).write_bytes(snapshot.encode({}))
        return directory

    def test_index_lists_the_aborted_transactions(self, directory):
        write_index(directory, (SECOND, 2, 6, 7))
        assert directory.scan(mode="FAILFAST").offsets == [0, 1, 3, 7]

    def test_missing_abort_in_the_index_is_detected(self, directory):
        scanned = directory.scan()
        assert "a transaction is aborted but shown" in scanned.damages[0].reason
        assert scanned.damages[0].first_offset == 2
        with pytest.raises(ScanFailed, match="transaction index"):
            directory.scan(mode="FAILFAST")

    def test_committed_transaction_in_the_index_is_detected(self, directory):
        write_index(directory, (FIRST, 1, 5, 2), (SECOND, 2, 6, 7))
        scanned = directory.scan()
        assert "a transaction is committed but hidden" in scanned.damages[0].reason

    @pytest.mark.parametrize("content", [b"cut", bytes(34), b"\xff" * 34])
    def test_invalid_index_is_ignored_and_the_log_is_read(self, directory, content):
        directory.file(0, LogFileType.TRANSACTION_INDEX).write_bytes(content)
        assert directory.scan(mode="FAILFAST").offsets == [0, 1, 3, 7]

    def test_damaged_snapshot_is_ignored_and_the_log_is_read(self, directory):
        directory.file(8, LogFileType.PRODUCER_SNAPSHOT).write_bytes(bytes(60))
        assert directory.scan(mode="FAILFAST").offsets == [0, 1, 3, 7]


@pytest.mark.parametrize("segments", [1, 2])
def test_damage_that_may_hide_a_marker_is_reported(tmp_path, segments):
    """Otherwise nothing would explain why the scan ends at the start of the transaction."""
    history = History().record().record().record(FIRST).ends(FIRST, commit=True).record()
    history.batches[3] = history.batches[3][:-3] + b"???"
    directory = LogDirectory(tmp_path)
    split_at = 3 if segments == 2 else 0
    if split_at:
        directory.write(0, history.batches[:split_at])
    directory.write(split_at, history.batches[split_at:])
    scanned = directory.scan()
    assert scanned.offsets == [0, 1]
    assert [damage.first_offset for damage in scanned.damages] == [3]
    with pytest.raises(ScanFailed, match="from offset 3 on: the checksum"):
        directory.scan(mode="FAILFAST")
    uncommitted = directory.scan(isolationLevel="read_uncommitted")
    assert (uncommitted.offsets, len(uncommitted.damages)) == ([0, 1, 2, 4], 1)
    assert directory.scan(endingOffsets='{"orders": {"0": 1}}', mode="FAILFAST").offsets == [0]


def test_aborted_transaction_is_hidden_in_both_segments(tmp_path, history):
    directory = LogDirectory(tmp_path)
    directory.write(0, history.batches[:3])
    directory.write(3, history.batches[3:])
    assert directory.scan(mode="FAILFAST").offsets == [0, 1, 3, 7]
    start = directory.scan(startingOffsets='{"orders": {"0": 4}}', mode="FAILFAST")
    assert start.offsets == [7]


def test_index_is_found_if_the_directory_name_contains_a_file_suffix(tmp_path, history):
    """A snapshot at the log end lists no open transaction, so the scan uses the index only."""
    directory = LogDirectory(tmp_path / "kafka.logs")
    directory.write(0, history.batches)
    write_index(directory, (SECOND, 2, 6, 7))
    directory.file(10, LogFileType.PRODUCER_SNAPSHOT).write_bytes(encode({}))
    assert directory.scan(mode="FAILFAST").offsets == [0, 1, 3, 7, 8, 9]
