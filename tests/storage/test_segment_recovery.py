"""Reading a segment again after an unclean stop."""

import pytest

from odradek.protocol.records.batch import RecordBatch
from odradek.protocol.records.compression import Codec
from odradek.storage.leader_epochs import EpochStart, LeaderEpochs
from odradek.storage.log_segment import LogSegment, SegmentShape
from odradek.storage.paths import Content
from odradek.storage.producers.state import ProducerStates
from odradek.storage.segment_recovery import (
    SegmentRecovery,
    learn_epoch,
    rebuild_transaction_index,
)
from tests.support.batches import batch_of, with_checksum
from tests.support.damage import batch_positions, cut, flip_in_batch, lengthen
from tests.support.legacy_messages import message, wrapper
from tests.support.logs import (
    NOW_MS,
    PARTITION,
    PRODUCER_SETTINGS,
    append,
    end_transaction,
    opened,
    records_batch,
)

BASE = 100
SHAPE = SegmentShape(index_interval_bytes=200, index_bytes_max=4096)
INDEXES = (Content.OFFSET_INDEX, Content.TIME_INDEX, Content.TRANSACTION_INDEX)


def write(directory, batches, shape=SHAPE):
    """A segment that was not closed."""
    segment = LogSegment(directory, BASE, shape)
    segment.create()
    segment.path(Content.BATCHES).write_bytes(b"".join(map(bytes, batches)))
    return LogSegment(directory, BASE, shape)


def recovery_of(segment, producers=None):
    directory = segment.directory
    if producers is None:
        producers = ProducerStates(PARTITION, directory, PRODUCER_SETTINGS)
    recovery = SegmentRecovery(segment, producers, LeaderEpochs(directory))
    recovery.run()
    return recovery


def batches(count, *, size=100, **fields):
    """One record each; timestamps go up and down."""
    return [
        records_batch(bytes(size), base_offset=BASE + number, timestamp=number ^ 5, **fields)
        for number in range(count)
    ]


class TestASoundSegment:
    def test_nothing_is_removed(self, tmp_path):
        written = batches(20)
        recovery = recovery_of(write(tmp_path, written))
        assert recovery.damage is None
        assert recovery.next_offset == BASE + 20
        assert recovery.cut() == 0
        assert (tmp_path / f"{BASE:020}.log").read_bytes() == b"".join(written)

    def test_its_indexes_are_those_that_appending_would_have_made(self, tmp_path):
        written = batches(60)
        (tmp_path / "live").mkdir()
        live = LogSegment(tmp_path / "live", BASE, SHAPE)
        live.create()
        for batch in written:
            live.append([batch], [RecordBatch(batch)])
        live.close()
        recovered = write(tmp_path, written)
        recovery_of(recovered).cut()
        for content in INDEXES[:2]:
            assert recovered.path(content).read_bytes() == live.path(content).read_bytes()
        assert recovered.path(Content.OFFSET_INDEX).stat().st_size > 8 * 10

    def test_rebuilding_its_indexes_makes_the_same(self, tmp_path):
        segment = write(tmp_path, batches(60))
        recovery_of(segment).cut()
        before = [segment.path(content).read_bytes() for content in INDEXES[:2]]
        segment.index.reset()
        segment.time_index.reset()
        assert segment.rebuild_indexes() is None
        assert [segment.path(content).read_bytes() for content in INDEXES[:2]] == before

    def test_the_largest_timestamp_ends_the_time_index(self, tmp_path):
        segment = write(tmp_path, batches(20))
        recovery_of(segment).cut()
        assert segment.time_index.last == segment.largest == (23, BASE + 18)

    def test_whatever_was_in_its_indexes_is_gone(self, tmp_path):
        segment = write(tmp_path, batches(20))
        for content in INDEXES:
            segment.path(content).write_bytes(b"\xff" * 4096)
        recovery_of(LogSegment(tmp_path, BASE, SHAPE)).cut()
        assert LogSegment(tmp_path, BASE, SHAPE).next_offset() == BASE + 20
        assert not segment.path(Content.TRANSACTION_INDEX).exists()

    def test_an_empty_one_stays_empty(self, tmp_path):
        recovery = recovery_of(write(tmp_path, []))
        assert (recovery.damage, recovery.next_offset, recovery.cut()) == (None, BASE, 0)

    def test_gaps_between_offsets_are_as_compaction_left_them(self, tmp_path):
        written = [records_batch(b"a", base_offset=base) for base in (BASE + 7, BASE + 50)]
        recovery = recovery_of(write(tmp_path, written))
        assert (recovery.damage, recovery.next_offset) == (None, BASE + 51)

    def test_a_batch_larger_than_a_read_is_taken_whole(self, tmp_path):
        written = batches(3, size=1_500_000)
        recovery = recovery_of(write(tmp_path, written))
        assert (recovery.damage, recovery.next_offset) == (None, BASE + 3)

    def test_old_formats_are_taken(self, tmp_path):
        inner = message(1, b"b", offset=0) + message(1, b"c", offset=1)
        written = [
            message(0, b"a", offset=BASE),
            wrapper(1, inner, codec=Codec.GZIP, offset=BASE + 2),
            records_batch(b"d", base_offset=BASE + 3),
        ]
        recovery = recovery_of(write(tmp_path, written))
        assert (recovery.damage, recovery.next_offset) == (None, BASE + 4)

    def test_indexes_that_have_become_too_small_are_filled_as_far_as_they_go(self, tmp_path):
        small = SegmentShape(index_interval_bytes=0, index_bytes_max=36)
        segment = write(tmp_path, batches(30), small)
        recovery_of(segment).cut()
        assert segment.index.entries.count == 4
        assert segment.time_index.last == segment.largest
        for offset in range(BASE, BASE + 30):
            assert segment.find(offset).base_offset == offset


