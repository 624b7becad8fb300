"""Appends of a follower, whose leader has already assigned the offsets."""

import pytest

from odradek.protocol.records.compression import Codec
from odradek.storage.timestamp_lookup import offset_of_max_timestamp
from odradek.storage.validation.errors import UnexpectedAppendOffset, UnexpectedLeaderEpoch
from tests.support.faulty_disk import FaultyDisk
from tests.support.legacy_messages import message
from tests.support.logs import (
    NOW_MS,
    append,
    batches_from,
    opened,
    records_batch,
    records_from,
    recovered,
)


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "events-0"


@pytest.fixture
def log(directory):
    return opened(directory, index_interval_bytes=0)


def append_as_follower(log, *records):
    append_info = log.append_as_follower(bytearray(b"".join(records)), now_ms=NOW_MS)
    log.update_high_watermark(log.log_end_offset)
    return append_info


def offsets(log):
    return [record.offset for record in records_from(log)]


class TestRecordSet:
    def test_all_batches_are_appended(self, log):
        append_info = append_as_follower(
            log,
            records_batch(b"a", b"b", base_offset=0),
            records_batch(b"c", base_offset=2),
            records_batch(b"d", base_offset=9),
        )
        assert (append_info.first_offset, append_info.last_offset) == (0, 9)
        assert offsets(log) == [0, 1, 2, 9]

    def test_index_entries_are_those_that_recovery_would_write(self, log, directory):
        for first in (0, 40):
            append_as_follower(
                log,
                *(records_batch(bytes(50), b"b", base_offset=first + 2 * n) for n in range(20)),
            )
        index = log.segments.active.offset_index
        entries = [index.entry(slot) for slot in range(index.entries.count)]
        last_offsets = {
            location.position: location.last_offset
            for location in log.segments.active.batch_locations()
        }
        assert len(entries) > 30
        assert all(last_offsets[entry.position] == entry.offset for entry in entries)
        log.close_handlers()
        recovered_index = recovered(directory, index_interval_bytes=0).segments.active.offset_index
        assert [
            recovered_index.entry(slot) for slot in range(recovered_index.entries.count)
        ] == entries

    def test_failed_index_allocation_appends_nothing(self, log):
        batches = [records_batch(b"a", base_offset=offset) for offset in range(3)]
        with FaultyDisk(counting={"fallocate"}, fail_at=2), pytest.raises(OSError, match="output"):
            append_as_follower(log, *batches)
        assert log.log_end_offset == 0
        assert log.segments.active.offset_index.entries.count == 0
        append_as_follower(log, *batches)
        assert offsets(log) == [0, 1, 2]

    def test_every_batch_can_be_read_by_offset(self, log):
        for first in range(0, 30, 6):
            batches = [records_batch(b"a", b"b", base_offset=first + n) for n in (0, 2, 4)]
            append_as_follower(log, *batches)
        for offset in range(30):
            assert batches_from(log, offset)[0].base_offset == offset - offset % 2

    def test_max_timestamp_is_found(self, log):
        times = (10, 90, 20)
        append_as_follower(
            log, *(records_batch(b"a", base_offset=n, timestamp=t) for n, t in enumerate(times))
        )
        assert offset_of_max_timestamp(log)[:2] == (1, 90)
        assert log.segments.active.max_timestamp_and_offset == (90, 1)

    def test_batches_of_a_newer_leader_epoch_are_not_appended(self, log):
        batches = [
            records_batch(b"a", base_offset=number, partition_leader_epoch=epoch)
            for number, epoch in enumerate([3, 4, 5, 4])
        ]
        log.append_as_follower(bytearray(b"".join(batches)), leader_epoch=4, now_ms=NOW_MS)
        assert log.log_end_offset == 2
        assert log.size_bytes == sum(map(len, batches[:2]))
        assert log.leader_epoch_cache.latest_epoch == 4
        with pytest.raises(UnexpectedLeaderEpoch):
            log.append_as_follower(bytearray(batches[2]), leader_epoch=4, now_ms=NOW_MS)
        log.append_as_follower(bytearray(batches[2]), leader_epoch=5, now_ms=NOW_MS)
        assert log.log_end_offset == 3

    def test_incomplete_last_batch_is_not_appended(self, log):
        torn = records_batch(b"b", base_offset=1)[:-3]
        append_info = append_as_follower(log, records_batch(b"a", base_offset=0), torn)
        assert (append_info.last_offset, log.log_end_offset) == (0, 1)
        assert log.size_bytes == len(records_batch(b"a"))


