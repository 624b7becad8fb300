"""Compaction, rule by rule: what stays of a log and what goes."""

import pickle

import pytest

from odradek.protocol.errors import CorruptMessage
from odradek.protocol.records.builder import BatchBuilder, BatchFields
from odradek.protocol.records.compression import Codec
from odradek.protocol.records.record import Header
from odradek.storage import files
from odradek.storage.cleaner import Cleaning, CleaningStopped, Pace, clean, discard
from odradek.storage.paths import Content
from odradek.storage.settings import TopicSettings
from tests.support.compaction import (
    append_pairs,
    base_offsets,
    committed_records,
    compact,
    sealed,
    stored_batches,
    stored_pairs,
    task_of,
    until_stopped,
)
from tests.support.logs import NOW_MS, end_transaction, opened, recovered

DAY_MS = 24 * 3_600_000
TRANSACTIONAL = {"producer_epoch": 0, "is_transactional": True}


@pytest.fixture
def log(tmp_path):
    return opened(tmp_path / "events-0", cleanup_policy=("compact",))


def cleaned_files(log):
    return [path.name for path in log.directory.iterdir() if path.name.endswith(".cleaned")]


class TestRecords:
    def test_of_every_key_the_last_record_stays_at_its_offset(self, log):
        append_pairs(log, (b"a", b"1"), (b"b", b"1"))
        append_pairs(log, (b"a", b"2"), (b"c", b"1"))
        append_pairs(log, (b"a", b"3"))
        compact(sealed(log))
        assert stored_pairs(log) == {1: (b"b", b"1"), 3: (b"c", b"1"), 4: (b"a", b"3")}

    def test_the_active_segment_is_left_alone(self, log):
        append_pairs(log, (b"a", b"1"))
        sealed(log)
        append_pairs(log, (b"a", b"2"), (b"a", b"3"))
        compact(log)
        assert list(stored_pairs(log)) == [0, 1, 2]

    def test_a_record_of_the_clean_part_goes_when_its_key_is_written_again(self, log):
        append_pairs(log, (b"a", b"1"), (b"b", b"1"))
        first = compact(sealed(log))
        append_pairs(log, (b"a", b"2"))
        compact(sealed(log), checkpoint=first.end_offset)
        assert stored_pairs(log) == {1: (b"b", b"1"), 2: (b"a", b"2")}

    def test_a_record_without_a_key_goes_and_is_counted(self, log):
        log.configure(TopicSettings())
        append_pairs(log, (None, b"1"), (b"a", b"1"))
        plan = compact(sealed(log))
        assert list(stored_pairs(log)) == [1]
        assert plan.statistics.keyless_records == 1

    def test_keys_that_are_empty_or_as_long_as_a_digest_are_told_apart(self, log):
        keys = [b"", b"sixteen bytes...", b"k" * 31, b"k" * 32, b"k" * 33]
        append_pairs(log, *((key, b"1") for key in keys))
        append_pairs(log, *((key, b"2") for key in keys))
        compact(sealed(log))
        assert list(stored_pairs(log).values()) == [(key, b"2") for key in keys]

    def test_headers_and_timestamps_stay_as_they_were(self, log):
        builder = BatchBuilder(BatchFields(codec=Codec.GZIP))
        headers = (Header("name", b"value"), Header("none", None))
        for number, key in enumerate((b"a", b"b", b"b", b"c")):
            builder.append(timestamp=NOW_MS - number, key=key, value=b"v", headers=headers)
        log.append_as_leader(builder.build(), leader_epoch=0, now_ms=NOW_MS)
        log.advance_high_watermark(log.end_offset)
        compact(sealed(log))
        (batch,) = stored_batches(log)
        assert [(record.offset, record.timestamp, record.headers) for record in batch] == [
            (0, NOW_MS, headers),
            (2, NOW_MS - 2, headers),
            (3, NOW_MS - 3, headers),
        ]
        assert batch.codec is Codec.GZIP