def damaged_batch(**changes):
    """A batch at the next offset, with wrong fields and the right checksum for them."""
    batch = bytearray(records_batch(b"bad", base_offset=changes.pop("base_offset", BASE + 2)))
    for position, content in changes.pop("fields", {}).items():
        batch[position : position + len(content)] = content
    return with_checksum(batch)


DAMAGES = {
    "zeros": bytes(200),
    "noise": bytes(range(7, 207)),
    "a few bytes": b"\0\0\0",
    "an offset that was there before": damaged_batch(base_offset=BASE + 1),
    "an offset before the segment": damaged_batch(base_offset=BASE - 1),
    "an offset too far away": damaged_batch(base_offset=BASE + 2**31),
    "a negative offset": damaged_batch(base_offset=-5),
    "a range that reaches back": records_batch(b"a", b"b", base_offset=BASE + 1),
    "a negative count": damaged_batch(fields={57: b"\xff" * 4}),
    "a negative last offset delta": damaged_batch(fields={23: b"\xff" * 4}),
    "a marker that is none": batch_of(
        b"no marker", base_offset=BASE + 2, producer_id=1, producer_epoch=0, is_control=True
    ),
}


class TestADamagedSegment:
    @pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
    def test_it_is_cut_where_the_damage_begins(self, tmp_path, damage):
        whole = b"".join(batches(2))
        segment = write(tmp_path, [whole, damage, *batches(3)[2:]])
        size = segment.size_bytes
        recovery = recovery_of(segment)
        assert recovery.damage is not None
        assert recovery.cut() == size - len(whole)
        assert segment.path(Content.BATCHES).read_bytes() == whole
        assert segment.next_offset() == BASE + 2

    @pytest.mark.parametrize("position", range(16, 70))
    def test_a_flipped_bit_in_what_the_checksum_covers_cuts_it_there(self, tmp_path, position):
        segment = write(tmp_path, batches(3))
        flip_in_batch(segment, 1, position, mask=0x10)
        recovery = recovery_of(segment)
        recovery.cut()
        assert recovery.damage is not None
        assert segment.next_offset() == BASE + 1

    @pytest.mark.parametrize("length", range(1, 169))
    def test_a_torn_last_batch_goes(self, tmp_path, length):
        segment = write(tmp_path, batches(3))
        position = batch_positions(segment)[2]
        cut(segment.path(Content.BATCHES), position + length)
        segment = LogSegment(tmp_path, BASE, SHAPE)
        recovery = recovery_of(segment)
        assert recovery.cut() == length
        assert segment.next_offset() == BASE + 2

    def test_the_room_that_was_allocated_ahead_is_given_back(self, tmp_path):
        shape = SegmentShape(preallocated_bytes=10_000)
        segment = LogSegment(tmp_path, BASE, shape)
        segment.create()
        (batch,) = batches(1)
        segment.append([batch], [RecordBatch(batch)])
        segment.abandon()
        segment = LogSegment(tmp_path, BASE, shape)
        assert segment.size_bytes == 10_000
        recovery_of(segment).cut()
        assert segment.path(Content.BATCHES).read_bytes() == batch

    def test_its_indexes_do_not_lead_beyond_the_cut(self, tmp_path):
        segment = write(tmp_path, batches(40))
        flip_in_batch(segment, 30, 65)
        recovery_of(segment).cut()
        assert segment.index.last.offset < BASE + 30
        assert segment.time_index.last.offset < BASE + 30
        assert segment.largest.timestamp == max(number ^ 5 for number in range(30))


