"""Damage in a log: what a scan skips, what it reports, and what is not damage."""

import pytest

from odradek.spark_jobs.scan.damage import ScanFailed
from tests.support.batches import batch_of, with_checksum
from tests.support.scans import LogDirectory, Scanned

SIZE = 40


def batches(count, *, first=0, size=SIZE):
    return [bytes(batch_of(b"v" * size, base_offset=first + number)) for number in range(count)]


@pytest.fixture
def directory(tmp_path):
    return LogDirectory(tmp_path)


def flipped(batch, position):
    return batch[:position] + bytes([batch[position] ^ 0xFF]) + batch[position + 1 :]


#: The byte that is flipped in the third of six batches: in a record, the checksum, the attributes,
#: the magic, or the length, which then points beyond the file or into another batch.
POSITIONS = {"record": -3, "checksum": 18, "attributes": 22, "magic": 16, "length": 8, "short": 11}


@pytest.mark.parametrize("position", POSITIONS.values(), ids=POSITIONS)
class TestOneDamagedBatch:
    def damage(self, directory, position):
        encoded = batches(6)
        encoded[2] = flipped(encoded[2], position % len(encoded[2]))
        directory.write(0, encoded)
        return len(encoded[0])

    def test_permissive_reads_the_others_and_reports_the_range(self, directory, position):
        size = self.damage(directory, position)
        scanned = directory.scan()
        assert scanned.offsets == [0, 1, 3, 4, 5]
        (damage,) = scanned.damages
        assert (damage.position, damage.end_position) == (2 * size, 3 * size)
        assert (damage.topic, damage.partition, damage.first_offset) == ("orders", 0, 2)

    def test_dropmalformed_reads_the_others_and_reports_nothing(self, directory, position):
        self.damage(directory, position)
        scanned = directory.scan(mode="DROPMALFORMED")
        assert (scanned.offsets, scanned.damages) == ([0, 1, 3, 4, 5], [])

    def test_failfast_raises_with_the_position(self, directory, position):
        size = self.damage(directory, position)
        with pytest.raises(ScanFailed, match=f"bytes {2 * size} to {3 * size}, from offset 2 on"):
            directory.scan(mode="FAILFAST")

    def test_batches_view_has_the_other_batches(self, directory, position):
        self.damage(directory, position)
        rows = directory.scan(view="batches").rows
        assert [row["baseOffset"] for row in rows] == [0, 1, 3, 4, 5]


def test_decreasing_offset_is_damage_without_a_checksum(directory):
    encoded = batches(4)
    encoded[2] = bytes(batch_of(b"back", base_offset=0))
    directory.write(0, encoded)
    scanned = directory.scan()
    assert scanned.offsets == [0, 1, 3]
    assert "do not fit: 2 is next" in scanned.damages[0].reason


def test_batch_inside_a_value_is_not_read_as_a_batch(directory):
    """This holds unless the damage hides the end of the outer batch."""
    inner = bytes(batch_of(b"inner", base_offset=3))
    encoded = [*batches(3), bytes(batch_of(inner, base_offset=3)), *batches(1, first=4)]
    encoded[3] = flipped(encoded[3], -2 % len(encoded[3]))
    directory.write(0, encoded)
    assert directory.scan().offsets == [0, 1, 2, 4]


def test_unknown_codec_is_damage_in_every_column(directory):
    unknown = bytearray(batches(1, first=1)[0])
    unknown[22] = 7
    directory.write(0, [*batches(1), with_checksum(unknown), *batches(1, first=2)])
    for columns in ("codec", "value", "partition"):
        scanned = directory.scan(columns=columns)
        assert (len(scanned.rows), len(scanned.damages)) == (2, 1)


