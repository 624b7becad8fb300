"""Recovering a segment after an unclean shutdown."""

import pytest

from odradek.protocol.records.batch import RecordBatch
from odradek.protocol.records.compression import Codec
from odradek.storage.leader_epoch_file_cache import EpochEntry, LeaderEpochFileCache
from odradek.storage.log_segment import LogSegment, SegmentConfig
from odradek.storage.paths import LogFileType
from odradek.storage.producer_state.producer_state_manager import ProducerStateManager
from odradek.storage.segment_recovery import (
    SegmentRecovery,
    rebuild_transaction_index,
    update_leader_epochs,
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
CONFIG = SegmentConfig(index_interval_bytes=200, index_bytes_max=4096)
INDEXES = (LogFileType.OFFSET_INDEX, LogFileType.TIME_INDEX, LogFileType.TRANSACTION_INDEX)


def write(directory, batches, config=CONFIG):
    """Write a segment that was not closed."""
    segment = LogSegment(directory, BASE, config)
    segment.create()
    segment.path(LogFileType.LOG).write_bytes(b"".join(map(bytes, batches)))
    return LogSegment(directory, BASE, config)


def recover(segment, producers=None):
    directory = segment.directory
    if producers is None:
        producers = ProducerStateManager(PARTITION, directory, PRODUCER_SETTINGS)
    recovery = SegmentRecovery(segment, producers, LeaderEpochFileCache(directory))
    recovery.run()
    return recovery


def batches(count, *, size=100, **fields):
    """Batches of one record each, with timestamps that go up and down."""
    return [
        records_batch(bytes(size), base_offset=BASE + number, timestamp=number ^ 5, **fields)
        for number in range(count)
    ]


class TestIntactSegment:
    def test_nothing_is_removed(self, tmp_path):
        stored = batches(20)
        recovery = recover(write(tmp_path, stored))
        assert recovery.error is None
        assert recovery.next_offset == BASE + 20
        assert recovery.truncate() == 0
        assert (tmp_path / f"{BASE:020}.log").read_bytes() == b"".join(stored)

    def test_rebuilt_indexes_equal_those_written_by_appends(self, tmp_path):
        stored = batches(60)
        (tmp_path / "live").mkdir()
        live = LogSegment(tmp_path / "live", BASE, CONFIG)
        live.create()
        for batch in stored:
            live.append([batch], [RecordBatch(batch)])
        live.close()
        recovered = write(tmp_path, stored)
        recover(recovered).truncate()
        for content in INDEXES[:2]:
            assert recovered.path(content).read_bytes() == live.path(content).read_bytes()
        assert recovered.path(LogFileType.OFFSET_INDEX).stat().st_size > 8 * 10

    def test_rebuild_indexes_gives_the_same_indexes(self, tmp_path):
        segment = write(tmp_path, batches(60))
        recover(segment).truncate()
        before = [segment.path(content).read_bytes() for content in INDEXES[:2]]
        segment.offset_index.reset()
        segment.time_index.reset()
        assert segment.rebuild_indexes() is None
        assert [segment.path(content).read_bytes() for content in INDEXES[:2]] == before

    def test_time_index_ends_with_the_max_timestamp(self, tmp_path):
        segment = write(tmp_path, batches(20))
        recover(segment).truncate()
        assert segment.time_index.last_entry == segment.max_timestamp_and_offset == (23, BASE + 18)

    def test_old_index_content_is_discarded(self, tmp_path):
        segment = write(tmp_path, batches(20))
        for content in INDEXES:
            segment.path(content).write_bytes(b"\xff" * 4096)
        recover(LogSegment(tmp_path, BASE, CONFIG)).truncate()
        assert LogSegment(tmp_path, BASE, CONFIG).read_next_offset() == BASE + 20
        assert not segment.path(LogFileType.TRANSACTION_INDEX).exists()

    def test_empty_segment_stays_empty(self, tmp_path):
        recovery = recover(write(tmp_path, []))
        assert (recovery.error, recovery.next_offset, recovery.truncate()) == (None, BASE, 0)

    def test_offset_gaps_left_by_compaction_are_accepted(self, tmp_path):
        stored = [records_batch(b"a", base_offset=base) for base in (BASE + 7, BASE + 50)]
        recovery = recover(write(tmp_path, stored))
        assert (recovery.error, recovery.next_offset) == (None, BASE + 51)

    def test_batch_larger_than_the_read_size_is_accepted(self, tmp_path):
        stored = batches(3, size=1_500_000)
        recovery = recover(write(tmp_path, stored))
        assert (recovery.error, recovery.next_offset) == (None, BASE + 3)

    def test_legacy_formats_are_accepted(self, tmp_path):
        inner = message(1, b"b", offset=0) + message(1, b"c", offset=1)
        stored = [
            message(0, b"a", offset=BASE),
            wrapper(1, inner, codec=Codec.GZIP, offset=BASE + 2),
            records_batch(b"d", base_offset=BASE + 3),
        ]
        recovery = recover(write(tmp_path, stored))
        assert (recovery.error, recovery.next_offset) == (None, BASE + 4)

    def test_indexes_with_a_lowered_limit_are_filled_up_to_it(self, tmp_path):
        small = SegmentConfig(index_interval_bytes=0, index_bytes_max=36)
        segment = write(tmp_path, batches(30), small)
        recover(segment).truncate()
        assert segment.offset_index.entries.count == 4
        assert segment.time_index.last_entry == segment.max_timestamp_and_offset
        for offset in range(BASE, BASE + 30):
            assert segment.translate_offset(offset).base_offset == offset


def damaged_batch(**changes):
    """A batch at the next offset, with wrong fields and a matching checksum."""
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
    "an invalid marker": batch_of(
        b"no marker", base_offset=BASE + 2, producer_id=1, producer_epoch=0, is_control=True
    ),
}


