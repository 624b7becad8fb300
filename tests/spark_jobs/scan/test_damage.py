"""Damage in a log: what is left out, what is told, and what is no damage at all."""

import pytest

from odradek.spark_jobs.scan.damage import ScanFailed
from tests.support.batches import batch_of, with_checksum
from tests.support.scans import LogDirectory, Scanned

SIZE = 40


def batches(count, *, first=0, size=SIZE):
    return [bytes(batch_of(b"v" * size, base_offset=first + at)) for at in range(count)]


@pytest.fixture
def directory(tmp_path):
    return LogDirectory(tmp_path)


def flipped(batch, at):
    return batch[:at] + bytes([batch[at] ^ 0xFF]) + batch[at + 1 :]


#: What is flipped in the third of six batches: a record's byte, the checksum, the attributes, the
#: magic, the length (which then leads beyond the file, or nowhere), the base offset.
PLACES = {"record": -3, "checksum": 18, "attributes": 22, "magic": 16, "length": 8, "short": 11}


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
class TestOneDamagedBatch:
    def damage(self, directory, place):
        made = batches(6)
        made[2] = flipped(made[2], place % len(made[2]))
        directory.write(0, made)
        return len(made[0])

    def test_permissive_reads_the_others_and_reports_the_range(self, directory, place):
        size = self.damage(directory, place)
        found = directory.scan()
        assert found.offsets == [0, 1, 3, 4, 5]
        (damage,) = found.damages
        assert (damage.position, damage.end_position) == (2 * size, 3 * size)
        assert (damage.topic, damage.partition, damage.first_offset) == ("orders", 0, 2)

    def test_dropmalformed_reads_the_others_and_says_nothing(self, directory, place):
        self.damage(directory, place)
        found = directory.scan(mode="DROPMALFORMED")
        assert (found.offsets, found.damages) == ([0, 1, 3, 4, 5], [])

    def test_failfast_fails_and_says_where(self, directory, place):
        size = self.damage(directory, place)
        with pytest.raises(ScanFailed, match=f"bytes {2 * size} to {3 * size}, from offset 2 on"):
            directory.scan(mode="FAILFAST")

    def test_the_view_of_batches_has_the_others(self, directory, place):
        self.damage(directory, place)
        rows = directory.scan(view="batches").rows
        assert [row["baseOffset"] for row in rows] == [0, 1, 3, 4, 5]


def test_an_offset_that_goes_back_is_damage_though_no_checksum_covers_it(directory):
    made = batches(4)
    made[2] = bytes(batch_of(b"back", base_offset=0))
    directory.write(0, made)
    found = directory.scan()
    assert found.offsets == [0, 1, 3]
    assert "where 2 is next" in found.damages[0].reason


def test_a_batch_inside_a_value_is_not_taken_for_one_of_the_log(directory):
    """Unless the damage hides where the one around it ends."""
    inner = bytes(batch_of(b"inner", base_offset=3))
    made = [*batches(3), bytes(batch_of(inner, base_offset=3)), *batches(1, first=4)]
    made[3] = flipped(made[3], -2 % len(made[3]))
    directory.write(0, made)
    assert directory.scan().offsets == [0, 1, 2, 4]


def test_an_unknown_codec_is_damage_in_every_column(directory):
    unknown = bytearray(batches(1, first=1)[0])
    unknown[22] = 7
    directory.write(0, [*batches(1), with_checksum(unknown), *batches(1, first=2)])
    for columns in ("codec", "value", "partition"):
        found = directory.scan(columns=columns)
        assert (len(found.rows), len(found.damages)) == (2, 1)