class TestEndOfALog:
    """The end of a log that a broker is appending to, and damage that resembles it."""

    @pytest.mark.parametrize("missing_bytes", [1, 12, 30, 61, 90])
    def test_torn_tail_ends_the_read(self, directory, missing_bytes):
        encoded = batches(3)
        directory.write(0, [*encoded[:2], encoded[2][:-missing_bytes]])
        scanned = directory.scan(mode="FAILFAST")
        assert scanned.offsets == [0, 1]

    def test_preallocated_zeros_end_the_read(self, directory):
        directory.write(0, [*batches(3), bytes(100_000)])
        assert directory.scan(mode="FAILFAST").offsets == [0, 1, 2]

    def test_zeros_before_another_segment_are_damage(self, directory):
        directory.write(0, [*batches(2), bytes(50)])
        directory.write(2, batches(2, first=2))
        scanned = directory.scan()
        assert scanned.offsets == [0, 1, 2, 3]
        assert [damage.reason for damage in scanned.damages] == ["zeros where batches should be"]

    def test_truncated_batch_below_the_high_watermark_is_damage(self, directory):
        encoded = batches(4)
        directory.write(0, [*encoded[:3], encoded[3][:-1]])
        directory.set_high_watermark(4)
        scanned = directory.scan()
        assert scanned.offsets == [0, 1, 2]
        assert [damage.reason for damage in scanned.damages] == ["a batch is truncated"]

    @pytest.mark.parametrize("remaining", [3, 2, 0], ids=["some", "a segment less", "nothing"])
    def test_log_that_ends_with_a_whole_batch_below_the_high_watermark_is_damage(
        self, directory, remaining
    ):
        encoded = batches(4)
        directory.write(0, encoded[: min(remaining, 2)])
        if remaining != 2:
            directory.write(2, encoded[2:remaining])
        directory.set_high_watermark(4)
        scanned = directory.scan()
        assert scanned.offsets == list(range(remaining))
        (damage,) = scanned.damages
        assert damage.reason == "the log ends here, but the high watermark is 4"
        assert damage.first_offset == max(remaining, 2)
        with pytest.raises(ScanFailed, match="the high watermark is 4"):
            directory.scan(mode="FAILFAST")
        limited = directory.scan(
            endingOffsets=f'{{"orders": {{"0": {remaining}}}}}', mode="FAILFAST"
        )
        assert limited.offsets == list(range(remaining))

    def test_log_that_just_rolled_or_was_emptied_by_retention_is_undamaged(self, directory):
        directory.write(4, [])
        directory.set_high_watermark(4)
        assert directory.scan(mode="FAILFAST").offsets == []
        directory.write(0, batches(4))
        assert directory.scan(mode="FAILFAST").offsets == [0, 1, 2, 3]

    def test_nothing_is_read_above_the_high_watermark(self, directory):
        encoded = batches(4)
        directory.write(0, [*encoded[:3], flipped(encoded[3], 50)])
        directory.set_high_watermark(3)
        assert directory.scan(mode="FAILFAST").offsets == [0, 1, 2]
        directory.set_high_watermark(2)
        assert directory.scan(mode="FAILFAST").offsets == [0, 1]
        scanned = directory.scan(ignoreHighWatermark="true")
        assert (scanned.offsets, len(scanned.damages)) == ([0, 1, 2], 1)

    @pytest.mark.parametrize("path", ["orders-0", "./orders-0/", "."])
    def test_high_watermark_is_found_for_a_relative_path(self, directory, monkeypatch, path):
        directory.write(0, batches(4))
        directory.set_high_watermark(3)
        monkeypatch.chdir(directory.path)
        assert Scanned(path, mode="FAILFAST").offsets == [0, 1, 2]

    def test_partition_without_a_high_watermark_has_nothing_to_read(self, directory):
        directory.write(0, batches(4))
        (directory.path / "replication-offset-checkpoint").write_text("0\n0\n")
        assert directory.scan().offsets == []

    def test_damaged_checkpoint_is_reported(self, directory):
        directory.write(0, batches(1))
        (directory.path / "replication-offset-checkpoint").write_text("nonsense")
        with pytest.raises(ScanFailed, match="replication-offset-checkpoint"):
            directory.scan()


def test_missing_segment_is_a_gap_as_after_compaction(directory):
    directory.write(0, batches(2))
    directory.write(7, batches(2, first=7))
    assert directory.scan(mode="FAILFAST").offsets == [0, 1, 7, 8]


def test_batch_larger_than_a_group_is_read_whole(directory, monkeypatch):
    monkeypatch.setattr("odradek.spark_jobs.scan.segment_reader.LARGE_BATCH_BYTES", 1000)
    large = bytes(batch_of(b"v" * 9_000_000, base_offset=1))
    directory.write(0, [*batches(1), large, *batches(1, first=2)])
    scanned = directory.scan(columns="offset,valueSize")
    assert [(row["offset"], row["valueSize"]) for row in scanned.rows] == [
        *((0, SIZE), (1, 9_000_000), (2, SIZE)),
    ]
    directory.write(0, [*batches(1), flipped(large, 5_000_000), *batches(1, first=2)])
    assert directory.scan().offsets == [0, 2]
