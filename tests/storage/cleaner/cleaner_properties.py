"""S9 holds for any log and any sequence of compactions, and no other record is lost."""

import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from hypothesis.strategies import booleans, integers, lists, none, sampled_from, tuples

from odradek.protocol.errors import CorruptMessage
from odradek.protocol.records.batch import RecordBatch
from odradek.protocol.records.compression import Codec
from odradek.storage.cleaner.batch_records import parse_records
from odradek.storage.log_segments import LogSegments
from odradek.storage.paths import LogFileType
from tests.support.batches import batch_around
from tests.support.compaction import (
    append_pairs,
    committed_records,
    compact,
    sealed,
    stored_batches,
    stored_records,
)
from tests.support.logs import NOW_MS, end_transaction, opened, recovered

SETTINGS = {
    "cleanup_policy": ("compact",),
    "segment_bytes": 600,
    "index_interval_bytes": 60,
    "segment_index_bytes": 120,
}
RETENTION_MS = 100
KEYS = [b"a", b"b", b"c", b"key of sixteen b", b"a key that is too long to stand for itself"]
PAIRS = lists(
    tuples(sampled_from(KEYS), none() | sampled_from([b"1", b"22", b"v" * 40])),
    min_size=1,
    max_size=4,
)
CODECS = sampled_from([Codec.NONE, Codec.NONE, Codec.GZIP, Codec.ZSTD])
IDEMPOTENT = sampled_from([1, 2])
TRANSACTIONAL = sampled_from([11, 12])


@dataclass
class Appended:
    key: bytes
    value: bytes | None
    timestamp: int
    batch: int  # The base offset of its batch.
    producer_id: int | None = None
    is_committed: bool | None = True  # None: the transaction is open.
    clean_since_ms: int | None = None


@dataclass
class Model:
    records: dict[int, Appended] = field(default_factory=dict)
    sequences: dict[int, int] = field(default_factory=dict)

    def latest(self, *, before=2**63):
        """Return the latest committed offset of each key."""
        latest_offsets = {}
        for offset, record in self.records.items():
            if record.is_committed and offset < before:
                latest_offsets[record.key] = offset
        return latest_offsets

    def open_producers(self):
        return {
            record.producer_id for record in self.records.values() if record.is_committed is None
        }


