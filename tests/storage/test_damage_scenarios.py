"""Torn tails and flipped bytes: what a log is after the next start (S2, S3)."""

import pytest

from odradek.protocol.errors import CorruptMessage
from odradek.storage.log_loader import Findings
from odradek.storage.paths import Content
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
    return list(log.segments)[number].path(Content.BATCHES)


class TestTornTails:
    @pytest.fixture
    def torn(self, directory):
        """The active segment's file and what it held, of a log that was not closed."""
        log = opened(directory)
        append(log, b"0", producer_id=7, producer_epoch=0, base_sequence=0)
        append(log, b"1", b"2", timestamp=NOW_MS + 5)
        whole = log.size_bytes
        append(log, b"3", producer_id=7, producer_epoch=0, base_sequence=1, leader_epoch=4)
        log.abandon()
        path = batches_file(log)
        return path, path.read_bytes(), whole

    def test_s2_cut_at_every_byte_of_the_last_batch_the_log_ends_before_it(self, directory, torn):
        path, content, whole = torn
        for length in range(whole, len(content)):
            path.write_bytes(content[:length])
            findings = Findings()
            log = recovered(directory, findings)
            assert (log.end_offset, values(log)) == (3, [b"0", b"1", b"2"])
            assert findings.removed_bytes == length - whole
            assert len(findings.notes) == (length > whole)
            log.abandon()

    def test_s2_whatever_follows_the_last_whole_batch_goes(self, directory, torn):
        path, content, whole = torn
        for tail in (bytes(1), bytes(300), b"\xff" * 300, content[:whole][:80], content[whole:-1]):
            path.write_bytes(content[:whole] + tail)
            log = recovered(directory)
            assert (log.end_offset, log.size_bytes) == (3, whole)
            log.abandon()

    def test_s2_the_next_append_takes_the_offset_of_the_torn_batch(self, directory, torn):
        path, content, _ = torn
        cut(path, len(content) - 1)
        log = recovered(directory)
        again = append(log, b"x", producer_id=7, producer_epoch=0, base_sequence=1)
        assert (again.first_offset, again.is_duplicate) == (3, False)
        assert values(log) == [b"0", b"1", b"2", b"x"]

    def test_s2_the_epoch_of_a_torn_batch_is_not_in_the_log(self, directory, torn):
        path, content, _ = torn
        cut(path, len(content) - 1)
        assert recovered(directory).epochs.entries == ((0, 0),)

    def test_s2_a_torn_marker_leaves_its_transaction_open(self, directory):
        log = opened(directory)
        fields = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
        append(log, b"x", is_transactional=True, **fields)
        end_transaction(log, producer_id=7, commit=False)
        log.abandon()
        cut(batches_file(log), log.size_bytes - 1)
        log = recovered(directory)
        assert (log.last_stable_offset, log.end_offset) == (0, 1)
        assert log.aborted_transactions(start=0, end=9) == []

    def test_s2_a_segment_that_ends_early_ends_the_log(self, directory):
        log = filled(directory)
        log.abandon()
        path = batches_file(log, 1)
        cut(path, path.stat().st_size - 10)
        findings = Findings()
        log = recovered(directory, findings, **SMALL)
        assert values(log) == [b"0", b"1", b"2", b"3", b"4"]
        assert len(list(directory.glob("*.log"))) == 2
        assert len(findings.notes) == 1

    def test_s2_the_room_that_was_allocated_ahead_is_no_part_of_the_log(self, directory):
        log = filled(directory, preallocate=True)
        assert batches_file(log).stat().st_size == 700
        log.abandon()
        log = recovered(directory, preallocate=True, **SMALL)
        assert values(log) == [b"%d" % number for number in range(9)]
        assert append(log, b"9").first_offset == 9


