"""Reading from any offset, also while segments are deleted (S5, S6, S8)."""

from random import Random

import pytest

from odradek.protocol.errors import OffsetOutOfRange
from odradek.protocol.records.batch import HEADER_BYTES
from odradek.protocol.records.compression import Codec
from odradek.protocol.records.record_set import batches_of_any_magic
from odradek.storage.batch_scan import BATCHES_READ_BYTES, HEADERS_READ_BYTES
from odradek.storage.segment_deletion import delete_segment_files
from tests.support.legacy_messages import message, wrapper
from tests.support.logs import (
    NOW_MS,
    append,
    bytes_of,
    end_transaction,
    opened,
    outlived_segments,
    records_batch,
    records_from,
)

SMALL = {"segment_bytes": 700, "index_interval_bytes": 150}


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "events-0"


@pytest.fixture
def log(directory):
    return opened(directory, **SMALL)


def batches_read(log, offset, *, max_bytes=10**6, up_to=None, at_least_one=True):
    """The whole batches that one read returns."""
    up_to = log.log_end_offset if up_to is None else up_to
    region = log.read(offset, max_bytes=max_bytes, max_offset=up_to, at_least_one=at_least_one)
    return list(batches_of_any_magic(bytes_of(region)))


def fill(log):
    """Batches of all kinds and sizes, with gaps as compaction leaves them."""
    for number in range(1, 8):
        append(log, *[bytes(9 * number)] * number, timestamp=NOW_MS + number)
        append(log, *[b"zeros" * 9] * number, codec=Codec.ZSTD)
    fields = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    append(log, b"x", b"y", is_transactional=True, **fields)
    end_transaction(log, producer_id=7, commit=False)
    for gap in (1, 50, 3):
        base_offset = log.log_end_offset + gap
        log.append_as_follower(records_batch(b"a", b"b", base_offset=base_offset), now_ms=NOW_MS)
    end = log.log_end_offset
    inner = message(1, b"b", offset=0) + message(1, b"c", offset=1)
    old = message(0, b"a", offset=end) + wrapper(1, inner, offset=end + 2)
    log.append_as_follower(bytearray(old), now_ms=NOW_MS)
    log.update_high_watermark(log.log_end_offset)


def ranges(log):
    """First and last offset of every batch."""
    actual = []
    for segment in log.segments:
        for _, batch in segment.batches():
            actual.append((batch.base_offset, batch.last_offset))
    return actual


class TestAnyOffset:
    def check_every_offset(self, log):
        stored = ranges(log)
        for offset in range(log.log_start_offset, log.log_end_offset):
            expected = next(offset_range for offset_range in stored if offset_range[1] >= offset)
            batches = batches_read(log, offset, max_bytes=1)
            assert [(batch.base_offset, batch.last_offset) for batch in batches] == [expected]

    def test_s5_first_batch_holds_the_offset_or_is_the_next_existing_one(self, log):
        fill(log)
        assert len(log.segments) > 4
        self.check_every_offset(log)

    def test_s5_first_batch_is_right_after_reopening(self, log, directory):
        fill(log)
        log.close(now_ms=NOW_MS)
        self.check_every_offset(opened(directory, **SMALL))

    def test_s5_first_batch_is_right_without_indexes(self, log, directory):
        fill(log)
        log.close(now_ms=NOW_MS)
        for path in directory.glob("*index"):
            path.unlink()
        self.check_every_offset(opened(directory, **SMALL))

    def test_s5_first_batch_is_right_while_the_log_grows(self, log):
        for number in range(12):
            append(log, *[bytes(40)] * (1 + number % 3))
            self.check_every_offset(log)

    @pytest.mark.parametrize("max_bytes", [1, 200, 500, 10_000])
    def test_s5_consecutive_reads_skip_no_record(self, log, max_bytes):
        fill(log)
        offset, seen = 0, []
        while batches := batches_read(log, offset, max_bytes=max_bytes):
            seen += [(batch.base_offset, batch.last_offset) for batch in batches]
            offset = batches[-1].next_offset
        assert seen == ranges(log)
        assert offset == log.log_end_offset

    def test_s5_no_batch_at_or_beyond_max_offset_is_returned(self, log):
        fill(log)
        stored = ranges(log)
        for up_to in range(log.log_end_offset + 1):
            allowed = [offset_range for offset_range in stored if offset_range[1] < up_to]
            for offset in range(0, up_to, 7):
                batches = batches_read(log, offset, up_to=up_to)
                actual = [(batch.base_offset, batch.last_offset) for batch in batches]
                expected = [offset_range for offset_range in allowed if offset_range[1] >= offset]
                assert actual == expected[: len(actual)]
                assert bool(actual) == bool(expected)

    def test_s5_read_at_or_beyond_max_offset_returns_nothing(self, log):
        fill(log)
        end = log.log_end_offset
        for offset, up_to in ((0, 0), (5, 5), (5, 3), (end, end), (end, 0)):
            assert len(log.read(offset, max_bytes=1000, max_offset=up_to)) == 0

    def test_s5_offset_outside_of_the_log_is_out_of_range(self, log):
        fill(log)
        log.maybe_increment_log_start_offset(4)
        for offset in (-1, 0, 3, log.log_end_offset + 1, 2**63 - 1):
            with pytest.raises(OffsetOutOfRange):
                log.read(offset, max_bytes=1000, max_offset=log.log_end_offset)

    def test_s5_empty_log_can_only_be_read_at_its_end(self, directory):
        log = opened(directory, log_start_offset=50)
        assert len(log.read(50, max_bytes=1000, max_offset=50)) == 0
        for offset in (49, 51):
            with pytest.raises(OffsetOutOfRange):
                log.read(offset, max_bytes=1000, max_offset=50)

    def test_s5_read_returns_nothing_if_all_later_records_were_compacted(self, log):
        append(log, b"a")
        log.roll(now_ms=NOW_MS, base_offset=40)
        log.log_end_offset = 40
        assert len(log.read(20, max_bytes=1000, max_offset=40)) == 0


