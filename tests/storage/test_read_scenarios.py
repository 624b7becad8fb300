"""Reading from any offset, whatever happens to the log meanwhile (S5, S6, S8)."""

from random import Random

import pytest

from odradek.protocol.errors import OffsetOutOfRange
from odradek.protocol.records.batch import HEADER_BYTES
from odradek.protocol.records.compression import Codec
from odradek.protocol.records.record_set import batches_of_any_magic
from odradek.storage.batch_scan import BATCHES_READ_BYTES, HEADERS_READ_BYTES
from odradek.storage.deletion import remove
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
    up_to = log.end_offset if up_to is None else up_to
    region = log.read(offset, max_bytes=max_bytes, up_to=up_to, at_least_one=at_least_one)
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
        base_offset = log.end_offset + gap
        log.append_as_follower(records_batch(b"a", b"b", base_offset=base_offset), now_ms=NOW_MS)
    end = log.end_offset
    inner = message(1, b"b", offset=0) + message(1, b"c", offset=1)
    old = message(0, b"a", offset=end) + wrapper(1, inner, offset=end + 2)
    log.append_as_follower(bytearray(old), now_ms=NOW_MS)
    log.advance_high_watermark(log.end_offset)


def ranges(log):
    """First and last offset of every batch."""
    found = []
    for segment in log.segments:
        for _, batch in segment.batches():
            found.append((batch.base_offset, batch.last_offset))
    return found


class TestAnyOffset:
    def check_every_offset(self, log):
        stored = ranges(log)
        for offset in range(log.start_offset, log.end_offset):
            expected = next(each for each in stored if each[1] >= offset)
            batches = batches_read(log, offset, max_bytes=1)
            assert [(each.base_offset, each.last_offset) for each in batches] == [expected]

    def test_s5_the_first_batch_holds_the_offset_or_is_the_next_that_is_there(self, log):
        fill(log)
        assert len(log.segments) > 4
        self.check_every_offset(log)

    def test_s5_so_it_does_after_reopening(self, log, directory):
        fill(log)
        log.close(now_ms=NOW_MS)
        self.check_every_offset(opened(directory, **SMALL))

    def test_s5_so_it_does_without_indexes(self, log, directory):
        fill(log)
        log.close(now_ms=NOW_MS)
        for path in directory.glob("*index"):
            path.unlink()
        self.check_every_offset(opened(directory, **SMALL))

    def test_s5_so_it_does_while_the_log_grows(self, log):
        for number in range(12):
            append(log, *[bytes(40)] * (1 + number % 3))
            self.check_every_offset(log)

    @pytest.mark.parametrize("max_bytes", [1, 200, 500, 10_000])
    def test_s5_from_read_to_read_no_record_is_passed_over(self, log, max_bytes):
        fill(log)
        offset, seen = 0, []
        while batches := batches_read(log, offset, max_bytes=max_bytes):
            seen += [(batch.base_offset, batch.last_offset) for batch in batches]
            offset = batches[-1].next_offset
        assert seen == ranges(log)
        assert offset == log.end_offset

    def test_s5_nothing_at_or_beyond_the_bound_is_returned(self, log):
        fill(log)
        stored = ranges(log)
        for up_to in range(log.end_offset + 1):
            allowed = [each for each in stored if each[1] < up_to]
            for offset in range(0, up_to, 7):
                batches = batches_read(log, offset, up_to=up_to)
                found = [(batch.base_offset, batch.last_offset) for batch in batches]
                wanted = [each for each in allowed if each[1] >= offset]
                assert found == wanted[: len(found)]
                assert bool(found) == bool(wanted)

    def test_s5_at_the_bound_and_beyond_it_nothing_is_returned(self, log):
        fill(log)
        end = log.end_offset
        for offset, up_to in ((0, 0), (5, 5), (5, 3), (end, end), (end, 0)):
            assert len(log.read(offset, max_bytes=1000, up_to=up_to)) == 0

    def test_s5_outside_of_the_log_is_an_error(self, log):
        fill(log)
        log.advance_start(4)
        for offset in (-1, 0, 3, log.end_offset + 1, 2**63 - 1):
            with pytest.raises(OffsetOutOfRange):
                log.read(offset, max_bytes=1000, up_to=log.end_offset)

    def test_s5_an_empty_log_has_its_end_and_nothing_else(self, directory):
        log = opened(directory, start_offset=50)
        assert len(log.read(50, max_bytes=1000, up_to=50)) == 0
        for offset in (49, 51):
            with pytest.raises(OffsetOutOfRange):
                log.read(offset, max_bytes=1000, up_to=50)

    def test_s5_after_all_records_behind_an_offset_were_compacted_there_are_none(self, log):
        append(log, b"a")
        log.roll(now_ms=NOW_MS, base_offset=40)
        log.end_offset = 40
        assert len(log.read(20, max_bytes=1000, up_to=40)) == 0