class TestBatches:
    def test_a_batch_that_loses_nothing_is_copied_byte_for_byte(self, log):
        append_pairs(log, (b"a", b"1"), (b"b", b"1"), codec=Codec.ZSTD, timestamp=NOW_MS - 7)
        before = bytes(stored_batches(log)[0].view)
        append_pairs(log, (b"c", b"1"), (b"c", b"2"))
        compact(sealed(log))
        assert bytes(stored_batches(log)[0].view) == before

    def test_a_batch_that_loses_records_keeps_its_range_and_finds_its_largest_timestamp(self, log):
        builder = BatchBuilder(BatchFields(producer_id=5, producer_epoch=1, base_sequence=7))
        for key, timestamp in ((b"a", NOW_MS - 9), (b"b", NOW_MS), (b"c", NOW_MS - 5)):
            builder.append(timestamp=timestamp, key=key, value=b"1")
        log.append_as_leader(builder.build(), leader_epoch=3, now_ms=NOW_MS)
        append_pairs(log, (b"b", b"2"), (b"a", b"2"))
        compact(sealed(log))
        batch = stored_batches(log)[0]
        assert (batch.base_offset, batch.last_offset, batch.count) == (0, 2, 1)
        assert (batch.base_sequence, batch.last_sequence) == (7, 9)
        assert (batch.partition_leader_epoch, batch.producer_epoch) == (3, 1)
        assert batch.max_timestamp == NOW_MS - 5
        assert [record.timestamp for record in batch] == [NOW_MS - 5]
        batch.check_crc()

    def test_a_batch_goes_with_its_last_record(self, log):
        append_pairs(log, (b"a", b"1"))
        append_pairs(log, (b"a", b"2"))
        compact(sealed(log))
        assert [batch.base_offset for batch in stored_batches(log)] == [1]

    def test_the_batch_with_a_producers_last_sequence_stays_without_records(self, log):
        for sequence in (0, 1):
            fields = {"producer_id": 5, "producer_epoch": 0, "base_sequence": sequence}
            append_pairs(log, (b"a", b"1"), codec=Codec.GZIP, **fields)
        append_pairs(log, (b"a", b"2"))
        compact(sealed(log))
        batch, _ = stored_batches(log)
        assert (batch.base_offset, batch.count, batch.last_sequence) == (1, 0, 1)
        assert batch.max_timestamp == NOW_MS

    def test_the_last_sequence_is_known_after_a_restart_without_snapshots(self, log):
        append_pairs(log, (b"a", b"1"), producer_id=5, producer_epoch=0, base_sequence=8)
        append_pairs(log, (b"a", b"2"))
        compact(sealed(log))
        log.abandon()
        for snapshot in log.directory.glob("*.snapshot"):
            snapshot.unlink()
        again = recovered(log.directory, cleanup_policy=("compact",))
        assert again.producers.states[5].last_sequence == 8

    def test_the_batch_of_a_producer_that_has_expired_goes(self, log):
        append_pairs(log, (b"a", b"1"), producer_id=5, producer_epoch=0, base_sequence=0)
        append_pairs(log, (b"a", b"2"))
        log.producers.expire(NOW_MS + 8 * DAY_MS)
        compact(sealed(log))
        assert [batch.base_offset for batch in stored_batches(log)] == [1]

    def test_the_last_batch_stays_so_that_the_next_offset_is_known(self, log):
        append_pairs(log, (b"a", None))
        first = compact(sealed(log), delete_retention_ms=0)
        compact(log, checkpoint=first.end_offset, delete_retention_ms=0)
        (batch,) = stored_batches(log)
        assert (batch.last_offset, batch.count) == (0, 0)

    def test_log_append_times_stay(self, tmp_path):
        log = opened(
            tmp_path / "events-0",
            cleanup_policy=("compact",),
            message_timestamp_type="LogAppendTime",
        )
        append_pairs(log, (b"a", b"1"), (b"b", b"1"), timestamp=5)
        append_pairs(log, (b"a", b"2"), timestamp=6)
        compact(sealed(log))
        assert [record.timestamp for batch in stored_batches(log) for record in batch] == [
            NOW_MS,
            NOW_MS,
        ]


