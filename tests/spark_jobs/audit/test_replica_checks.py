"""The audit compares replicas, names the one that differs, and tolerates compaction."""

import shutil
import struct

import pytest

from odradek.protocol.records.record import Record
from tests.support.audits import Found, WrittenLog, findings, found_in, overwrite
from tests.support.batches import batch_of, with_checksum
from tests.support.scans import LogDirectory

ERROR = "error"


@pytest.fixture
def replicas(tmp_path):
    """Three brokers with a replica of the same partition."""
    first = WrittenLog(tmp_path / "1")
    for name in ("2", "3"):
        shutil.copytree(tmp_path / "1", tmp_path / name)
    return first, [tmp_path / name for name in ("1", "2", "3")]


def change_value(path, batch):
    """Change a value in the batch and fix the checksum."""
    content = bytearray(path.read_bytes()[batch.position : batch.position + batch.size])
    content[-2] ^= 0x01
    overwrite(path, batch.position, with_checksum(content))


def test_identical_replicas_have_no_findings(replicas):
    _, paths = replicas
    assert findings(*paths) == []


@pytest.mark.parametrize("odd", [0, 1, 2])
def test_replica_that_differs_from_two_others_is_named(replicas, odd):
    written_log, paths = replicas
    batch = written_log.batches(written_log.logs[1])[2]
    path = paths[odd] / "events-0" / written_log.logs[1].name
    change_value(path, batch)
    (finding,) = findings(*paths)
    assert (finding.file, finding.position, finding.offset) == (
        str(path),
        batch.position,
        batch.base_offset,
    )
    assert "different batch: " in finding.what


def test_different_leader_epoch_is_found_without_a_checksum(replicas):
    written_log, paths = replicas
    batch = written_log.batches(written_log.logs[2])[1]
    path = paths[1] / "events-0" / written_log.logs[2].name
    overwrite(path, batch.position + 12, struct.pack(">i", 2))
    matching = [finding for finding in findings(*paths) if finding.file == str(path)]
    assert [(finding.position, finding.offset) for finding in matching] == [
        (batch.position, batch.base_offset)
    ]
    assert "leader epoch 2" in matching[0].what


def test_swapped_batches_are_found(replicas):
    written_log, paths = replicas
    path = paths[2] / "events-0" / written_log.logs[0].name
    first, second = next(
        (before, after)
        for before, after in zip(
            written_log.batches(path), written_log.batches(path)[1:], strict=False
        )
        if after.base_offset < int(written_log.logs[1].stem) - 1
    )
    content = path.read_bytes()
    one = bytearray(content[first.position : first.position + first.size])
    other = bytearray(content[second.position : second.position + second.size])
    one[:8], other[:8] = struct.pack(">q", second.base_offset), struct.pack(">q", first.base_offset)
    overwrite(path, first.position, bytes(other + one))
    offsets = [finding.offset for finding in findings(*paths) if finding.file == str(path)]
    assert offsets[-2:] == [first.base_offset, second.base_offset]


def test_lagging_replica_is_compared_up_to_its_high_watermark(replicas):
    written_log, paths = replicas
    path = paths[2] / "events-0" / written_log.logs[-1].name
    batch = written_log.batches(path)[-3]
    behind = WrittenLog.__new__(WrittenLog)
    behind.path = paths[2]
    behind.set_checkpoints(batch.base_offset)
    with path.open("r+b") as file:
        file.truncate(batch.position)
    log_findings = [finding for finding in findings(*paths) if finding.file.endswith(".log")]
    assert log_findings == []


class TestMissingBatches:
    def write(self, path, offsets, *, high_watermark):
        directory = LogDirectory(path)
        batches = [bytes(batch_of(b"%d" % offset, base_offset=offset)) for offset in offsets]
        directory.write(0, batches, indexed=True)
        directory.set_high_watermark(high_watermark)

    def test_missing_first_batches_are_an_error(self, tmp_path):
        """The segment has the same base offset as that of the other replica."""
        self.write(tmp_path / "1", range(6), high_watermark=6)
        self.write(tmp_path / "2", range(2, 6), high_watermark=6)
        assert found_in(tmp_path / "1", tmp_path / "2") == [
            Found(ERROR, "00000000000000000000.log", None, offset) for offset in (0, 1)
        ]
        assert {finding.file for finding in findings(tmp_path / "1", tmp_path / "2")} == {
            f"{tmp_path}/2/orders-0/00000000000000000000.log"
        }

    def test_missing_middle_batch_may_be_compaction_and_is_accepted(self, tmp_path):
        self.write(tmp_path / "1", range(6), high_watermark=6)
        self.write(tmp_path / "2", [0, 1, 2, 4, 5], high_watermark=6)
        assert found_in(tmp_path / "1", tmp_path / "2") == []

    def test_missing_last_batches_below_the_high_watermark_are_an_error(self, tmp_path):
        self.write(tmp_path / "1", range(6), high_watermark=6)
        self.write(tmp_path / "2", range(4), high_watermark=6)
        size = 4 * len(batch_of(b"0"))
        assert found_in(tmp_path / "1", tmp_path / "2") == [
            Found(ERROR, "00000000000000000000.log", size, 4)
        ]


def test_rows_for_different_replicas_are_limited(tmp_path, monkeypatch):
    monkeypatch.setattr("odradek.spark_jobs.audit.replica_checks.PROBLEMS_MAX", 3)
    for name in ("1", "2"):
        directory = LogDirectory(tmp_path / name)
        batches = [batch_of(name.encode() * 9, base_offset=offset) for offset in range(50)]
        directory.write(0, batches, indexed=True)
        directory.set_high_watermark(50)
    differences = findings(tmp_path / "1", tmp_path / "2")
    assert [finding.offset for finding in differences] == [0, 1, 2, 3]
    assert differences[-1].what.endswith("; the comparison of the replicas ends here")


class TestCompaction:
    """Two replicas; one is compacted further than the other."""

    def records(self, *offsets, value=b"v%d"):
        return [Record(offset, 1_000, b"k%d" % offset, value % offset, ()) for offset in offsets]

    def write(self, path, *batches):
        directory = LogDirectory(path)
        encoded = [
            batch_of(*records, base_offset=base, last_offset=last)
            for base, last, records in batches
        ]
        directory.write(0, encoded, indexed=True)
        directory.set_high_watermark(9)

    def test_fewer_records_in_a_batch_are_accepted(self, tmp_path):
        self.write(
            tmp_path / "1",
            (0, 2, self.records(0, 1, 2)),
            (3, 5, self.records(3, 4, 5)),
            (6, 8, self.records(6, 7, 8)),
        )
        self.write(tmp_path / "2", (0, 2, self.records(1)), (6, 8, self.records(6, 7, 8)))
        assert findings(tmp_path / "1", tmp_path / "2") == []

    def test_different_record_at_the_same_offset_is_an_error(self, tmp_path):
        self.write(tmp_path / "1", (0, 2, self.records(0, 1, 2)), (3, 8, self.records(3, 8)))
        self.write(
            tmp_path / "2", (0, 2, self.records(2, value=b"w%d")), (3, 8, self.records(3, 8))
        )
        differences = found_in(tmp_path / "1", tmp_path / "2")
        assert differences == [Found(ERROR, "00000000000000000000.log", 0, 0)]
