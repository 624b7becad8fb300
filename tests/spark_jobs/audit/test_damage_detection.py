"""The audit finds each kind of damage once, at its position, and reports nothing else."""

import struct

import pytest

from odradek.spark_jobs.audit.directories import plan
from odradek.storage import leader_epoch_file_cache
from odradek.storage.paths import LogFileType, file_path
from odradek.storage.producer_state.snapshot import decode, encode
from tests.support.audits import (
    ABORTED,
    COMMITTED,
    OPEN,
    Found,
    WrittenLog,
    findings,
    flip,
    found_in,
    overwrite,
)
from tests.support.batches import batch_around

ERROR, WARNING = "error", "warning"
INDEX, TIME_INDEX = struct.Struct(">II"), struct.Struct(">qI")
ABORTED_ENTRY = struct.Struct(">hqqqq")


@pytest.fixture
def written(tmp_path):
    return WrittenLog(tmp_path)


class TestBatches:
    @pytest.mark.parametrize("position", [-1, 18, 22, 30, 45], ids=str)
    def test_flipped_byte_is_an_error(self, written, position):
        """In a record, the checksum, the attributes, a timestamp, the producer id."""
        path = written.logs[1]
        batch = written.batches(path)[3]
        flip(path, batch.position + position % batch.size)
        assert found_in(written.path) == [
            Found(ERROR, path.name, batch.position, batch.base_offset)
        ]

    def test_wrong_batch_length_is_an_error(self, written):
        path = written.logs[0]
        batch = written.batches(path)[2]
        overwrite(path, batch.position + 8, struct.pack(">i", batch.size + 5))
        assert found_in(written.path) == [
            Found(ERROR, path.name, batch.position, batch.base_offset)
        ]

    def test_decreasing_offset_is_an_error(self, written):
        """No checksum covers the base offset."""
        path = written.logs[1]
        before, batch = written.batches(path)[2:4]
        overwrite(path, batch.position, struct.pack(">q", before.base_offset))
        assert found_in(written.path) == [
            Found(ERROR, path.name, batch.position, batch.base_offset)
        ]

    def test_undecodable_records_with_a_valid_checksum_are_an_error(self, tmp_path):
        directory = tmp_path / "events-0"
        directory.mkdir()
        log = directory / "00000000000000000000.log"
        log.write_bytes(batch_around(b"no records at all", count=3, last_delta=2))
        log.with_suffix(".index").write_bytes(b"")
        log.with_suffix(".timeindex").write_bytes(b"")
        assert found_in(tmp_path) == [Found(ERROR, log.name, 0, 0)]

    def test_log_truncated_inside_a_batch_is_an_error(self, written):
        path = written.logs[-1]
        batch = written.batches(path)[-1]
        truncate(path, batch.position + batch.size - 1)
        assert found_in(written.path) == [
            Found(ERROR, path.name, batch.position, batch.base_offset)
        ]

    def test_log_truncated_between_batches_is_an_error(self, written):
        path = written.logs[-1]
        batch = written.batches(path)[-2]
        truncate(path, batch.position)
        assert found_in(written.path) == [
            Found(ERROR, path.name, batch.position, batch.base_offset)
        ]

    def test_truncated_inactive_segment_is_an_error(self, written):
        path = written.logs[1]
        batch = written.batches(path)[-1]
        truncate(path, batch.position + 20)
        assert found_in(written.path) == [
            Found(ERROR, path.name, batch.position, batch.base_offset)
        ]

    def test_zeros_at_the_end_of_an_inactive_segment_are_an_error(self, written):
        path = written.logs[0]
        size, last = path.stat().st_size, written.batches(path)[-1]
        overwrite(path, size, bytes(100))
        assert found_in(written.path) == [Found(ERROR, path.name, size, last.last_offset + 1)]

    def test_damage_above_the_high_watermark_is_a_warning(self, written):
        path = written.logs[-1]
        batch = written.batches(path)[-1]
        written.set_checkpoints(batch.base_offset)
        flip(path, batch.position + batch.size - 1)
        assert found_in(written.path) == [
            Found(WARNING, path.name, batch.position, batch.base_offset)
        ]

    def test_missing_log_file_is_an_error(self, written):
        path = written.logs[1]
        path.unlink()
        assert found_in(written.path) == [Found(ERROR, path.name, None, int(path.stem))]

    def test_missing_segment_is_a_warning(self, written):
        _, missing, after = written.logs[:3]
        for path in written.partition.glob(f"{missing.stem}.*"):
            path.unlink()
        assert found_in(written.path) == [Found(WARNING, after.name, 0, int(missing.stem))]