class TestTombstones:
    def test_a_tombstone_gets_a_horizon_when_it_is_first_found_the_latest(self, log):
        append_pairs(log, (b"a", b"1"))
        append_pairs(log, (b"b", b"1"), (b"a", None), timestamp=NOW_MS - 5)
        plan = compact(sealed(log), delete_retention_ms=DAY_MS)
        (batch,) = stored_batches(log)
        assert batch.delete_horizon_ms == NOW_MS + DAY_MS == plan.next_horizon_ms
        assert stored_pairs(log) == {1: (b"b", b"1"), 2: (b"a", None)}
        assert [record.timestamp for record in batch] == [NOW_MS - 5] * 2
        assert batch.max_timestamp == NOW_MS - 5
        batch.check_crc()

    def test_s9_a_tombstone_stays_until_its_horizon(self, log):
        append_pairs(log, (b"a", None), (b"b", b"1"))
        compact(sealed(log), delete_retention_ms=DAY_MS)
        compact(log, delete_retention_ms=DAY_MS, now_ms=NOW_MS + DAY_MS - 1)
        assert list(stored_pairs(log)) == [0, 1]
        plan = compact(log, delete_retention_ms=DAY_MS, now_ms=NOW_MS + DAY_MS)
        assert list(stored_pairs(log)) == [1]
        assert plan.next_horizon_ms is None

    def test_the_horizon_is_set_once(self, log):
        append_pairs(log, (b"a", None), (b"b", b"1"))
        append_pairs(log, (b"c", None))
        compact(sealed(log), delete_retention_ms=DAY_MS)
        before = log.segments.first.path(Content.BATCHES).read_bytes()
        plan = compact(log, delete_retention_ms=DAY_MS, now_ms=NOW_MS + 5)
        assert plan.replacements == ()
        assert log.segments.first.path(Content.BATCHES).read_bytes() == before

    def test_a_record_that_goes_later_leaves_the_horizon_and_the_timestamps(self, log):
        append_pairs(log, (b"a", None), (b"b", b"1"), timestamp=NOW_MS - 3)
        first = compact(sealed(log), delete_retention_ms=DAY_MS)
        append_pairs(log, (b"b", b"2"))
        compact(sealed(log), checkpoint=first.end_offset, now_ms=NOW_MS + 1)
        batch = stored_batches(log)[0]
        assert batch.delete_horizon_ms == NOW_MS + DAY_MS
        assert [(record.offset, record.timestamp) for record in batch] == [(0, NOW_MS - 3)]

    def test_a_tombstone_that_the_map_does_not_reach_gets_no_horizon(self, log):
        append_pairs(log, (b"a", b"1"))
        append_pairs(log, (b"b", None))
        plan = compact(sealed(log), dedupe_buffer_bytes=1)
        assert plan.end_offset == 1
        assert [batch.delete_horizon_ms for batch in stored_batches(log)] == [None, None]

    def test_a_retention_without_end_is_a_horizon_that_never_comes(self, log):
        append_pairs(log, (b"a", None))
        compact(sealed(log), delete_retention_ms=2**63 - 1)
        assert stored_batches(log)[0].delete_horizon_ms == 2**63 - 1
        assert [record.timestamp for record in stored_batches(log)[0]] == [NOW_MS]