class TestEndOfALog:
    """What a broker leaves while it writes, and what only looks like it."""

    @pytest.mark.parametrize("cut", [1, 12, 30, 61, 90])
    def test_a_torn_tail_ends_the_read(self, directory, cut):
        made = batches(3)
        directory.write(0, [*made[:2], made[2][:-cut]])
        found = directory.scan(mode="FAILFAST")
        assert found.offsets == [0, 1]

    def test_preallocated_zeros_end_the_read(self, directory):
        directory.write(0, [*batches(3), bytes(100_000)])
        assert directory.scan(mode="FAILFAST").offsets == [0, 1, 2]

    def test_zeros_and_a_torn_tail_before_another_segment_are_damage(self, directory):
        directory.write(0, [*batches(2), bytes(50)])
        directory.write(2, batches(2, first=2))
        found = directory.scan()
        assert found.offsets == [0, 1, 2, 3]
        assert [damage.reason for damage in found.damages] == ["zeros where batches should be"]

    def test_what_the_high_watermark_says_is_there_must_be_there(self, directory):
        made = batches(4)
        directory.write(0, [*made[:3], made[3][:-1]])
        directory.set_high_watermark(4)
        found = directory.scan()
        assert found.offsets == [0, 1, 2]
        assert [damage.reason for damage in found.damages] == ["a batch is cut short"]

    @pytest.mark.parametrize("left", [3, 2, 0], ids=["some", "a segment less", "nothing"])
    def test_it_must_be_there_also_if_the_log_ends_with_a_whole_batch(self, directory, left):
        made = batches(4)
        directory.write(0, made[: min(left, 2)])
        if left != 2:
            directory.write(2, made[2:left])
        directory.set_high_watermark(4)
        found = directory.scan()
        assert found.offsets == list(range(left))
        (damage,) = found.damages
        assert damage.reason == "the log ends here, but the high watermark is 4"
        assert damage.first_offset == max(left, 2)
        with pytest.raises(ScanFailed, match="the high watermark is 4"):
            directory.scan(mode="FAILFAST")
        wanted = directory.scan(endingOffsets=f'{{"orders": {{"0": {left}}}}}', mode="FAILFAST")
        assert wanted.offsets == list(range(left))

    def test_a_log_that_was_just_rolled_or_emptied_by_retention_lacks_nothing(self, directory):
        directory.write(4, [])
        directory.set_high_watermark(4)
        assert directory.scan(mode="FAILFAST").offsets == []
        directory.write(0, batches(4))
        assert directory.scan(mode="FAILFAST").offsets == [0, 1, 2, 3]

    def test_nothing_is_read_beyond_the_high_watermark(self, directory):
        made = batches(4)
        directory.write(0, [*made[:3], flipped(made[3], 50)])
        directory.set_high_watermark(3)
        assert directory.scan(mode="FAILFAST").offsets == [0, 1, 2]
        directory.set_high_watermark(2)
        assert directory.scan(mode="FAILFAST").offsets == [0, 1]
        found = directory.scan(ignoreHighWatermark="true")
        assert (found.offsets, len(found.damages)) == ([0, 1, 2], 1)

    @pytest.mark.parametrize("path", ["orders-0", "./orders-0/", "."])
    def test_the_high_watermark_is_found_from_a_path_that_begins_nowhere(
        self, directory, monkeypatch, path
    ):
        directory.write(0, batches(4))
        directory.set_high_watermark(3)
        monkeypatch.chdir(directory.path)
        assert Scanned(path, mode="FAILFAST").offsets == [0, 1, 2]

    def test_a_partition_that_has_no_high_watermark_yet_has_nothing_to_read(self, directory):
        directory.write(0, batches(4))
        (directory.path / "replication-offset-checkpoint").write_text("0\n0\n")
        assert directory.scan().offsets == []

    def test_a_damaged_checkpoint_is_told(self, directory):
        directory.write(0, batches(1))
        (directory.path / "replication-offset-checkpoint").write_text("nonsense")
        with pytest.raises(ScanFailed, match="replication-offset-checkpoint"):
            directory.scan()


def test_a_missing_segment_is_a_gap_as_compaction_leaves_them(directory):
    directory.write(0, batches(2))
    directory.write(7, batches(2, first=7))
    assert directory.scan(mode="FAILFAST").offsets == [0, 1, 7, 8]


def test_a_batch_larger_than_a_group_is_read_whole(directory, monkeypatch):
    monkeypatch.setattr("odradek.spark_jobs.scan.walk.LARGE_BATCH_BYTES", 1000)
    large = bytes(batch_of(b"v" * 9_000_000, base_offset=1))
    directory.write(0, [*batches(1), large, *batches(1, first=2)])
    found = directory.scan(columns="offset,valueSize")
    assert [(row["offset"], row["valueSize"]) for row in found.rows] == [
        *((0, SIZE), (1, 9_000_000), (2, SIZE)),
    ]
    directory.write(0, [*batches(1), flipped(large, 5_000_000), *batches(1, first=2)])
    assert directory.scan().offsets == [0, 2]