class TestLargeBatches:
    @pytest.mark.parametrize("size", [1000, HEADERS_READ_BYTES, BATCHES_READ_BYTES + 1])
    def test_s6_first_batch_is_returned_whole(self, directory, size):
        log = opened(directory, max_message_bytes=10**7)
        for _ in range(3):
            append(log, bytes(size))
        for offset in range(3):
            for max_bytes in (0, 1, HEADER_BYTES, size):
                (batch,) = batches_read(log, offset, max_bytes=max_bytes)
                assert (batch.base_offset, batch.is_valid()) == (offset, True)

    def test_s6_consumer_makes_progress_with_any_max_bytes(self, directory):
        log = opened(directory, segment_bytes=4000, index_interval_bytes=150)
        sizes = [10, 2000, 50, 3000, 10]
        for size in sizes:
            append(log, bytes(size))
        offset = 0
        for size in sizes:
            (batch,) = batches_read(log, offset, max_bytes=30)
            assert len(next(batch.records()).value) == size
            offset = batch.next_offset
        assert offset == len(sizes)

    def test_s6_first_batch_may_be_partial_without_at_least_one(self, log):
        append(log, bytes(500))
        region = log.read(0, max_bytes=30, max_offset=1, at_least_one=False)
        assert len(region) == 30
        assert len(log.read(0, max_bytes=0, max_offset=1, at_least_one=False)) == 0

    def test_s6_second_batch_may_be_partial(self, log):
        append(log, b"a")
        first = log.size_bytes
        append(log, b"b")
        region = log.read(0, max_bytes=first + 5, max_offset=2)
        assert len(region) == first + 5
        assert len(batches_read(log, 0, max_bytes=first + 5)) == 1

    def test_s6_first_batch_that_spans_max_offset_is_not_returned(self, log):
        append(log, b"a", b"b", b"c")
        assert batches_read(log, 0, max_bytes=1, up_to=2) == []


class TestConcurrentDeletion:
    @pytest.mark.parametrize("seed", range(5))
    def test_s8_reads_and_deletions_in_any_order(self, directory, seed):
        random = Random(seed)
        log = opened(directory, retention_bytes=2500, **SMALL)
        fetch_offset, start, read_regions = 0, 0, []
        for step in range(150):
            append(log, *[b"%d" % step + bytes(60)] * random.randint(1, 3))
            if random.random() < 0.2:
                log.maybe_increment_log_start_offset(
                    random.randint(log.log_start_offset, log.log_end_offset)
                )
            if random.random() < 0.1:
                delete_segment_files(outlived_segments(log))
            assert log.log_start_offset >= start
            start = log.log_start_offset
            if fetch_offset < start:
                with pytest.raises(OffsetOutOfRange):
                    log.read(fetch_offset, max_bytes=300, max_offset=log.log_end_offset)
                fetch_offset = start
            region = log.read(fetch_offset, max_bytes=300, max_offset=log.log_end_offset)
            batches = list(batches_of_any_magic(bytes_of(region)))
            if batches:
                assert batches[0].base_offset <= fetch_offset <= batches[0].last_offset
                fetch_offset = batches[-1].next_offset
            read_regions.append((region, bytes_of(region)))
        assert start > 0
        for region, content in read_regions:
            assert bytes_of(region) == content
        offsets = [record.offset for record in records_from(log)]
        assert offsets == list(range(log.log_start_offset, log.log_end_offset))

    def test_s8_deleting_everything_keeps_the_log_end_offset(self, log):
        fill(log)
        end = log.log_end_offset
        log.maybe_increment_log_start_offset(end)
        delete_segment_files(outlived_segments(log))
        assert (log.log_start_offset, log.log_end_offset) == (end, end)
        assert append(log, b"next").first_offset == end

    def test_s8_batch_that_spans_the_log_start_is_returned_whole(self, log):
        append(log, b"a", b"b", b"c")
        log.maybe_increment_log_start_offset(2)
        (batch,) = batches_read(log, 2)
        assert batch.base_offset == 0
        assert [record.value for record in records_from(log)] == [b"c"]

    def test_s8_deleted_records_stay_deleted_after_a_restart(self, log, directory):
        fill(log)
        log.maybe_increment_log_start_offset(5)
        log.close(now_ms=NOW_MS)
        reopened = opened(directory, log_start_offset=log.log_start_offset, **SMALL)
        with pytest.raises(OffsetOutOfRange):
            reopened.read(4, max_bytes=1000, max_offset=reopened.log_end_offset)
