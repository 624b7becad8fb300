"""A log that is compacted while it is appended to and read (S9)."""

from random import Random

import pytest

from odradek.storage.cleaner.cleaner import clean
from odradek.storage.cleaner.segment_swap import SegmentSwap
from odradek.storage.segment_deletion import delete_segment_files
from odradek.storage.timestamp_lookup import offset_for_timestamp, offset_of_max_timestamp
from tests.support.compaction import append_pairs, committed_records, stored_pairs, task_of
from tests.support.logs import NOW_MS, batches_from, bytes_of, end_transaction, opened, recovered

SETTINGS = {
    "cleanup_policy": ("compact",),
    "segment_bytes": 400,
    "index_interval_bytes": 100,
    "min_cleanable_dirty_ratio": 0.0,
}


class Writer:
    """Appends random keys, some in transactions, and keeps all that it appended."""

    def __init__(self, log, seed):
        self.log = log
        self.random = Random(seed)
        self.pairs = {}
        self.timestamps = {}
        self.open_transactions = {}  # Producer id -> offsets of its open transaction.
        self.aborted = set()
        self.sequences = {}

    def step(self):
        choice = self.random.random()
        if choice < 0.6:
            self.write()
        elif choice < 0.85:
            self.write(producer_id=self.random.randint(1, 2))
        elif self.open_transactions:
            self.end_transaction(self.random.choice(sorted(self.open_transactions)))

    def write(self, producer_id=None):
        count = self.random.randint(1, 3)
        pairs = [
            (b"key %d" % self.random.randint(0, 5), self.random.choice([b"value", None, b"v" * 40]))
            for _ in range(count)
        ]
        timestamp = NOW_MS + self.random.randint(-50, 50)
        fields = {}
        if producer_id is not None:
            sequence = self.sequences.get(producer_id, 0)
            self.sequences[producer_id] = sequence + count
            fields = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequence}
            fields["is_transactional"] = True
        first = append_pairs(self.log, *pairs, timestamp=timestamp, **fields)
        offsets = range(first, first + count)
        self.pairs.update(zip(offsets, pairs, strict=True))
        self.timestamps.update(dict.fromkeys(offsets, timestamp))
        if producer_id is not None:
            self.open_transactions.setdefault(producer_id, []).extend(offsets)

    def end_transaction(self, producer_id):
        offsets = self.open_transactions.pop(producer_id)
        commit = self.random.random() < 0.5
        if not commit:
            self.aborted.update(offsets)
        end_transaction(self.log, producer_id=producer_id, commit=commit)

    def end_all_transactions(self):
        for producer_id in sorted(self.open_transactions):
            self.end_transaction(producer_id)

    @property
    def latest(self):
        """The last committed value of every key, tombstones included."""
        committed = (
            (offset, pair) for offset, pair in self.pairs.items() if offset not in self.aborted
        )
        return {key: value for _, (key, value) in sorted(committed)}


def filled_log(directory, seed):
    log = opened(directory, **SETTINGS)
    writer = Writer(log, seed)
    for _ in range(60):
        writer.step()
    return log, writer


def compact_while_writing(log, writer):
    """Append before, between and after all steps of a compaction."""
    task = task_of(log)
    writer.step()
    plan = clean(task)
    for replacement in plan.replacements:
        writer.step()
        swap = SegmentSwap(log, replacement)
        for step in (swap.stage, swap.publish, swap.finish):
            step()
            writer.step()
        check_reads(log, writer)
        delete_segment_files(swap.complete())
    assert plan.replacements


def check_reads(log, writer):
    """Check that offsets are unchanged and that reads skip no stored batch."""
    assert stored_pairs(log).items() <= writer.pairs.items()
    batches = batches_from(log, log.log_start_offset)
    for offset in range(log.log_start_offset, log.log_end_offset, 17):
        expected = next(
            (batch.base_offset for batch in batches if batch.last_offset >= offset), None
        )
        region = log.read(offset, max_bytes=1, max_offset=log.log_end_offset)
        assert (int.from_bytes(bytes_of(region)[:8]) if region else None) == expected


@pytest.mark.parametrize("seed", range(6))
class TestWhileWriting:
    def test_s9_latest_committed_value_of_every_key_is_read(self, tmp_path, seed):
        log, writer = filled_log(tmp_path / "events-0", seed)
        compact_while_writing(log, writer)
        writer.end_all_transactions()
        seen = {record.key: record.value for record in committed_records(log)}
        assert seen == writer.latest

    def test_s9_no_aborted_record_is_ever_read(self, tmp_path, seed):
        log, writer = filled_log(tmp_path / "events-0", seed)
        for _ in range(2):
            compact_while_writing(log, writer)
            writer.end_all_transactions()
            assert not {record.offset for record in committed_records(log)} & writer.aborted
            log.roll(now_ms=NOW_MS)

    def test_s9_timestamp_lookup_finds_the_remaining_records(self, tmp_path, seed):
        log, writer = filled_log(tmp_path / "events-0", seed)
        writer.end_all_transactions()
        compact_while_writing(log, writer)
        times = {offset: writer.timestamps[offset] for offset in stored_pairs(log)}
        markers = {
            batch.base_offset: batch.max_timestamp
            for batch in batches_from(log, 0)
            if batch.is_control and batch.count
        }
        times |= markers
        for timestamp in range(NOW_MS - 60, NOW_MS + 60, 7):
            expected = min(
                (offset for offset, time in times.items() if time >= timestamp), default=None
            )
            found_offset = offset_for_timestamp(log, timestamp)
            assert (found_offset and found_offset.offset) == expected
        largest = max(times.values())
        expected = min(offset for offset, time in times.items() if time == largest)
        assert offset_of_max_timestamp(log)[:2] == (expected, largest)

    @pytest.mark.parametrize("is_clean", [True, False])
    def test_s9_restart_does_not_change_the_log(self, tmp_path, seed, is_clean):
        directory = tmp_path / "events-0"
        log, writer = filled_log(directory, seed)
        compact_while_writing(log, writer)
        before = log_state(log)
        if is_clean:
            log.close(now_ms=NOW_MS)
            log = opened(directory, **SETTINGS)
        else:
            log.close_handlers()
            log = recovered(directory, **SETTINGS)
        assert log_state(log) == before


def log_state(log):
    """Of producers only the fields of a snapshot: batches before the last may be compacted away."""
    producers = {
        producer_id: (state.epoch, state.last_sequence, state.current_txn_first_offset)
        for producer_id, state in log.producer_state_manager.active_producers.items()
    }
    ends = (log.log_start_offset, log.last_stable_offset, log.log_end_offset)
    return ends, producers, stored_pairs(log), committed_records(log)
