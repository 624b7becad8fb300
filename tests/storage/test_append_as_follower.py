"""A log that takes over what its leader numbered."""

import pytest

from odradek.protocol.records.compression import Codec
from odradek.storage.admission.errors import LaterLeaderEpoch, UnexpectedAppendOffset
from odradek.storage.log_lookup import of_largest_timestamp
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


def take(log, *records):
    written = log.append_as_follower(bytearray(b"".join(records)), now_ms=NOW_MS)
    log.advance_high_watermark(log.end_offset)
    return written


def offsets(log):
    return [record.offset for record in records_from(log)]


class TestASetOfBatches:
    def test_it_is_taken_whole(self, log):
        written = take(
            log,
            records_batch(b"a", b"b", base_offset=0),
            records_batch(b"c", base_offset=2),
            records_batch(b"d", base_offset=9),
        )
        assert (written.first_offset, written.last_offset) == (0, 9)
        assert offsets(log) == [0, 1, 2, 9]

    def test_each_batch_in_it_is_indexed_where_it_is_as_after_a_recovery(self, log, directory):
        for first in (0, 40):
            take(
                log,
                *(records_batch(bytes(50), b"b", base_offset=first + 2 * n) for n in range(20)),
            )
        index = log.segments.active.index
        noted = [index.entry(slot) for slot in range(index.entries.count)]
        places = {place.position: place.last_offset for place in log.segments.active.places()}
        assert len(noted) > 30
        assert all(places[entry.position] == entry.offset for entry in noted)
        log.abandon()
        again = recovered(directory, index_interval_bytes=0).segments.active.index
        assert [again.entry(slot) for slot in range(again.entries.count)] == noted

    def test_an_index_that_finds_no_room_leaves_none_of_it_noted(self, log):
        batches = [records_batch(b"a", base_offset=offset) for offset in range(3)]
        with FaultyDisk(counting={"fallocate"}, fail_at=2), pytest.raises(OSError, match="output"):
            take(log, *batches)
        assert log.end_offset == 0
        assert log.segments.active.index.entries.count == 0
        take(log, *batches)
        assert offsets(log) == [0, 1, 2]

    def test_every_batch_in_it_can_be_found(self, log):
        for first in range(0, 30, 6):
            batches = [records_batch(b"a", b"b", base_offset=first + n) for n in (0, 2, 4)]
            take(log, *batches)
        for offset in range(30):
            assert batches_from(log, offset)[0].base_offset == offset - offset % 2

    def test_its_largest_timestamp_is_found(self, log):
        times = (10, 90, 20)
        take(log, *(records_batch(b"a", base_offset=n, timestamp=t) for n, t in enumerate(times)))
        assert of_largest_timestamp(log)[:2] == (1, 90)
        assert log.segments.active.largest == (90, 1)

    def test_what_a_later_leader_wrote_into_the_file_is_not_taken(self, log):
        batches = [
            records_batch(b"a", base_offset=number, partition_leader_epoch=epoch)
            for number, epoch in enumerate([3, 4, 5, 4])
        ]
        log.append_as_follower(bytearray(b"".join(batches)), leader_epoch=4, now_ms=NOW_MS)
        assert log.end_offset == 2
        assert log.size_bytes == sum(map(len, batches[:2]))
        assert log.epochs.latest_epoch == 4
        with pytest.raises(LaterLeaderEpoch):
            log.append_as_follower(bytearray(batches[2]), leader_epoch=4, now_ms=NOW_MS)
        log.append_as_follower(bytearray(batches[2]), leader_epoch=5, now_ms=NOW_MS)
        assert log.end_offset == 3

    def test_a_batch_that_is_cut_at_its_end_is_left_for_the_next_fetch(self, log):
        torn = records_batch(b"b", base_offset=1)[:-3]
        written = take(log, records_batch(b"a", base_offset=0), torn)
        assert (written.last_offset, log.end_offset) == (0, 1)
        assert log.size_bytes == len(records_batch(b"a"))