class TestIndexes:
    @pytest.mark.parametrize("ending", [".index", ".timeindex"])
    def test_missing_index_is_a_warning(self, written, ending):
        path = written.files(ending)[1]
        path.unlink()
        assert found_in(written.path) == [Found(WARNING, path.name, None, int(path.stem))]

    def test_position_inside_a_batch_is_a_warning(self, written):
        path = written.files(".index")[0]
        relative, position = INDEX.unpack_from(path.read_bytes(), 8)
        overwrite(path, 8, INDEX.pack(relative, position + 1))
        assert found_in(written.path) == [Found(WARNING, path.name, 8, relative)]

    def test_position_after_the_indexed_offset_is_a_warning(self, written):
        path = written.files(".index")[0]
        entries = list(INDEX.iter_unpack(path.read_bytes()))
        overwrite(path, 8, INDEX.pack(entries[1][0], entries[3][1]))
        assert Found(WARNING, path.name, 8, entries[1][0]) in found_in(written.path)

    def test_offset_outside_the_indexed_batch_is_a_warning(self, written):
        path = written.files(".index")[1]
        relative, position = INDEX.unpack_from(path.read_bytes(), 0)
        overwrite(path, 0, INDEX.pack(relative + 1000, position))
        wrong = int(path.stem) + relative + 1000
        assert found_in(written.path) == [Found(WARNING, path.name, 0, wrong)]

    def test_rows_for_one_index_are_limited(self, written, monkeypatch):
        monkeypatch.setattr("odradek.spark_jobs.audit.findings.PROBLEMS_MAX", 2)
        path = written.files(".index")[0]
        count = path.stat().st_size // INDEX.size
        path.write_bytes(b"".join(INDEX.pack(900 + number, 1 + number) for number in range(count)))
        *first, rest = findings(written.path)
        assert [finding.position for finding in first] == [0, 8]
        omitted = f"{count - 2} more problem(s) in this file are not listed"
        assert (rest.position, rest.what) == (None, omitted)

    def test_duplicate_entry_is_a_warning(self, written):
        path = written.files(".index")[0]
        content = path.read_bytes()
        path.write_bytes(content[:8] + content)
        assert found_in(written.path) == [Found(WARNING, path.name, 8, None)]

    @pytest.mark.parametrize(("ending", "size"), [(".index", 8), (".timeindex", 12)])
    def test_truncated_index_is_a_warning(self, written, ending, size):
        path = written.files(ending)[-1]
        content = path.read_bytes()
        path.write_bytes(content + content[:3])
        assert found_in(written.path) == [Found(WARNING, path.name, len(content), None)]
        assert len(content) % size == 0

    @pytest.mark.parametrize("ending", [".index", ".timeindex"])
    def test_preallocated_index_of_an_inactive_segment_is_a_warning(self, written, ending):
        path = written.files(ending)[0]
        content = path.read_bytes()
        path.write_bytes(content + bytes(240))
        assert found_in(written.path) == [Found(WARNING, path.name, len(content), None)]

    def test_timestamp_that_no_record_has_is_a_warning(self, written):
        path = written.files(".timeindex")[0]
        timestamp, relative = TIME_INDEX.unpack_from(path.read_bytes(), 12)
        overwrite(path, 12, TIME_INDEX.pack(timestamp + 1, relative))
        assert found_in(written.path) == [Found(WARNING, path.name, 12, relative)]

    def test_offset_of_another_batch_is_a_warning(self, written):
        path = written.files(".timeindex")[0]
        timestamp, relative = TIME_INDEX.unpack_from(path.read_bytes(), 12)
        overwrite(path, 12, TIME_INDEX.pack(timestamp, relative + 5000))
        assert found_in(written.path) == [Found(WARNING, path.name, 12, relative + 5000)]

    def test_missing_max_timestamp_of_an_inactive_segment_is_a_warning(self, written):
        path = written.files(".timeindex")[0]
        content = path.read_bytes()
        path.write_bytes(content[:-12])
        assert found_in(written.path) == [Found(WARNING, path.name, len(content) - 24, None)]