class CompactedLogAgainstADictionary(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.temporary = tempfile.TemporaryDirectory()
        self.directory = Path(self.temporary.name) / "events-0"
        self.log = opened(self.directory, **SETTINGS)
        self.model = Model()
        self.now_ms = NOW_MS
        self.cleaned_to = None
        self.max_cleaned_to = 0

    def teardown(self):
        self.log.close_handlers()
        self.temporary.cleanup()

    def _append(self, pairs, age, **fields):
        is_committed = None if fields.get("is_transactional") else True
        base = append_pairs(self.log, *pairs, timestamp=NOW_MS - age, **fields)
        for delta, (key, value) in enumerate(pairs):
            self.model.records[base + delta] = Appended(
                key, value, NOW_MS - age, base, fields.get("producer_id"), is_committed
            )

    def _sequenced(self, producer_id, count):
        sequence = self.model.sequences.get(producer_id, 0)
        self.model.sequences[producer_id] = sequence + count
        return {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequence}

    @rule(pairs=PAIRS, codec=CODECS, age=integers(0, 20))
    def append_without_producer(self, pairs, codec, age):
        self._append(pairs, age, codec=codec)

    @rule(pairs=PAIRS, producer_id=IDEMPOTENT)
    def append_with_a_sequence(self, pairs, producer_id):
        self._append(pairs, 0, **self._sequenced(producer_id, len(pairs)))

    @rule(pairs=PAIRS, codec=CODECS, producer_id=TRANSACTIONAL)
    def append_in_a_transaction(self, pairs, codec, producer_id):
        fields = self._sequenced(producer_id, len(pairs))
        self._append(pairs, 0, codec=codec, is_transactional=True, **fields)

    @rule(producer_id=TRANSACTIONAL, commit=booleans())
    def end_a_transaction(self, producer_id, commit):
        end_transaction(self.log, producer_id=producer_id, commit=commit)
        for record in self.model.records.values():
            if record.producer_id == producer_id and record.is_committed is None:
                record.is_committed = commit

    @rule()
    def roll(self):
        sealed(self.log)

    @rule(ms=integers(1, 2 * RETENTION_MS))
    def wait(self, ms):
        self.now_ms += ms

    @rule(is_crash=booleans())
    def reopen(self, is_crash):
        if is_crash:
            self.log.close_handlers()
            self.log = recovered(self.directory, **SETTINGS)
        else:
            self.log.close(now_ms=NOW_MS)
            self.log = opened(self.directory, **SETTINGS)

    @precondition(lambda self: len(self.log.segments) > 1)
    @rule(
        map_entries=integers(1, 8),
        segment_bytes=sampled_from([1, 700, 2000, 10**6]),
        is_from_scratch=booleans(),
    )
    def compact(self, map_entries, segment_bytes, is_from_scratch):
        producers = known_producers(self.log)
        plan = compact(
            self.log,
            now_ms=self.now_ms,
            checkpoint=None if is_from_scratch else self.cleaned_to,
            segment_bytes_max=segment_bytes,
            delete_retention_ms=RETENTION_MS,
            dedupe_buffer_bytes=map_entries * 156,
            dedupe_load_factor=1.0,
        )
        self.cleaned_to = plan.end_offset
        self._check_obsolete_records_are_gone(plan.end_offset)
        self._check_tombstones(plan.end_offset)
        assert known_producers(self.log) == producers
        self._check_a_restart_without_snapshots(producers)

    def _check_obsolete_records_are_gone(self, end_offset):
        latest = self.model.latest(before=end_offset)
        for record in stored_records(self.log):
            if record.offset < end_offset:
                assert latest[record.key] == record.offset

    def _check_tombstones(self, end_offset):
        stored = {record.offset for record in stored_records(self.log)}
        for offset, record in self.model.records.items():
            if offset < end_offset and record.clean_since_ms is None:
                record.clean_since_ms = self.now_ms
        self.max_cleaned_to = max(self.max_cleaned_to, end_offset)
        for offset in self.model.latest(before=self.max_cleaned_to).values():
            record = self.model.records[offset]
            is_due = self.now_ms >= record.clean_since_ms + RETENTION_MS
            if record.value is None and not is_due:
                assert offset in stored
            elif record.value is None and offset < end_offset:
                assert offset not in stored

    def _check_a_restart_without_snapshots(self, producers):
        copy = self.directory.with_name("copy-0")
        shutil.copytree(self.directory, copy)
        for snapshot in copy.glob("*.snapshot"):
            snapshot.unlink()
        log = recovered(copy, **SETTINGS)
        assert log.log_end_offset == self.log.log_end_offset
        assert known_producers(log) == producers
        assert log.last_stable_offset == self.log.last_stable_offset
        assert stored_records(log) == stored_records(self.log)
        assert committed_records(log) == committed_records(self.log)
        log.close_handlers()
        shutil.rmtree(copy)

    @invariant()
    def every_stored_record_is_unchanged(self):
        for record in stored_records(self.log):
            appended = self.model.records[record.offset]
            assert (record.key, record.value) == (appended.key, appended.value)
            assert record.timestamp == appended.timestamp

    @invariant()
    def latest_committed_value_of_every_key_is_read(self):
        stable = self.log.last_stable_offset
        seen = {
            record.key: record for record in committed_records(self.log) if record.offset < stable
        }
        for key, offset in self.model.latest(before=stable).items():
            if self.model.records[offset].value is not None:
                assert seen[key].offset == offset
            else:
                assert key not in seen or seen[key].offset == offset

    @invariant()
    def no_aborted_record_is_read(self):
        for record in committed_records(self.log):
            assert self.model.records[record.offset].is_committed is not False

    @invariant()
    def batches_are_in_order_and_indexes_point_to_them(self):
        offsets = [batch.last_offset for batch in stored_batches(self.log)]
        assert offsets == sorted(set(offsets))
        check_indexes(self.log.segments)


def known_producers(log):
    return {
        producer_id: (state.epoch, state.last_sequence, state.current_txn_first_offset)
        for producer_id, state in log.producer_state_manager.active_producers.items()
    }


def check_indexes(segments: LogSegments):
    for segment in segments:
        batches_by_position = dict(segment.batches())
        for entry_number in range(segment.offset_index.entries.count):
            entry = segment.offset_index.entry(entry_number)
            assert batches_by_position[entry.position].last_offset == entry.offset
        if segment is not segments.active and segment.size_bytes:
            assert segment.path(LogFileType.OFFSET_INDEX).exists()
            largest = max(batch.max_timestamp for batch in batches_by_position.values())
            assert segment.time_index.last_entry.timestamp == largest


VARINTS = sampled_from([0, 1, 2, 3, 14, 16, 20, 0x7F, 0x80, 0x81, 0x82, 0xFF])


@given(lists(VARINTS, max_size=40), integers(0, 4), integers(0, 10))
def test_scan_finds_the_records_that_the_reader_finds_or_is_corrupt(numbers, count, last_delta):
    batch = RecordBatch(batch_around(bytes(numbers), count=count, last_delta=last_delta))
    try:
        expected = list(batch.records())
    except CorruptMessage:
        expected = None
    try:
        records = parse_records(batch)
    except CorruptMessage:
        assert expected is None
    else:
        # The scan checks less than the reader, so it may accept a batch that is corrupt.
        if expected is not None:
            assert records.keys == [record.key for record in expected]
            assert records.offset_deltas == [record.offset for record in expected]
            assert records.tombstones == {
                index for index, record in enumerate(expected) if record.value is None
            }


TestCompactedLog = CompactedLogAgainstADictionary.TestCase
TestCompactedLog.settings = hypothesis_settings(
    max_examples=25, stateful_step_count=30, deadline=None
)
