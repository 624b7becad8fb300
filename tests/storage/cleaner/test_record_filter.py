"""Which records, batches and markers remain in a compacted log."""

import pytest

from odradek.protocol.errors import CorruptMessage
from odradek.protocol.records.builder import BatchBuilder, BatchFields
from odradek.protocol.records.compression import Codec
from odradek.protocol.records.record import Header
from odradek.storage.cleaner.cleaner import clean
from odradek.storage.paths import LogFileType
from odradek.storage.settings import TopicSettings
from tests.support.compaction import (
    append_pairs,
    committed_records,
    compact,
    sealed,
    stored_batches,
    stored_pairs,
    task_of,
)
from tests.support.logs import NOW_MS, end_transaction, opened, recovered

DAY_MS = 24 * 3_600_000
TRANSACTIONAL = {"producer_epoch": 0, "is_transactional": True}


@pytest.fixture
def log(tmp_path):
    return opened(tmp_path / "events-0", cleanup_policy=("compact",))


class TestRecords:
    def test_last_record_of_every_key_keeps_its_offset(self, log):
        append_pairs(log, (b"a", b"1"), (b"b", b"1"))
        append_pairs(log, (b"a", b"2"), (b"c", b"1"))
        append_pairs(log, (b"a", b"3"))
        compact(sealed(log))
        assert stored_pairs(log) == {1: (b"b", b"1"), 3: (b"c", b"1"), 4: (b"a", b"3")}

    def test_active_segment_is_not_cleaned(self, log):
        append_pairs(log, (b"a", b"1"))
        sealed(log)
        append_pairs(log, (b"a", b"2"), (b"a", b"3"))
        compact(log)
        assert list(stored_pairs(log)) == [0, 1, 2]

    def test_clean_record_is_removed_when_its_key_is_appended_again(self, log):
        append_pairs(log, (b"a", b"1"), (b"b", b"1"))
        first = compact(sealed(log))
        append_pairs(log, (b"a", b"2"))
        compact(sealed(log), checkpoint=first.end_offset)
        assert stored_pairs(log) == {1: (b"b", b"1"), 2: (b"a", b"2")}

    def test_record_without_a_key_is_removed_and_counted(self, log):
        log.configure(TopicSettings())
        append_pairs(log, (None, b"1"), (b"a", b"1"))
        plan = compact(sealed(log))
        assert list(stored_pairs(log)) == [1]
        assert plan.stats.keyless_records == 1

    def test_empty_keys_and_keys_as_long_as_a_digest_are_distinguished(self, log):
        keys = [b"", b"sixteen bytes...", b"k" * 31, b"k" * 32, b"k" * 33]
        append_pairs(log, *((key, b"1") for key in keys))
        append_pairs(log, *((key, b"2") for key in keys))
        compact(sealed(log))
        assert list(stored_pairs(log).values()) == [(key, b"2") for key in keys]

    def test_headers_and_timestamps_are_unchanged(self, log):
        builder = BatchBuilder(BatchFields(codec=Codec.GZIP))
        headers = (Header("name", b"value"), Header("none", None))
        for number, key in enumerate((b"a", b"b", b"b", b"c")):
            builder.append(timestamp=NOW_MS - number, key=key, value=b"v", headers=headers)
        log.append_as_leader(builder.build(), leader_epoch=0, now_ms=NOW_MS)
        log.update_high_watermark(log.log_end_offset)
        compact(sealed(log))
        (batch,) = stored_batches(log)
        assert [(record.offset, record.timestamp, record.headers) for record in batch] == [
            (0, NOW_MS, headers),
            (2, NOW_MS - 2, headers),
            (3, NOW_MS - 3, headers),
        ]
        assert batch.codec is Codec.GZIP