class TestDamagedSegment:
    @pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
    def test_segment_is_truncated_where_the_damage_begins(self, tmp_path, damage):
        intact = b"".join(batches(2))
        segment = write(tmp_path, [intact, damage, *batches(3)[2:]])
        size = segment.size_bytes
        recovery = recover(segment)
        assert recovery.error is not None
        assert recovery.truncate() == size - len(intact)
        assert segment.path(LogFileType.LOG).read_bytes() == intact
        assert segment.read_next_offset() == BASE + 2

    @pytest.mark.parametrize("position", range(16, 70))
    def test_flipped_bit_covered_by_the_checksum_truncates_there(self, tmp_path, position):
        segment = write(tmp_path, batches(3))
        flip_in_batch(segment, 1, position, mask=0x10)
        recovery = recover(segment)
        recovery.truncate()
        assert recovery.error is not None
        assert segment.read_next_offset() == BASE + 1

    @pytest.mark.parametrize("length", range(1, 169))
    def test_torn_last_batch_is_removed(self, tmp_path, length):
        segment = write(tmp_path, batches(3))
        position = batch_positions(segment)[2]
        cut(segment.path(LogFileType.LOG), position + length)
        segment = LogSegment(tmp_path, BASE, CONFIG)
        recovery = recover(segment)
        assert recovery.truncate() == length
        assert segment.read_next_offset() == BASE + 2

    def test_preallocated_space_is_freed(self, tmp_path):
        config = SegmentConfig(preallocated_bytes=10_000)
        segment = LogSegment(tmp_path, BASE, config)
        segment.create()
        (batch,) = batches(1)
        segment.append([batch], [RecordBatch(batch)])
        segment.close_handlers()
        segment = LogSegment(tmp_path, BASE, config)
        assert segment.size_bytes == 10_000
        recover(segment).truncate()
        assert segment.path(LogFileType.LOG).read_bytes() == batch

    def test_indexes_do_not_point_beyond_the_truncation(self, tmp_path):
        segment = write(tmp_path, batches(40))
        flip_in_batch(segment, 30, 65)
        recover(segment).truncate()
        assert segment.offset_index.last_entry.offset < BASE + 30
        assert segment.time_index.last_entry.offset < BASE + 30
        assert segment.max_timestamp_and_offset.timestamp == max(number ^ 5 for number in range(30))


class TestLeaderEpochs:
    def epochs_after(self, tmp_path, known, *batch_epochs):
        epochs = LeaderEpochFileCache(tmp_path, [EpochEntry(*entry) for entry in known])
        for epoch, offset in batch_epochs:
            batch = records_batch(b"a", base_offset=offset, partition_leader_epoch=epoch)
            update_leader_epochs(RecordBatch(batch), epochs)
        return list(epochs.entries)

    def test_epochs_are_read_from_the_batches(self, tmp_path):
        batch_epochs = [(1, 0), (1, 1), (4, 2), (4, 3), (5, 4)]
        assert self.epochs_after(tmp_path, [], *batch_epochs) == [(1, 0), (4, 2), (5, 4)]

    def test_known_epoch_stays_though_its_first_batch_was_compacted(self, tmp_path):
        known = [(1, 0), (4, 50)]
        assert self.epochs_after(tmp_path, known, (1, 30), (4, 70)) == known

    def test_epochs_that_the_batches_contradict_are_removed(self, tmp_path):
        known = [(4, 50), (5, 100)]
        assert self.epochs_after(tmp_path, known, (4, 90), (4, 110)) == [(4, 50)]
        assert self.epochs_after(tmp_path, known, (4, 90), (6, 95)) == [(4, 50), (6, 95)]

    def test_batch_without_epoch_changes_nothing(self, tmp_path):
        assert self.epochs_after(tmp_path, [(4, 50)], (-1, 60)) == [(4, 50)]


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

    def test_aborted_transactions_are_recovered_in_all_segments(self, log):
        expected = [list(segment.transaction_index.entries) for segment in log.segments]
        assert [len(entries) for entries in expected] == [1, 1]
        producers = ProducerStateManager(PARTITION, log.directory, PRODUCER_SETTINGS)
        for segment, entries in zip(log.segments, expected, strict=True):
            recover(segment, producers).truncate()
            assert list(segment.transaction_index.entries) == entries

    def test_transaction_index_is_rebuilt_up_to_the_first_damaged_batch(self, log):
        first, active = log.segments
        producers = ProducerStateManager(PARTITION, log.directory, PRODUCER_SETTINGS)
        assert rebuild_transaction_index(first, producers) is None
        flip_in_batch(active, 1, 65)
        assert rebuild_transaction_index(active, producers) is not None
        assert list(active.transaction_index.entries) == []


def test_zeros_after_an_intact_segment_are_removed(tmp_path):
    segment = write(tmp_path, batches(2))
    lengthen(segment.path(LogFileType.LOG), bytes(5))
    segment = LogSegment(tmp_path, BASE, CONFIG)
    assert recover(segment).truncate() == 5