class TestFlippedBytes:
    def test_s3_every_byte_of_the_last_batch_matters_to_recovery(self, directory):
        log = opened(directory)
        append(log, b"0")
        append(log, b"1")
        log.abandon()
        path = batches_file(log)
        begin, end = batch_positions(log.segments.active)[1], path.stat().st_size
        sound = path.read_bytes()
        # The offset and the leader's epoch are not covered by the checksum.
        covered = [*range(begin + 8, begin + 12), *range(begin + 16, end)]
        for position in covered:
            path.write_bytes(sound)
            flip(path, position, mask=0x04)
            log = recovered(directory)
            assert (log.end_offset, values(log)) == (1, [b"0"]), position
            log.abandon()

    @pytest.mark.parametrize("mask", [0x01, 0x02, 0x80])
    def test_s3_an_offset_is_never_given_twice(self, directory, mask):
        log = opened(directory)
        for pair in (b"01", b"23", b"45"):
            append(log, pair[:1], pair[1:])
        log.abandon()
        flip_in_batch(log.segments.active, 1, LAST_BYTE_OF_BASE_OFFSET, mask=mask)
        log = recovered(directory)
        append(log, b"x")
        offsets = [record.offset for record in records_from(log)]
        assert offsets == sorted(set(offsets))
        assert log.end_offset == offsets[-1] + 1

    def test_s3_in_a_middle_segment_everything_after_it_goes_if_it_was_not_synced(self, directory):
        log = filled(directory)
        log.abandon()
        flip_in_batch(list(log.segments)[1], 1, 100)
        findings = Findings()
        log = recovered(directory, findings, **SMALL)
        assert values(log) == [b"0", b"1", b"2", b"3"]
        assert append(log, b"x").first_offset == 4
        assert len(findings.notes) == 1
        assert list(directory.glob("*.deleted")) == []


class TestSyncedBatches:
    """Before the recovery point nothing is looked at, and so nothing is cut."""

    @pytest.fixture
    def closed(self, directory):
        log = filled(directory)
        log.close(now_ms=NOW_MS)
        return log

    def reopened(self, directory, findings=None):
        return opened(directory, findings, recovery_point=9, **SMALL)

    def test_s3_a_damaged_record_goes_out_as_it_is(self, closed, directory):
        flip_in_batch(list(closed.segments)[1], 1, 100)
        log = self.reopened(directory)
        assert log.end_offset == 9
        batches = batches_from(log, 0)
        assert [batch.base_offset for batch in batches] == list(range(9))
        assert [batch.is_valid() for batch in batches].index(False) == 4

    def test_s3_a_damaged_length_is_reported_and_nothing_is_passed_over(self, closed, directory):
        flip_in_batch(list(closed.segments)[1], 1, LENGTH_POSITION)
        log = self.reopened(directory)
        assert log.end_offset == 9
        assert first_offsets(log, range(4)) == [0, 1, 2, 3]
        with pytest.raises(CorruptMessage):
            log.read(4, max_bytes=1000, up_to=9)
        assert first_offsets(log, range(5, 9)) == [5, 6, 7, 8]

    def test_s3_a_reader_before_the_damage_is_not_held_up_by_it(self, closed, directory):
        flip_in_batch(list(closed.segments)[1], 2, LENGTH_POSITION)
        assert first_offsets(self.reopened(directory), [3, 4]) == [3, 4]

    @pytest.mark.parametrize("damage", [b"\0", bytes(100), b"noise" * 20])
    def test_s3_where_the_active_segment_breaks_off_the_log_ends(self, closed, directory, damage):
        lengthen(batches_file(closed), damage)
        findings = Findings()
        log = self.reopened(directory, findings)
        assert (log.end_offset, log.recovery_point) == (9, 9)
        assert findings.removed_bytes == len(damage)
        assert append(log, b"9").first_offset == 9
        assert values(log) == [b"%d" % number for number in range(10)]

    def test_s3_no_offset_is_given_twice_after_a_damaged_length(self, closed, directory):
        flip_in_batch(closed.segments.active, 2, LENGTH_POSITION)
        findings = Findings()
        log = self.reopened(directory, findings)
        assert log.end_offset == 8
        assert any("recovered" in note for note in findings.notes)
        assert append(log, b"x").first_offset == 8
        assert values(log) == [*(b"%d" % number for number in range(8)), b"x"]

    def test_s3_no_offset_is_given_twice_if_the_index_leads_beyond_the_damage(
        self, closed, directory
    ):
        flip_in_batch(closed.segments.active, 1, LENGTH_POSITION)
        log = self.reopened(directory)
        assert append(log, b"9").first_offset == 9
        assert first_offsets(log, [6, 8, 9]) == [6, 8, 9]
        with pytest.raises(CorruptMessage):
            log.read(7, max_bytes=1000, up_to=10)

    def test_s3_a_damaged_batch_keeps_no_log_from_opening(self, closed, directory):
        flip_in_batch(list(closed.segments)[1], 1, LENGTH_POSITION)
        for ending in ("index", "timeindex", "snapshot"):
            for path in directory.glob(f"*.{ending}"):
                path.unlink()
        (directory / "leader-epoch-checkpoint").write_bytes(b"0\n9\n")
        findings = Findings()
        log = self.reopened(directory, findings)
        assert (log.start_offset, log.end_offset) == (0, 9)
        assert first_offsets(log, range(4)) == [0, 1, 2, 3]
        assert findings.notes