class TestEpochs:
    def learned(self, tmp_path, known, *found):
        epochs = LeaderEpochs(tmp_path, [EpochStart(*each) for each in known])
        for epoch, offset in found:
            batch = records_batch(b"a", base_offset=offset, partition_leader_epoch=epoch)
            learn_epoch(RecordBatch(batch), epochs)
        return list(epochs.entries)

    def test_they_are_learned_from_the_batches(self, tmp_path):
        found = [(1, 0), (1, 1), (4, 2), (4, 3), (5, 4)]
        assert self.learned(tmp_path, [], *found) == [(1, 0), (4, 2), (5, 4)]

    def test_what_is_known_stays_though_its_first_batch_was_compacted(self, tmp_path):
        known = [(1, 0), (4, 50)]
        assert self.learned(tmp_path, known, (1, 30), (4, 70)) == known

    def test_what_the_batches_contradict_goes(self, tmp_path):
        known = [(4, 50), (5, 100)]
        assert self.learned(tmp_path, known, (4, 90), (4, 110)) == [(4, 50)]
        assert self.learned(tmp_path, known, (4, 90), (6, 95)) == [(4, 50), (6, 95)]

    def test_a_batch_without_one_tells_nothing(self, tmp_path):
        assert self.learned(tmp_path, [(4, 50)], (-1, 60)) == [(4, 50)]


class TestTransactions:
    @pytest.fixture
    def log(self, tmp_path):
        log = opened(tmp_path / "events-0")
        fields = {"producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
        for producer_id in (1, 2, 3):
            append(log, b"x", producer_id=producer_id, **fields)
        end_transaction(log, producer_id=1, commit=False)
        log.roll(now_ms=NOW_MS)
        end_transaction(log, producer_id=3, commit=True)
        end_transaction(log, producer_id=2, commit=False)
        log.flush(now_ms=NOW_MS)
        return log

    def test_they_are_found_again_in_all_segments(self, log):
        expected = [list(segment.transaction_index.entries) for segment in log.segments]
        assert [len(entries) for entries in expected] == [1, 1]
        producers = ProducerStates(PARTITION, log.directory, PRODUCER_SETTINGS)
        for segment, entries in zip(log.segments, expected, strict=True):
            recovery_of(segment, producers).cut()
            assert list(segment.transaction_index.entries) == entries

    def test_an_index_is_made_anew_up_to_the_first_bad_batch(self, log):
        first, active = log.segments
        producers = ProducerStates(PARTITION, log.directory, PRODUCER_SETTINGS)
        assert rebuild_transaction_index(first, producers) is None
        flip_in_batch(active, 1, 65)
        assert rebuild_transaction_index(active, producers) is not None
        assert list(active.transaction_index.entries) == []


def test_zeros_after_a_sound_segment_are_cut_off(tmp_path):
    segment = write(tmp_path, batches(2))
    lengthen(segment.path(Content.BATCHES), bytes(5))
    segment = LogSegment(tmp_path, BASE, SHAPE)
    assert recovery_of(segment).cut() == 5
