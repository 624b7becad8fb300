"""State of a log after a restart with torn tails or flipped bytes (S2, S3, S4)."""

import pytest

from odradek.protocol.errors import CorruptMessage
from odradek.storage.log_loader import LogLoadReport
from odradek.storage.paths import LogFileType
from tests.support.damage import (
    LAST_BYTE_OF_BASE_OFFSET,
    LENGTH_POSITION,
    batch_positions,
    cut,
    flip,
    flip_in_batch,
    lengthen,
)
from tests.support.logs import (
    NOW_MS,
    append,
    batches_from,
    bytes_of,
    end_transaction,
    opened,
    records_from,
    recovered,
)

SMALL = {"segment_bytes": 700, "index_interval_bytes": 100}


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "events-0"


def values(log):
    return [record.value[:1] for record in records_from(log)]


def filled(directory, count=9, **settings):
    """Batches of one record, three to a segment."""
    log = opened(directory, **SMALL, **settings)
    for number in range(count):
        append(log, b"%d" % number + bytes(150), timestamp=NOW_MS + number)
    return log


def batches_file(log, number=-1):
    return list(log.segments)[number].path(LogFileType.LOG)


class TestTornTails:
    @pytest.fixture
    def torn(self, directory):
        """File, content and size before the last batch of an active segment that was not closed."""
        log = opened(directory)
        append(log, b"0", producer_id=7, producer_epoch=0, base_sequence=0)
        append(log, b"1", b"2", timestamp=NOW_MS + 5)
        valid_bytes = log.size_bytes
        append(log, b"3", producer_id=7, producer_epoch=0, base_sequence=1, leader_epoch=4)
        log.close_handlers()
        path = batches_file(log)
        return path, path.read_bytes(), valid_bytes

    def test_s2_last_batch_torn_at_any_byte_is_removed(self, directory, torn):
        path, content, valid_bytes = torn
        for length in range(valid_bytes, len(content)):
            path.write_bytes(content[:length])
            load_report = LogLoadReport()
            log = recovered(directory, load_report)
            assert (log.log_end_offset, values(log)) == (3, [b"0", b"1", b"2"])
            assert load_report.removed_bytes == length - valid_bytes
            assert len(load_report.problems) == (length > valid_bytes)
            log.close_handlers()

    def test_s2_bytes_after_the_last_whole_batch_are_removed(self, directory, torn):
        path, content, valid_bytes = torn
        for tail in (
            bytes(1),
            bytes(300),
            b"\xff" * 300,
            content[:valid_bytes][:80],
            content[valid_bytes:-1],
        ):
            path.write_bytes(content[:valid_bytes] + tail)
            log = recovered(directory)
            assert (log.log_end_offset, log.size_bytes) == (3, valid_bytes)
            log.close_handlers()

    def test_s2_next_append_reuses_the_offset_of_the_torn_batch(self, directory, torn):
        path, content, _ = torn
        cut(path, len(content) - 1)
        log = recovered(directory)
        reopened = append(log, b"x", producer_id=7, producer_epoch=0, base_sequence=1)
        assert (reopened.first_offset, reopened.is_duplicate) == (3, False)
        assert values(log) == [b"0", b"1", b"2", b"x"]

    def test_s2_leader_epoch_of_a_torn_batch_is_not_in_the_cache(self, directory, torn):
        path, content, _ = torn
        cut(path, len(content) - 1)
        assert recovered(directory).leader_epoch_cache.entries == ((0, 0),)

    def test_s2_torn_marker_leaves_its_transaction_open(self, directory):
        log = opened(directory)
        fields = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
        append(log, b"x", is_transactional=True, **fields)
        end_transaction(log, producer_id=7, commit=False)
        log.close_handlers()
        cut(batches_file(log), log.size_bytes - 1)
        log = recovered(directory)
        assert (log.last_stable_offset, log.log_end_offset) == (0, 1)
        assert log.collect_aborted_transactions(start=0, end=9) == []

    def test_s2_log_ends_at_a_torn_segment(self, directory):
        log = filled(directory)
        log.close_handlers()
        path = batches_file(log, 1)
        cut(path, path.stat().st_size - 10)
        load_report = LogLoadReport()
        log = recovered(directory, load_report, **SMALL)
        assert values(log) == [b"0", b"1", b"2", b"3", b"4"]
        assert len(list(directory.glob("*.log"))) == 2
        assert len(load_report.problems) == 1

    def test_s2_preallocated_space_is_not_part_of_the_log(self, directory):
        log = filled(directory, preallocate=True)
        assert batches_file(log).stat().st_size == 700
        log.close_handlers()
        log = recovered(directory, preallocate=True, **SMALL)
        assert values(log) == [b"%d" % number for number in range(9)]
        assert append(log, b"9").first_offset == 9