class TestTransactions:
    def test_s9_aborted_records_go_and_hide_nothing(self, log):
        append_pairs(log, (b"a", b"1"))
        append_pairs(log, (b"a", b"2"), producer_id=5, base_sequence=0, **TRANSACTIONAL)
        end_transaction(log, producer_id=5, commit=False)
        compact(sealed(log))
        assert stored_pairs(log) == {0: (b"a", b"1")}

    def test_committed_records_count(self, log):
        append_pairs(log, (b"a", b"1"))
        append_pairs(log, (b"a", b"2"), producer_id=5, base_sequence=0, **TRANSACTIONAL)
        end_transaction(log, producer_id=5, commit=True)
        compact(sealed(log))
        assert stored_pairs(log) == {1: (b"a", b"2")}

    def test_records_of_an_open_transaction_are_left_alone(self, log):
        append_pairs(log, (b"a", b"1"))
        sealed(log)
        append_pairs(log, (b"a", b"2"), producer_id=5, base_sequence=0, **TRANSACTIONAL)
        append_pairs(sealed(log), (b"a", b"3"))
        plan = compact(sealed(log))
        assert list(stored_pairs(log)) == [0, 1, 2]
        assert plan.end_offset == 1

    def test_aborted_records_are_known_by_a_marker_in_a_segment_that_is_left_alone(self, log):
        append_pairs(log, (b"a", b"1"))
        append_pairs(log, (b"a", b"2"), producer_id=5, base_sequence=0, **TRANSACTIONAL)
        sealed(log)
        end_transaction(log, producer_id=5, commit=False)
        compact(log)
        assert stored_pairs(log) == {0: (b"a", b"1")}
        assert [record.offset for record in committed_records(log)] == [0]

    def test_a_marker_stays_while_data_of_its_transaction_does(self, log):
        append_pairs(log, (b"a", b"1"), producer_id=5, base_sequence=0, **TRANSACTIONAL)
        end_transaction(log, producer_id=5, commit=True)
        for days in range(3):
            compact(sealed(log), now_ms=NOW_MS + days * DAY_MS)
        markers = [batch for batch in stored_batches(log) if batch.is_control]
        assert [(batch.count, batch.delete_horizon_ms) for batch in markers] == [(1, None)]

    def test_a_marker_whose_data_is_gone_stays_until_its_horizon(self, log):
        append_pairs(log, (b"a", b"1"), producer_id=5, base_sequence=0, **TRANSACTIONAL)
        end_transaction(log, producer_id=5, commit=True)
        append_pairs(log, (b"a", b"2"))
        log.producers.expire(NOW_MS + 8 * DAY_MS)
        sealed(log)
        horizons = []
        for passed_ms in (0, 1, DAY_MS, DAY_MS + 1):
            compact(log, now_ms=NOW_MS + passed_ms)
            markers = [batch for batch in stored_batches(log) if batch.is_control]
            horizons.append([batch.delete_horizon_ms for batch in markers])
        assert horizons == [[None], [NOW_MS + 1 + DAY_MS], [NOW_MS + 1 + DAY_MS], []]

    def test_the_index_keeps_an_aborted_transaction_while_a_batch_of_it_stays(self, log):
        append_pairs(log, (b"a", b"1"), producer_id=5, base_sequence=0, **TRANSACTIONAL)
        end_transaction(log, producer_id=5, commit=False)
        append_pairs(log, (b"b", b"1"))
        sealed(log)
        compact(log)
        (aborted,) = log.aborted_transactions(start=0, end=3)
        assert (aborted.first_offset, aborted.last_offset) == (0, 1)
        log.producers.expire(NOW_MS + 8 * DAY_MS)
        compact(log)  # the empty batch goes, its transaction has been seen once more
        assert len(log.aborted_transactions(start=0, end=3)) == 1
        compact(log)
        assert log.aborted_transactions(start=0, end=3) == []

    def test_the_marker_that_alone_tells_a_producers_epoch_stays(self, log):
        append_pairs(log, (b"a", b"1"), producer_id=5, base_sequence=0, **TRANSACTIONAL)
        end_transaction(log, producer_id=5, producer_epoch=1, commit=False)
        append_pairs(log, (b"b", b"1"))
        sealed(log)
        for days in range(4):
            compact(log, now_ms=NOW_MS + days * DAY_MS)
        log.abandon()
        for snapshot in log.directory.glob("*.snapshot"):
            snapshot.unlink()
        again = recovered(log.directory, cleanup_policy=("compact",))
        assert again.producers.states[5].epoch == 1

    def test_an_abort_that_no_index_tells_of_stops_the_compaction(self, log):
        append_pairs(log, (b"a", b"1"), producer_id=5, base_sequence=0, **TRANSACTIONAL)
        end_transaction(log, producer_id=5, commit=False)
        sealed(log)
        log.segments.first.path(Content.TRANSACTION_INDEX).unlink()
        with pytest.raises(CorruptMessage, match="no transaction index tells"):
            clean(task_of(log))