class TestLeaderEpochs:
    def batch(self, offset, epoch):
        return records_batch(b"a", base_offset=offset, partition_leader_epoch=epoch)

    def test_epochs_are_cached_with_their_start_offsets(self, log):
        append_as_follower(log, self.batch(0, 2), self.batch(1, 2), self.batch(2, 5))
        append_as_follower(log, self.batch(3, 5), self.batch(4, 6))
        assert log.leader_epoch_cache.entries == ((2, 0), (5, 2), (6, 4))

    def test_epoch_without_records_is_replaced_by_an_older_one(self, log):
        append_as_follower(log, self.batch(0, 1))
        log.leader_epoch_cache.assign(5, start_offset=1)
        append_as_follower(log, self.batch(1, 3))
        assert log.leader_epoch_cache.entries == ((1, 0), (3, 1))

    def test_legacy_message_clears_the_epochs(self, log):
        append_as_follower(log, self.batch(0, 1))
        append_as_follower(log, message(1, b"a", offset=1))
        assert log.leader_epoch_cache.entries == ()
        append_as_follower(log, self.batch(2, 4))
        assert log.leader_epoch_cache.entries == ((4, 2),)

    def test_legacy_wrapper_that_cannot_be_decompressed_is_appended(self, log):
        append_as_follower(log, message(1, b"no gzip at all", attributes=Codec.GZIP, offset=3))
        assert log.log_end_offset == 4
        assert log.read(3, max_bytes=1000, max_offset=4).position == 0

    def test_magic_2_batch_without_epoch_changes_nothing(self, log):
        append_as_follower(log, self.batch(0, 1), self.batch(1, -1), self.batch(2, 1))
        assert log.leader_epoch_cache.entries == ((1, 0),)

    def test_epochs_are_recovered_after_a_crash(self, log, directory):
        append_as_follower(log, self.batch(0, 2), self.batch(1, 2), self.batch(2, 5))
        log.close_handlers()
        assert recovered(directory).leader_epoch_cache.entries == ((2, 0), (5, 2))


class TestLeaderStartInsideABatch:
    def test_empty_log_restarts_at_the_base_offset_of_the_batch(self, directory):
        log = opened(directory, log_start_offset=11)
        append_as_follower(log, records_batch(b"a", b"b", b"c", base_offset=10))
        assert (log.log_start_offset, log.log_end_offset) == (10, 13)
        assert [segment.base_offset for segment in log.segments] == [10]

    def test_log_whose_records_were_all_deleted_restarts_at_the_batch(self, log, directory):
        append(log, b"a")
        log.roll(now_ms=NOW_MS)
        append(log, b"b", b"c")
        log.maybe_increment_log_start_offset(3)
        append_as_follower(log, records_batch(b"b", b"c", b"d", base_offset=1))
        assert (log.log_start_offset, log.log_end_offset, offsets(log)) == (1, 4, [1, 2, 3])
        assert list(directory.glob("*.deleted")) == []

    @pytest.mark.parametrize(("base_offset", "count"), [(5, 3), (10, 1)])
    def test_batch_that_ends_before_the_log_start_is_rejected(self, directory, base_offset, count):
        log = opened(directory, log_start_offset=11)
        with pytest.raises(UnexpectedAppendOffset) as raised:
            append_as_follower(log, records_batch(*[b"a"] * count, base_offset=base_offset))
        assert raised.value.first_offset == base_offset
        assert (log.log_start_offset, log.log_end_offset) == (11, 11)

    def test_log_with_records_rejects_an_overlapping_batch(self, log):
        append(log, b"a", b"b")
        with pytest.raises(UnexpectedAppendOffset) as raised:
            append_as_follower(log, records_batch(b"b", b"c", base_offset=1))
        assert (raised.value.first_offset, raised.value.last_offset) == (1, 2)
        assert offsets(log) == [0, 1]


class TestGapAtTheStart:
    def test_log_start_offset_stays_though_the_first_segment_is_empty(self, directory):
        log = opened(directory, segment_bytes=100)
        append_as_follower(
            log, *(records_batch(bytes(50), base_offset=offset) for offset in (2, 3))
        )
        assert log.log_start_offset == 0
        log.close(now_ms=NOW_MS)
        recovered_index = opened(directory, segment_bytes=100)
        assert (recovered_index.log_start_offset, recovered_index.log_end_offset) == (0, 4)
        assert offsets(recovered_index) == [2, 3]

    def test_invalid_leader_epoch_is_ignored(self, log):
        batch = records_batch(b"a", base_offset=0)
        batch[12:16] = (-5).to_bytes(4, "big", signed=True)
        append_as_follower(log, batch)
        assert log.leader_epoch_cache.entries == ()