class TestFlippedBytes:
    def test_s3_flipped_byte_in_the_last_batch_removes_it(self, directory):
        log = opened(directory)
        append(log, b"0")
        append(log, b"1")
        log.close_handlers()
        path = batches_file(log)
        begin, end = batch_positions(log.segments.active)[1], path.stat().st_size
        intact = path.read_bytes()
        # The checksum does not cover the base offset and the leader epoch.
        covered = [*range(begin + 8, begin + 12), *range(begin + 16, end)]
        for position in covered:
            path.write_bytes(intact)
            flip(path, position, mask=0x04)
            log = recovered(directory)
            assert (log.log_end_offset, values(log)) == (1, [b"0"]), position
            log.close_handlers()

    @pytest.mark.parametrize("mask", [0x01, 0x02, 0x80])
    def test_s3_no_offset_is_assigned_twice(self, directory, mask):
        log = opened(directory)
        for pair in (b"01", b"23", b"45"):
            append(log, pair[:1], pair[1:])
        log.close_handlers()
        flip_in_batch(log.segments.active, 1, LAST_BYTE_OF_BASE_OFFSET, mask=mask)
        log = recovered(directory)
        append(log, b"x")
        offsets = [record.offset for record in records_from(log)]
        assert offsets == sorted(set(offsets))
        assert log.log_end_offset == offsets[-1] + 1

    def test_s3_unflushed_batches_after_a_damaged_one_are_removed(self, directory):
        log = filled(directory)
        log.close_handlers()
        flip_in_batch(list(log.segments)[1], 1, 100)
        load_report = LogLoadReport()
        log = recovered(directory, load_report, **SMALL)
        assert values(log) == [b"0", b"1", b"2", b"3"]
        assert append(log, b"x").first_offset == 4
        assert len(load_report.problems) == 1
        assert list(directory.glob("*.deleted")) == []


class TestFlushedBatches:
    """Recovery reads nothing before the recovery point and so truncates nothing there."""

    @pytest.fixture
    def closed(self, directory):
        log = filled(directory)
        log.close(now_ms=NOW_MS)
        return log

    def reopened(self, directory, load_report=None):
        return opened(directory, load_report, recovery_point=9, **SMALL)

    def test_s3_damaged_record_is_returned_unchanged(self, closed, directory):
        flip_in_batch(list(closed.segments)[1], 1, 100)
        log = self.reopened(directory)
        assert log.log_end_offset == 9
        batches = batches_from(log, 0)
        assert [batch.base_offset for batch in batches] == list(range(9))
        assert [batch.is_valid() for batch in batches].index(False) == 4

    def test_s3_read_at_a_damaged_length_raises_corrupt_message(self, closed, directory):
        flip_in_batch(list(closed.segments)[1], 1, LENGTH_POSITION)
        log = self.reopened(directory)
        assert log.log_end_offset == 9
        assert first_offsets(log, range(4)) == [0, 1, 2, 3]
        with pytest.raises(CorruptMessage):
            log.read(4, max_bytes=1000, max_offset=9)
        assert first_offsets(log, range(5, 9)) == [5, 6, 7, 8]

    def test_s3_reads_before_the_damage_succeed(self, closed, directory):
        flip_in_batch(list(closed.segments)[1], 2, LENGTH_POSITION)
        assert first_offsets(self.reopened(directory), [3, 4]) == [3, 4]

    @pytest.mark.parametrize("damage", [b"\0", bytes(100), b"noise" * 20])
    def test_s3_garbage_after_the_active_segment_is_removed(self, closed, directory, damage):
        lengthen(batches_file(closed), damage)
        load_report = LogLoadReport()
        log = self.reopened(directory, load_report)
        assert (log.log_end_offset, log.recovery_point) == (9, 9)
        assert load_report.removed_bytes == len(damage)
        assert append(log, b"9").first_offset == 9
        assert values(log) == [b"%d" % number for number in range(10)]

    def test_s3_no_offset_is_assigned_twice_after_a_damaged_length(self, closed, directory):
        flip_in_batch(closed.segments.active, 2, LENGTH_POSITION)
        load_report = LogLoadReport()
        log = self.reopened(directory, load_report)
        assert log.log_end_offset == 8
        assert any("recovered" in problem for problem in load_report.problems)
        assert append(log, b"x").first_offset == 8
        assert values(log) == [*(b"%d" % number for number in range(8)), b"x"]

    def test_s3_no_offset_is_assigned_twice_if_the_index_points_past_the_damage(
        self, closed, directory
    ):
        flip_in_batch(closed.segments.active, 1, LENGTH_POSITION)
        log = self.reopened(directory)
        assert append(log, b"9").first_offset == 9
        assert first_offsets(log, [6, 8, 9]) == [6, 8, 9]
        with pytest.raises(CorruptMessage):
            log.read(7, max_bytes=1000, max_offset=10)

    def test_s3_log_with_a_damaged_batch_and_no_indexes_opens(self, closed, directory):
        flip_in_batch(list(closed.segments)[1], 1, LENGTH_POSITION)
        for ending in ("index", "timeindex", "snapshot"):
            for path in directory.glob(f"*.{ending}"):
                path.unlink()
        (directory / "leader-epoch-checkpoint").write_bytes(b"0\n9\n")
        load_report = LogLoadReport()
        log = self.reopened(directory, load_report)
        assert (log.log_start_offset, log.log_end_offset) == (0, 9)
        assert first_offsets(log, range(4)) == [0, 1, 2, 3]
        assert load_report.problems