class TestSegments:
    def fill(self, directory, *, rounds=8, **settings):
        log = opened(directory, segment_bytes=300, cleanup_policy=("compact",), **settings)
        for number in range(rounds):
            append_pairs(log, (b"a", bytes(100)), (b"%d" % number, bytes(30)))
        return sealed(log)

    def test_neighbours_become_one_while_they_fit_into_a_segment(self, tmp_path):
        log = self.fill(tmp_path / "events-0")
        assert base_offsets(log) == [0, 2, 4, 6, 8, 10, 12, 14, 16]
        compact(log, segment_bytes_max=640)
        assert base_offsets(log) == [0, 6, 12, 16]

    def test_a_segment_that_stays_as_it_is_is_not_replaced(self, tmp_path):
        log = self.fill(tmp_path / "events-0")
        first = compact(log, segment_bytes_max=1)
        again = clean(task_of(log, checkpoint=first.end_offset, segment_bytes_max=1))
        assert again.replacements == ()
        assert cleaned_files(log) == []

    def test_the_time_of_modification_is_that_of_the_last_segment(self, tmp_path):
        log = self.fill(tmp_path / "events-0")
        *_, last, _ = log.segments
        files.set_modified_ns(last.path(Content.BATCHES), 10**18)
        compact(log, segment_bytes_max=10**6)
        assert log.segments.first.path(Content.BATCHES).stat().st_mtime_ns == 10**18

    def test_an_index_that_is_full_is_left_as_it_is(self, tmp_path):
        directory = tmp_path / "events-0"
        self.fill(directory, index_interval_bytes=0).close(now_ms=NOW_MS)
        log = opened(
            directory, index_interval_bytes=0, segment_index_bytes=24, cleanup_policy=("compact",)
        )
        compact(log, segment_bytes_max=10**6, shape=log.shape)
        first = log.segments.first
        assert first.index.entries.count <= 3
        assert first.time_index.last.timestamp == NOW_MS
        assert sorted(stored_pairs(log)) == [1, 3, 5, 7, 9, 11, 13, 14, 15]

    def test_what_was_read_and_written_is_counted(self, log):
        append_pairs(log, (b"a", b"1"), (b"b", b"1"))
        append_pairs(log, (b"a", b"2"))
        size = log.size_bytes
        statistics = compact(sealed(log)).statistics
        assert (statistics.records_read, statistics.records_written) == (3, 2)
        assert (statistics.map_records, statistics.map_bytes) == (3, size)
        assert statistics.bytes_read == size
        assert statistics.bytes_written == log.size_bytes


class TestMemory:
    def test_what_does_not_fit_the_map_is_left_for_the_next_time(self, log):
        for number in range(4):
            append_pairs(log, (b"%d" % number, b"1"))
        append_pairs(log, (b"0", b"2"))
        plan = compact(sealed(log), dedupe_buffer_bytes=2 * 156, dedupe_load_factor=1.0)
        assert plan.end_offset == 2
        assert list(stored_pairs(log)) == [0, 1, 2, 3, 4]
        plan = compact(log, checkpoint=2, dedupe_buffer_bytes=3 * 156, dedupe_load_factor=1.0)
        assert plan.end_offset == 5
        assert list(stored_pairs(log)) == [1, 2, 3, 4]

    def test_a_batch_with_more_keys_than_fit_is_taken_whole(self, log):
        append_pairs(log, *((b"%d" % number, b"1") for number in range(100)))
        append_pairs(log, (b"7", b"2"))
        plan = compact(sealed(log), dedupe_buffer_bytes=1)
        assert plan.end_offset == 100
        assert plan.statistics.map_utilization == 100

    def test_a_log_is_read_in_pieces_of_the_buffer_and_batches_as_large_as_they_are(self, log):
        append_pairs(log, (b"a", bytes(100_000)))
        append_pairs(log, (b"b", bytes(20)), (b"a", bytes(50_000)))
        compact(sealed(log), io_buffer_bytes=0)
        assert list(stored_pairs(log)) == [1, 2]