class TestBatches:
    def test_batch_that_loses_no_record_is_copied_byte_for_byte(self, log):
        append_pairs(log, (b"a", b"1"), (b"b", b"1"), codec=Codec.ZSTD, timestamp=NOW_MS - 7)
        before = bytes(stored_batches(log)[0].view)
        append_pairs(log, (b"c", b"1"), (b"c", b"2"))
        compact(sealed(log))
        assert bytes(stored_batches(log)[0].view) == before

    def test_batch_that_loses_records_keeps_its_offsets_and_updates_max_timestamp(self, log):
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

    def test_batch_is_removed_with_its_last_record(self, log):
        append_pairs(log, (b"a", b"1"))
        append_pairs(log, (b"a", b"2"))
        compact(sealed(log))
        assert [batch.base_offset for batch in stored_batches(log)] == [1]

    def test_batch_with_the_last_sequence_of_a_producer_is_kept_empty(self, log):
        for sequence in (0, 1):
            fields = {"producer_id": 5, "producer_epoch": 0, "base_sequence": sequence}
            append_pairs(log, (b"a", b"1"), codec=Codec.GZIP, **fields)
        append_pairs(log, (b"a", b"2"))
        compact(sealed(log))
        batch, _ = stored_batches(log)
        assert (batch.base_offset, batch.count, batch.last_sequence) == (1, 0, 1)
        assert batch.max_timestamp == NOW_MS

    def test_last_sequence_is_known_after_a_restart_without_snapshots(self, log):
        append_pairs(log, (b"a", b"1"), producer_id=5, producer_epoch=0, base_sequence=8)
        append_pairs(log, (b"a", b"2"))
        compact(sealed(log))
        log.close_handlers()
        for snapshot in log.directory.glob("*.snapshot"):
            snapshot.unlink()
        recovered_log = recovered(log.directory, cleanup_policy=("compact",))
        assert recovered_log.producer_state_manager.active_producers[5].last_sequence == 8

    def test_batch_of_an_expired_producer_is_removed(self, log):
        append_pairs(log, (b"a", b"1"), producer_id=5, producer_epoch=0, base_sequence=0)
        append_pairs(log, (b"a", b"2"))
        log.producer_state_manager.remove_expired_producers(NOW_MS + 8 * DAY_MS)
        compact(sealed(log))
        assert [batch.base_offset for batch in stored_batches(log)] == [1]

    def test_last_batch_is_kept_for_the_log_end_offset(self, log):
        append_pairs(log, (b"a", None))
        first = compact(sealed(log), delete_retention_ms=0)
        compact(log, checkpoint=first.end_offset, delete_retention_ms=0)
        (batch,) = stored_batches(log)
        assert (batch.last_offset, batch.count) == (0, 0)

    def test_log_append_times_are_kept(self, tmp_path):
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
    def test_tombstone_gets_a_delete_horizon_in_its_first_cleaning(self, log):
        append_pairs(log, (b"a", b"1"))
        append_pairs(log, (b"b", b"1"), (b"a", None), timestamp=NOW_MS - 5)
        compact(sealed(log), delete_retention_ms=DAY_MS)
        (batch,) = stored_batches(log)
        assert batch.delete_horizon_ms == NOW_MS + DAY_MS
        assert stored_pairs(log) == {1: (b"b", b"1"), 2: (b"a", None)}
        assert [record.timestamp for record in batch] == [NOW_MS - 5] * 2
        assert batch.max_timestamp == NOW_MS - 5
        batch.check_crc()

    def test_s9_tombstone_is_kept_until_its_delete_horizon(self, log):
        append_pairs(log, (b"a", None), (b"b", b"1"))
        compact(sealed(log), delete_retention_ms=DAY_MS)
        compact(log, delete_retention_ms=DAY_MS, now_ms=NOW_MS + DAY_MS - 1)
        assert list(stored_pairs(log)) == [0, 1]
        compact(log, delete_retention_ms=DAY_MS, now_ms=NOW_MS + DAY_MS)
        assert list(stored_pairs(log)) == [1]

    def test_delete_horizon_is_set_once(self, log):
        append_pairs(log, (b"a", None), (b"b", b"1"))
        append_pairs(log, (b"c", None))
        compact(sealed(log), delete_retention_ms=DAY_MS)
        before = log.segments.first.path(LogFileType.LOG).read_bytes()
        plan = compact(log, delete_retention_ms=DAY_MS, now_ms=NOW_MS + 5)
        assert plan.replacements == ()
        assert log.segments.first.path(LogFileType.LOG).read_bytes() == before

    def test_later_removal_keeps_the_delete_horizon_and_the_timestamps(self, log):
        append_pairs(log, (b"a", None), (b"b", b"1"), timestamp=NOW_MS - 3)
        first = compact(sealed(log), delete_retention_ms=DAY_MS)
        append_pairs(log, (b"b", b"2"))
        compact(sealed(log), checkpoint=first.end_offset, now_ms=NOW_MS + 1)
        batch = stored_batches(log)[0]
        assert batch.delete_horizon_ms == NOW_MS + DAY_MS
        assert [(record.offset, record.timestamp) for record in batch] == [(0, NOW_MS - 3)]

    def test_tombstone_beyond_the_offset_map_gets_no_delete_horizon(self, log):
        append_pairs(log, (b"a", b"1"))
        append_pairs(log, (b"b", None))
        plan = compact(sealed(log), dedupe_buffer_bytes=1)
        assert plan.end_offset == 1
        assert [batch.delete_horizon_ms for batch in stored_batches(log)] == [None, None]

    def test_unlimited_retention_is_the_maximum_delete_horizon(self, log):
        append_pairs(log, (b"a", None))
        compact(sealed(log), delete_retention_ms=2**63 - 1)
        assert stored_batches(log)[0].delete_horizon_ms == 2**63 - 1
        assert [record.timestamp for record in stored_batches(log)[0]] == [NOW_MS]