def first_offsets(log, offsets):
    """The base offset of the first batch that a read at each offset returns."""
    regions = [log.read(offset, max_bytes=1, max_offset=log.log_end_offset) for offset in offsets]
    return [int.from_bytes(bytes_of(region)[:8]) for region in regions]


class TestSeveralDamages:
    def test_s2_unreadable_epoch_checkpoint_and_a_torn_tail(self, directory):
        log = filled(directory)
        log.flush(now_ms=NOW_MS)
        append(log, b"9")
        log.close_handlers()
        cut(batches_file(log), batches_file(log).stat().st_size - 3)
        (directory / "leader-epoch-checkpoint").write_bytes(b"0\n9\n")
        load_report = LogLoadReport()
        log = recovered(directory, load_report, recovery_point=9, **SMALL)
        assert log.log_end_offset == 9
        assert log.leader_epoch_cache.entries == ((0, 0),)
        assert len(load_report.problems) == 2

    def test_s4_missing_epoch_checkpoint_is_rebuilt_from_the_batches(self, directory):
        log = opened(directory)
        for epoch in (2, 2, 5):
            append(log, b"a", leader_epoch=epoch)
        log.close(now_ms=NOW_MS)
        (directory / "leader-epoch-checkpoint").unlink()
        load_report = LogLoadReport()
        assert opened(directory, load_report).leader_epoch_cache.entries == ((2, 0), (5, 2))
        assert len(load_report.problems) == 1

    def test_s4_unreadable_producer_snapshot_is_reported(self, directory):
        log = opened(directory)
        append(log, b"a", producer_id=7, producer_epoch=0, base_sequence=0)
        log.close(now_ms=NOW_MS)
        for path in directory.glob("*.snapshot"):
            path.write_bytes(b"??")
        load_report = LogLoadReport()
        log = opened(directory, load_report)
        assert set(log.producer_state_manager.active_producers) == {7}
        assert len(load_report.problems) == 1

    def test_s4_missing_indexes_and_snapshots_are_rebuilt(self, directory):
        log = opened(directory)
        fields = {"producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
        for producer_id in (1, 2):
            append(log, b"x", producer_id=producer_id, **fields)
            log.roll(now_ms=NOW_MS)
            end_transaction(log, producer_id=producer_id, commit=False)
        expected = log.collect_aborted_transactions(start=0, end=9)
        log.close(now_ms=NOW_MS)
        for path in [*directory.glob("*index"), *directory.glob("*.snapshot")]:
            path.unlink()
        reopened = opened(directory)
        assert reopened.collect_aborted_transactions(start=0, end=9) == expected
        assert len(expected) == 2