class TestTransactions:
    def entry(self, written, number=0):
        """Return the transaction index of a segment and its first entry."""
        path = written.files(".txnindex")[number]
        return path, list(ABORTED_ENTRY.unpack_from(path.read_bytes()))

    def test_missing_transaction_index_is_an_error(self, written):
        """Consumers would see aborted records."""
        path, (_, producer_id, _, last, _) = self.entry(written)
        count = path.stat().st_size // ABORTED_ENTRY.size
        path.unlink()
        errors = found_in(written.path)
        assert producer_id == ABORTED
        assert len(errors) == count
        assert errors[0] == Found(ERROR, path.name, 0, last)

    def test_missing_entry_is_an_error(self, written):
        path, _ = self.entry(written)
        content = path.read_bytes()
        last = ABORTED_ENTRY.unpack_from(content, len(content) - ABORTED_ENTRY.size)[3]
        path.write_bytes(content[: -ABORTED_ENTRY.size])
        position = len(content) - ABORTED_ENTRY.size
        assert found_in(written.path) == [Found(ERROR, path.name, position, last)]

    @pytest.mark.parametrize("field", [0, 1], ids=["version", "producer"])
    def test_wrong_version_or_producer_is_an_error(self, written, field):
        path, entry = self.entry(written)
        entry[field] = COMMITTED
        overwrite(path, 0, ABORTED_ENTRY.pack(*entry))
        assert found_in(written.path) == [Found(ERROR, path.name, 0, entry[3])]

    def test_entry_that_starts_after_the_first_record_is_an_error(self, written):
        path, entry = self.entry(written)
        entry[2] += 1
        overwrite(path, 0, ABORTED_ENTRY.pack(*entry))
        assert found_in(written.path) == [Found(ERROR, path.name, 0, entry[3])]

    def test_entry_that_starts_too_early_is_an_error(self, written):
        path, entry = self.entry(written)
        entry[2] -= 1
        overwrite(path, 0, ABORTED_ENTRY.pack(*entry))
        assert found_in(written.path) == [Found(ERROR, path.name, 0, entry[3])]

    def test_entry_that_overlaps_the_previous_transaction_is_an_error(self, written):
        path, entry = self.entry(written, number=1)
        entry[2] = 1
        overwrite(path, 0, ABORTED_ENTRY.pack(*entry))
        assert found_in(written.path) == [Found(ERROR, path.name, 0, entry[3])]

    def test_entry_for_a_committed_transaction_is_an_error(self, written):
        path, _ = self.entry(written)
        last, marker = committed_marker(written)
        content = path.read_bytes()
        wrong = ABORTED_ENTRY.pack(0, COMMITTED, last, marker, marker)
        entries = sorted(
            [*ABORTED_ENTRY.iter_unpack(content), ABORTED_ENTRY.unpack(wrong)], key=lambda e: e[3]
        )
        path.write_bytes(b"".join(ABORTED_ENTRY.pack(*entry) for entry in entries))
        slot = entries.index(ABORTED_ENTRY.unpack(wrong))
        position = slot * ABORTED_ENTRY.size
        assert found_in(written.path) == [Found(ERROR, path.name, position, marker)]


def committed_marker(written):
    """Return the first offset of the first committed transaction and the offset of its marker."""
    producers = struct.Struct(">43xqh")
    first = None
    content = written.logs[0].read_bytes()
    for batch in written.batches(written.logs[0]):
        producer_id, _ = producers.unpack_from(content, batch.position)
        is_control = content[batch.position + 22] & 0x20
        if producer_id == COMMITTED and is_control:
            return first, batch.base_offset
        if producer_id == COMMITTED and first is None:
            first = batch.base_offset
    raise AssertionError("nothing was committed in the first segment")