def first_offsets(log, offsets):
    """Of the batches that a reader at each of the offsets gets first."""
    regions = [log.read(offset, max_bytes=1, up_to=log.end_offset) for offset in offsets]
    return [int.from_bytes(bytes_of(region)[:8]) for region in regions]


class TestSeveralDamages:
    def test_s2_epochs_that_cannot_be_read_and_a_torn_tail(self, directory):
        log = filled(directory)
        log.flush(now_ms=NOW_MS)
        append(log, b"9")
        log.abandon()
        cut(batches_file(log), batches_file(log).stat().st_size - 3)
        (directory / "leader-epoch-checkpoint").write_bytes(b"0\n9\n")
        findings = Findings()
        log = recovered(directory, findings, recovery_point=9, **SMALL)
        assert log.end_offset == 9
        assert log.epochs.entries == ((0, 0),)
        assert len(findings.notes) == 2

    def test_s4_epochs_that_are_missing_are_found_in_the_batches(self, directory):
        log = opened(directory)
        for epoch in (2, 2, 5):
            append(log, b"a", leader_epoch=epoch)
        log.close(now_ms=NOW_MS)
        (directory / "leader-epoch-checkpoint").unlink()
        findings = Findings()
        assert opened(directory, findings).epochs.entries == ((2, 0), (5, 2))
        assert len(findings.notes) == 1

    def test_s4_a_snapshot_that_cannot_be_read_is_reported(self, directory):
        log = opened(directory)
        append(log, b"a", producer_id=7, producer_epoch=0, base_sequence=0)
        log.close(now_ms=NOW_MS)
        for path in directory.glob("*.snapshot"):
            path.write_bytes(b"??")
        findings = Findings()
        log = opened(directory, findings)
        assert set(log.producers.states) == {7}
        assert len(findings.notes) == 1

    def test_s4_indexes_that_are_all_missing_are_made_anew(self, directory):
        log = opened(directory)
        fields = {"producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
        for producer_id in (1, 2):
            append(log, b"x", producer_id=producer_id, **fields)
            log.roll(now_ms=NOW_MS)
            end_transaction(log, producer_id=producer_id, commit=False)
        expected = log.aborted_transactions(start=0, end=9)
        log.close(now_ms=NOW_MS)
        for path in [*directory.glob("*index"), *directory.glob("*.snapshot")]:
            path.unlink()
        again = opened(directory)
        assert again.aborted_transactions(start=0, end=9) == expected
        assert len(expected) == 2