class TestLargeBatches:
    @pytest.mark.parametrize("size", [1000, HEADERS_READ_BYTES, BATCHES_READ_BYTES + 1])
    def test_s6_the_first_is_returned_whole(self, directory, size):
        log = opened(directory, max_message_bytes=10**7)
        for _ in range(3):
            append(log, bytes(size))
        for offset in range(3):
            for max_bytes in (0, 1, HEADER_BYTES, size):
                (batch,) = batches_read(log, offset, max_bytes=max_bytes)
                assert (batch.base_offset, batch.is_valid()) == (offset, True)

    def test_s6_a_consumer_makes_progress_whatever_it_asks_for(self, directory):
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

    def test_s6_unless_it_need_not_be_whole(self, log):
        append(log, bytes(500))
        region = log.read(0, max_bytes=30, up_to=1, at_least_one=False)
        assert len(region) == 30
        assert len(log.read(0, max_bytes=0, up_to=1, at_least_one=False)) == 0

    def test_s6_the_second_may_be_cut(self, log):
        append(log, b"a")
        first = log.size_bytes
        append(log, b"b")
        region = log.read(0, max_bytes=first + 5, up_to=2)
        assert len(region) == first + 5
        assert len(batches_read(log, 0, max_bytes=first + 5)) == 1

    def test_s6_a_batch_that_holds_the_bound_is_not_returned_even_if_it_is_the_first(self, log):
        append(log, b"a", b"b", b"c")
        assert batches_read(log, 0, max_bytes=1, up_to=2) == []


class TestDeletionMeanwhile:
    @pytest.mark.parametrize("seed", range(5))
    def test_s8_readers_and_deletions_in_any_order(self, directory, seed):
        random = Random(seed)
        log = opened(directory, retention_bytes=2500, **SMALL)
        position, start, lent = 0, 0, []
        for step in range(150):
            append(log, *[b"%d" % step + bytes(60)] * random.randint(1, 3))
            if random.random() < 0.2:
                log.advance_start(random.randint(log.start_offset, log.end_offset))
            if random.random() < 0.1:
                remove(outlived_segments(log))
            assert log.start_offset >= start
            start = log.start_offset
            if position < start:
                with pytest.raises(OffsetOutOfRange):
                    log.read(position, max_bytes=300, up_to=log.end_offset)
                position = start
            region = log.read(position, max_bytes=300, up_to=log.end_offset)
            batches = list(batches_of_any_magic(bytes_of(region)))
            if batches:
                assert batches[0].base_offset <= position <= batches[0].last_offset
                position = batches[-1].next_offset
            lent.append((region, bytes_of(region)))
        assert start > 0
        for region, content in lent:
            assert bytes_of(region) == content
        offsets = [record.offset for record in records_from(log)]
        assert offsets == list(range(log.start_offset, log.end_offset))

    def test_s8_deleting_everything_leaves_the_end_where_it_is(self, log):
        fill(log)
        end = log.end_offset
        log.advance_start(end)
        remove(outlived_segments(log))
        assert (log.start_offset, log.end_offset) == (end, end)
        assert append(log, b"next").first_offset == end

    def test_s8_a_start_inside_a_batch_is_the_readers_to_observe(self, log):
        append(log, b"a", b"b", b"c")
        log.advance_start(2)
        (batch,) = batches_read(log, 2)
        assert batch.base_offset == 0
        assert [record.value for record in records_from(log)] == [b"c"]

    def test_s8_what_was_deleted_stays_so_after_a_restart(self, log, directory):
        fill(log)
        log.advance_start(5)
        log.close(now_ms=NOW_MS)
        again = opened(directory, start_offset=log.start_offset, **SMALL)
        with pytest.raises(OffsetOutOfRange):
            again.read(4, max_bytes=1000, up_to=again.end_offset)