class TestTransactions:
    def test_s9_aborted_records_are_removed_and_do_not_replace_others(self, log):
        append_pairs(log, (b"a", b"1"))
        append_pairs(log, (b"a", b"2"), producer_id=5, base_sequence=0, **TRANSACTIONAL)
        end_transaction(log, producer_id=5, commit=False)
        compact(sealed(log))
        assert stored_pairs(log) == {0: (b"a", b"1")}

    def test_committed_records_replace_older_ones(self, log):
        append_pairs(log, (b"a", b"1"))
        append_pairs(log, (b"a", b"2"), producer_id=5, base_sequence=0, **TRANSACTIONAL)
        end_transaction(log, producer_id=5, commit=True)
        compact(sealed(log))
        assert stored_pairs(log) == {1: (b"a", b"2")}

    def test_records_of_an_open_transaction_are_not_cleaned(self, log):
        append_pairs(log, (b"a", b"1"))
        sealed(log)
        append_pairs(log, (b"a", b"2"), producer_id=5, base_sequence=0, **TRANSACTIONAL)
        append_pairs(sealed(log), (b"a", b"3"))
        plan = compact(sealed(log))
        assert list(stored_pairs(log)) == [0, 1, 2]
        assert plan.end_offset == 1

    def test_aborted_records_are_found_by_a_marker_in_the_active_segment(self, log):
        append_pairs(log, (b"a", b"1"))
        append_pairs(log, (b"a", b"2"), producer_id=5, base_sequence=0, **TRANSACTIONAL)
        sealed(log)
        end_transaction(log, producer_id=5, commit=False)
        compact(log)
        assert stored_pairs(log) == {0: (b"a", b"1")}
        assert [record.offset for record in committed_records(log)] == [0]

    def test_marker_is_kept_while_data_of_its_transaction_remains(self, log):
        append_pairs(log, (b"a", b"1"), producer_id=5, base_sequence=0, **TRANSACTIONAL)
        end_transaction(log, producer_id=5, commit=True)
        for days in range(3):
            compact(sealed(log), now_ms=NOW_MS + days * DAY_MS)
        markers = [batch for batch in stored_batches(log) if batch.is_control]
        assert [(batch.count, batch.delete_horizon_ms) for batch in markers] == [(1, None)]

    def test_marker_without_data_is_kept_until_its_delete_horizon(self, log):
        append_pairs(log, (b"a", b"1"), producer_id=5, base_sequence=0, **TRANSACTIONAL)
        end_transaction(log, producer_id=5, commit=True)
        append_pairs(log, (b"a", b"2"))
        log.producer_state_manager.remove_expired_producers(NOW_MS + 8 * DAY_MS)
        sealed(log)
        horizons = []
        for passed_ms in (0, 1, DAY_MS, DAY_MS + 1):
            compact(log, now_ms=NOW_MS + passed_ms)
            markers = [batch for batch in stored_batches(log) if batch.is_control]
            horizons.append([batch.delete_horizon_ms for batch in markers])
        assert horizons == [[None], [NOW_MS + 1 + DAY_MS], [NOW_MS + 1 + DAY_MS], []]

    def test_transaction_index_keeps_an_aborted_transaction_while_a_batch_remains(self, log):
        append_pairs(log, (b"a", b"1"), producer_id=5, base_sequence=0, **TRANSACTIONAL)
        end_transaction(log, producer_id=5, commit=False)
        append_pairs(log, (b"b", b"1"))
        sealed(log)
        compact(log)
        (aborted,) = log.collect_aborted_transactions(start=0, end=3)
        assert (aborted.first_offset, aborted.last_offset) == (0, 1)
        log.producer_state_manager.remove_expired_producers(NOW_MS + 8 * DAY_MS)
        compact(log)  # Removes the empty batch; the cleaner saw its transaction once more.
        assert len(log.collect_aborted_transactions(start=0, end=3)) == 1
        compact(log)
        assert log.collect_aborted_transactions(start=0, end=3) == []

    def test_marker_with_the_latest_producer_epoch_is_kept(self, log):
        append_pairs(log, (b"a", b"1"), producer_id=5, base_sequence=0, **TRANSACTIONAL)
        end_transaction(log, producer_id=5, producer_epoch=1, commit=False)
        append_pairs(log, (b"b", b"1"))
        sealed(log)
        for days in range(4):
            compact(log, now_ms=NOW_MS + days * DAY_MS)
        log.close_handlers()
        for snapshot in log.directory.glob("*.snapshot"):
            snapshot.unlink()
        recovered_log = recovered(log.directory, cleanup_policy=("compact",))
        assert recovered_log.producer_state_manager.active_producers[5].epoch == 1

    def test_abort_marker_without_an_index_entry_stops_the_cleaning(self, log):
        append_pairs(log, (b"a", b"1"), producer_id=5, base_sequence=0, **TRANSACTIONAL)
        end_transaction(log, producer_id=5, commit=False)
        sealed(log)
        log.segments.first.path(LogFileType.TRANSACTION_INDEX).unlink()
        with pytest.raises(
            CorruptMessage, match="no transaction index has an entry for the abort marker"
        ):
            clean(task_of(log))