class TestEpochs:
    def batch(self, offset, epoch):
        return records_batch(b"a", base_offset=offset, partition_leader_epoch=epoch)

    def test_they_are_noted_where_they_begin(self, log):
        take(log, self.batch(0, 2), self.batch(1, 2), self.batch(2, 5))
        take(log, self.batch(3, 5), self.batch(4, 6))
        assert log.epochs.entries == ((2, 0), (5, 2), (6, 4))

    def test_one_that_nothing_was_appended_in_gives_way_to_an_older(self, log):
        take(log, self.batch(0, 1))
        log.epochs.assign(5, start_offset=1)
        take(log, self.batch(1, 3))
        assert log.epochs.entries == ((1, 0), (3, 1))

    def test_an_old_format_clears_them(self, log):
        take(log, self.batch(0, 1))
        take(log, message(1, b"a", offset=1))
        assert log.epochs.entries == ()
        take(log, self.batch(2, 4))
        assert log.epochs.entries == ((4, 2),)

    def test_an_old_wrapper_is_taken_though_nobody_can_unpack_it(self, log):
        take(log, message(1, b"no gzip at all", attributes=Codec.GZIP, offset=3))
        assert log.end_offset == 4
        assert log.read(3, max_bytes=1000, up_to=4).position == 0

    def test_none_in_a_batch_of_the_new_format_changes_nothing(self, log):
        take(log, self.batch(0, 1), self.batch(1, -1), self.batch(2, 1))
        assert log.epochs.entries == ((1, 0),)

    def test_they_are_the_same_after_a_crash(self, log, directory):
        take(log, self.batch(0, 2), self.batch(1, 2), self.batch(2, 5))
        log.abandon()
        assert recovered(directory).epochs.entries == ((2, 0), (5, 2))


class TestALeaderThatStartsInsideABatch:
    def test_an_empty_log_begins_again_at_that_batch(self, directory):
        log = opened(directory, start_offset=11)
        take(log, records_batch(b"a", b"b", b"c", base_offset=10))
        assert (log.start_offset, log.end_offset) == (10, 13)
        assert [segment.base_offset for segment in log.segments] == [10]

    def test_so_does_one_whose_records_have_all_been_deleted(self, log, directory):
        append(log, b"a")
        log.roll(now_ms=NOW_MS)
        append(log, b"b", b"c")
        log.advance_start(3)
        take(log, records_batch(b"b", b"c", b"d", base_offset=1))
        assert (log.start_offset, log.end_offset, offsets(log)) == (1, 4, [1, 2, 3])
        assert list(directory.glob("*.deleted")) == []

    @pytest.mark.parametrize(("base_offset", "count"), [(5, 3), (10, 1)])
    def test_a_batch_that_ends_before_the_log_does_not_begin_it(
        self, directory, base_offset, count
    ):
        log = opened(directory, start_offset=11)
        with pytest.raises(UnexpectedAppendOffset) as refused:
            take(log, records_batch(*[b"a"] * count, base_offset=base_offset))
        assert refused.value.first_offset == base_offset
        assert (log.start_offset, log.end_offset) == (11, 11)

    def test_a_log_with_records_refuses_it(self, log):
        append(log, b"a", b"b")
        with pytest.raises(UnexpectedAppendOffset) as refused:
            take(log, records_batch(b"b", b"c", base_offset=1))
        assert (refused.value.first_offset, refused.value.last_offset) == (1, 2)
        assert offsets(log) == [0, 1]


class TestALeaderThatBeginsWithAGap:
    def test_the_log_starts_where_it_did_even_if_its_first_segment_stays_empty(self, directory):
        log = opened(directory, segment_bytes=100)
        take(log, *(records_batch(bytes(50), base_offset=offset) for offset in (2, 3)))
        assert log.start_offset == 0
        log.close(now_ms=NOW_MS)
        again = opened(directory, segment_bytes=100)
        assert (again.start_offset, again.end_offset) == (0, 4)
        assert offsets(again) == [2, 3]

    def test_a_leader_epoch_that_is_none_is_left_alone(self, log):
        batch = records_batch(b"a", base_offset=0)
        batch[12:16] = (-5).to_bytes(4, "big", signed=True)
        take(log, batch)
        assert log.epochs.entries == ()