class TestTroubles:
    def fill(self, log):
        for number in range(20):
            append_pairs(log, (b"a", b"%d" % number), (b"b", bytes(100)))
        return sealed(log)

    @pytest.mark.parametrize("position", [30, 70, 2000])
    def test_a_damaged_batch_stops_the_compaction_and_nothing_has_changed(self, log, position):
        path = self.fill(log).segments.first.path(Content.BATCHES)
        content = bytearray(path.read_bytes())
        content[position] ^= 1
        path.write_bytes(content)
        before = {each.name: each.read_bytes() for each in log.directory.iterdir()}
        with pytest.raises(CorruptMessage, match=path.name):
            clean(task_of(log))
        assert {each.name: each.read_bytes() for each in log.directory.iterdir()} == before

    def test_a_damaged_transaction_index_stops_the_compaction(self, log):
        self.fill(log).segments.first.path(Content.TRANSACTION_INDEX).write_bytes(b"x" * 33)
        with pytest.raises(CorruptMessage, match="txnindex is damaged"):
            clean(task_of(log))

    def test_a_segment_shorter_than_it_was_stops_the_compaction(self, log):
        path = self.fill(log).segments.first.path(Content.BATCHES)
        task = task_of(log)
        path.write_bytes(path.read_bytes()[:-1])
        with pytest.raises(CorruptMessage):
            clean(task)

    @pytest.mark.parametrize("after", [1, 15, 30])
    def test_it_stops_when_asked_and_leaves_nothing_behind(self, log, after):
        task = task_of(self.fill(log))
        pace = Pace(should_stop=until_stopped(after), step_bytes=1)
        with pytest.raises(CleaningStopped):
            clean(task, pace)
        assert cleaned_files(log) == []

    def test_the_one_who_slows_it_down_is_told_of_all_bytes(self, log):
        moved = []
        task = task_of(self.fill(log))
        statistics = clean(task, Pace(pause=moved.append, step_bytes=1)).statistics
        expected = statistics.map_bytes + statistics.bytes_read + statistics.bytes_written
        assert sum(moved) == expected

    def test_what_an_earlier_compaction_left_behind_is_removed(self, log):
        self.fill(log)
        (log.directory / "00000000000000000000.log.cleaned").write_bytes(b"left behind")
        (log.directory / "00000000000000000000.txnindex.cleaned").write_bytes(b"left behind")
        compact(log)
        assert stored_pairs(log) == {38: (b"a", b"19"), 39: (b"b", bytes(100))}
        assert cleaned_files(log) == []

    def test_a_plan_may_be_discarded(self, log):
        clean(task_of(self.fill(log)))
        assert cleaned_files(log)
        discard(log.directory)
        assert cleaned_files(log) == []

    def test_tasks_and_plans_travel_to_another_process_and_back(self, log):
        task = pickle.loads(pickle.dumps(task_of(self.fill(log))))
        plan = clean(task)
        assert pickle.loads(pickle.dumps(plan)) == plan


def test_one_segment_after_the_other_needs_room_for_one_more(tmp_path):
    log = TestSegments().fill(tmp_path / "events-0")
    for replacement in Cleaning(task_of(log, segment_bytes_max=1)).replacements():
        assert {name[:20] for name in cleaned_files(log)} == {f"{replacement.base_offset:020}"}
        discard(log.directory)