class TestProducers:
    def last_snapshot(self, written):
        return written.files(".snapshot")[-1]

    def change(self, path, change):
        states = decode(path.read_bytes(), path=path)
        change(states)
        path.write_bytes(encode(states))

    def test_flipped_byte_is_a_warning(self, written):
        path = self.last_snapshot(written)
        flip(path, 20)
        assert found_in(written.path) == [Found(WARNING, path.name, 0, int(path.stem))]

    def test_missing_ongoing_transaction_is_an_error(self, written):
        path = self.last_snapshot(written)
        first = decode(path.read_bytes(), path=path)[OPEN].current_txn_first_offset
        self.change(path, lambda states: states.pop(OPEN))
        assert found_in(written.path) == [Found(ERROR, path.name, None, first)]

    def test_completed_transaction_listed_as_ongoing_is_an_error(self, written):
        path = self.last_snapshot(written)

        def reopen(states):
            states[COMMITTED].current_txn_first_offset = 2

        self.change(path, reopen)
        slot = list(decode(path.read_bytes(), path=path)).index(COMMITTED)
        assert found_in(written.path) == [Found(ERROR, path.name, 10 + slot * 46, 2)]

    def test_last_batch_of_another_producer_is_an_error(self, written):
        path = self.last_snapshot(written)
        states = decode(path.read_bytes(), path=path)
        own, other = states[ABORTED], states[COMMITTED]

        def mix_up(states):
            states[ABORTED].packed_batches = other.packed_batches

        self.change(path, mix_up)
        slot = list(states).index(ABORTED)
        assert own.last_batch != other.last_batch
        assert found_in(written.path) == [
            Found(ERROR, path.name, 10 + slot * 46, other.last_batch.last_offset)
        ]

    def test_snapshot_beyond_the_log_end_is_a_warning(self, written):
        path = self.last_snapshot(written)
        beyond = file_path(written.partition, int(path.stem) + 9, LogFileType.PRODUCER_SNAPSHOT)
        path.rename(beyond)
        assert found_in(written.path) == [Found(WARNING, beyond.name, None, int(path.stem) + 9)]


class TestEpochs:
    def epochs(self, written):
        return written.partition / leader_epoch_file_cache.FILE_NAME

    def test_wrong_start_offset_of_an_epoch_is_a_warning(self, written):
        path = self.epochs(written)
        lines = path.read_text().splitlines()
        assert lines[:3] == ["0", "2", "0 0"]
        start = int(lines[3].split()[1])
        first_wrong = next(
            batch.base_offset
            for log in written.logs
            for batch in written.batches(log)
            if batch.base_offset >= start
        )
        path.write_text(f"0\n2\n0 0\n3 {start + 2}\n")
        # The entry of the first epoch now covers batches of the second.
        assert found_in(written.path) == [Found(WARNING, path.name, 4, first_wrong)]

    def test_missing_epoch_is_a_warning(self, written):
        path = self.epochs(written)
        start = int(path.read_text().split()[-1])
        path.write_text("0\n1\n0 0\n")
        assert found_in(written.path) == [Found(WARNING, path.name, 4, start)]

    def test_epoch_above_the_recovery_point_may_be_missing(self, written):
        path = self.epochs(written)
        start = int(path.read_text().split()[-1])
        path.write_text("0\n1\n0 0\n")
        written.set_checkpoints(start)
        assert found_in(written.path) == []

    def test_missing_epoch_file_is_a_warning(self, written):
        path = self.epochs(written)
        path.unlink()
        assert found_in(written.path) == [Found(WARNING, path.name, None, 0)]

    def test_invalid_epoch_file_is_a_warning(self, written):
        path = self.epochs(written)
        path.write_text("0\n7\n0 0\n")
        assert found_in(written.path) == [Found(WARNING, path.name, None, None)]


def test_invalid_checkpoint_is_reported_for_the_log_directory(written):
    path = written.path / "replication-offset-checkpoint"
    path.write_text("0\n3\nevents 0 10\n")
    assert found_in(written.path) == [Found(WARNING, path.name, None, None)]


def test_directories_may_be_uris(written):
    path = written.logs[1]
    batch = written.batches(path)[3]
    flip(path, batch.position + batch.size - 1)
    (finding,) = findings(f"file://{written.path}")
    assert finding.file == f"file://{path}"
    assert (finding.position, finding.offset) == (batch.position, batch.base_offset)


def test_only_selected_partitions_are_audited(written):
    flip(written.logs[0], 70)
    planned = plan((str(written.path),), lambda topic, partition: topic == "others")
    assert planned.partitions == ()


def truncate(path, size):
    with path.open("r+b") as file:
        file.truncate(size)
