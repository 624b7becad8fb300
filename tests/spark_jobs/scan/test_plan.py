"""The scan plan: splits, pruning by offset, time and topic, and wrong indexes."""

import os
import pickle
import shutil

import pytest

from odradek.protocol.records.record import Record
from odradek.protocol.types import TopicPartition
from odradek.spark_jobs.scan import file_access
from odradek.spark_jobs.scan import plan as plans
from odradek.spark_jobs.scan.damage import ScanFailed
from odradek.spark_jobs.scan.file_access import arrow_file_system
from odradek.spark_jobs.scan.options import parse_options
from odradek.spark_jobs.scan.plan import plan
from odradek.spark_jobs.scan.scanner import read_split
from odradek.storage.paths import DirectoryType, LogFileType, new_directory_name
from tests.support.batches import batch_of
from tests.support.object_store import object_store
from tests.support.scans import LogDirectory, Scanned

COUNT = 400
STEP_MS = 1000


def batches(first, count):
    """Return batches of two records, one second apart."""
    return [
        bytes(
            batch_of(
                Record(offset, offset * STEP_MS, None, b"v" * 500),
                Record(offset + 1, (offset + 1) * STEP_MS, None, b"w" * 500),
                base_offset=offset,
            )
        )
        for offset in range(first, first + count, 2)
    ]


@pytest.fixture
def directory(tmp_path):
    directory = LogDirectory(tmp_path)
    directory.write(0, batches(0, COUNT // 2), indexed=True)
    directory.write(COUNT // 2, batches(COUNT // 2, COUNT // 2), indexed=True)
    return directory


def options(directory, **others):
    return parse_options({"path": str(directory.path), "columns": "offset", **others})


def offsets_of(splits, scan_options):
    return [
        offset
        for split in splits
        for rows in read_split(split, scan_options)
        for offset in rows["offset"].to_pylist()
    ]


def keep_the_index(directory):
    pass


def delete_the_index(directory):
    directory.file(0, LogFileType.OFFSET_INDEX).unlink()


def shift_the_index(directory):
    path = directory.file(0, LogFileType.OFFSET_INDEX)
    content = bytearray(path.read_bytes())
    for position in range(7, len(content), 8):
        content[position] ^= 5
    path.write_bytes(content)


def fill_the_index_with_zeros(directory):
    path = directory.file(0, LogFileType.OFFSET_INDEX)
    path.write_bytes(bytes(path.stat().st_size))


INDEXES = [keep_the_index, delete_the_index, shift_the_index, fill_the_index_with_zeros]


@pytest.mark.parametrize("damage", INDEXES)
class TestSplits:
    def test_each_record_is_in_one_split_of_limited_size(self, directory, damage):
        damage(directory)
        scan_options = options(directory, maxSplitBytes="20000", isolationLevel="read_uncommitted")
        splits = pickle.loads(pickle.dumps(plan(scan_options)))
        assert offsets_of(splits, scan_options) == list(range(COUNT))
        assert len(splits) > 10
        assert all(split.size_bytes < 20000 + 2200 for split in splits)
        assert all(offsets_of([split], scan_options) for split in splits)

    @pytest.mark.parametrize(("start", "end"), [(0, 400), (7, 8), (101, 302), (399, 400), (5, 5)])
    def test_offset_range_is_exact(self, directory, damage, start, end):
        damage(directory)
        scan_options = options(
            directory,
            startingOffsets=f'{{"orders": {{"0": {start}}}}}',
            endingOffsets=f'{{"orders": {{"0": {end}}}}}',
        )
        assert offsets_of(plan(scan_options), scan_options) == list(range(start, end))

    @pytest.mark.parametrize("without_time_index", [False, True])
    def test_time_range_is_exact(self, directory, damage, without_time_index):
        damage(directory)
        if without_time_index:
            directory.file(0, LogFileType.TIME_INDEX).unlink()
        scan_options = options(directory, startingTimestamp="30500", endingTimestamp="260000")
        assert offsets_of(plan(scan_options), scan_options) == list(range(31, 260))


def test_wrong_time_index_is_detected(directory):
    path = directory.file(0, LogFileType.TIME_INDEX)
    content = bytearray(path.read_bytes())
    for position in range(8, len(content), 12):
        content[position : position + 4] = (
            int.from_bytes(content[position : position + 4]) + 60
        ).to_bytes(4)
    path.write_bytes(content)
    scan_options = options(directory, startingTimestamp="30500")
    assert offsets_of(plan(scan_options), scan_options)[0] == 31


def test_small_time_range_reads_few_bytes(directory, monkeypatch):
    """One per cent of the time range reads less than three per cent of the bytes, with indexes."""
    large = LogDirectory(directory.path / "large")
    large.write(0, batches(0, 40_000), indexed=False)
    # One index entry per 16 KB, as in a log with large batches.
    large._write_indexes(0)
    for content, size in ((LogFileType.OFFSET_INDEX, 8), (LogFileType.TIME_INDEX, 12)):
        entries = large.file(0, content).read_bytes()
        sparse = [
            entries[position : position + size] for position in range(0, len(entries), size * 16)
        ]
        large.file(0, content).write_bytes(b"".join(sparse))
    byte_counts = []

    def count_bytes(descriptor, buffers, position):
        count = preadv(descriptor, buffers, position)
        byte_counts.append(count)
        return count

    preadv = os.preadv
    monkeypatch.setattr(file_access.os, "preadv", count_bytes)
    scanned = large.scan(
        startingTimestamp=str(20_000 * STEP_MS),
        endingTimestamp=str(20_400 * STEP_MS),
        isolationLevel="read_uncommitted",
    )
    assert scanned.offsets == list(range(20_000, 20_400))
    assert sum(byte_counts) < 0.03 * large.file(0).stat().st_size


def test_file_replaced_by_compaction_is_read_by_offsets(directory):
    scan_options = options(directory, maxSplitBytes="20000")
    splits = plan(scan_options)
    kept = [batch for number, batch in enumerate(batches(0, COUNT // 2)) if number % 3]
    directory.write(0, kept)
    expected = [2 * number + k for number in range(COUNT // 4) if number % 3 for k in (0, 1)]
    assert offsets_of(splits, scan_options) == expected + list(range(COUNT // 2, COUNT))


def test_last_segment_that_grew_and_was_compacted_is_read_by_offsets(tmp_path):
    """Its size alone does not show that it was replaced."""
    directory = LogDirectory(tmp_path)
    directory.write(0, batches(0, COUNT // 2), indexed=True)
    directory.set_high_watermark(COUNT // 2)
    scan_options = options(directory, maxSplitBytes="20000", mode="FAILFAST")
    splits = plan(scan_options)
    assert len(splits) > 3
    kept = [batch for number, batch in enumerate(batches(0, COUNT // 2)) if number % 3]
    path = directory.write(0, [*kept, *batches(COUNT // 2, COUNT)])
    directory.write(COUNT * 2, batches(COUNT * 2, 2))
    assert path.stat().st_size > splits[0].segment_bytes
    expected = [2 * number + k for number in range(COUNT // 4) if number % 3 for k in (0, 1)]
    assert offsets_of(splits, scan_options) == expected


@pytest.mark.parametrize("is_removed", [True, False], ids=["removed", "waits for its removal"])
def test_segments_merged_by_compaction_are_read_once(directory, is_removed):
    scan_options = options(directory, mode="FAILFAST")
    splits = plan(scan_options)
    directory.write(0, batches(0, COUNT))
    second = directory.file(COUNT // 2)
    second.unlink() if is_removed else second.rename(f"{second}.deleted")
    assert offsets_of(splits, scan_options) == list(range(COUNT))


class TestGrowingSegment:
    """The high watermark is unknown, so the whole segment is read."""

    def test_batch_truncated_at_planning_is_not_damage_later(self, tmp_path):
        directory = LogDirectory(tmp_path)
        encoded = batches(0, 8)
        directory.write(0, [*encoded[:2], encoded[2][:30]])
        scan_options = options(directory, mode="FAILFAST")
        splits = plan(scan_options)
        directory.write(0, encoded)
        assert offsets_of(splits, scan_options) == list(range(4))

    def test_segment_that_rolls_after_planning_has_the_planned_records(self, directory):
        scan_options = options(directory, mode="FAILFAST", maxSplitBytes="20000")
        splits = plan(scan_options)
        with directory.file(COUNT // 2).open("ab") as file:
            file.write(b"".join(batches(COUNT, 10)))
        directory.write(COUNT + 10, batches(COUNT + 10, 10), indexed=True)
        assert offsets_of(splits, scan_options) == list(range(COUNT))
        assert directory.scan(mode="FAILFAST").offsets == list(range(COUNT + 20))

    def test_end_is_determined_before_transactions_are_loaded(self, directory, monkeypatch):
        def load_and_append(log):
            transactions = original(log)
            producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
            late_batch = batch_of(b"late", base_offset=COUNT, is_transactional=True, **producer)
            with directory.file(COUNT // 2).open("ab") as file:
                file.write(late_batch)
            return transactions

        original = plans.load_transactions
        monkeypatch.setattr(plans, "load_transactions", load_and_append)
        scan_options = options(directory)
        assert offsets_of(plan(scan_options), scan_options) == list(range(COUNT))


@pytest.mark.parametrize(
    "purpose", [DirectoryType.DELETE, DirectoryType.FUTURE, DirectoryType.STRAY]
)
def test_deleted_future_and_stray_directories_are_not_read(directory, purpose):
    name = new_directory_name(TopicPartition("orders", 0), purpose)
    shutil.copytree(directory.partition, directory.path / str(name))
    other = new_directory_name(TopicPartition("other", 0), purpose)
    shutil.copytree(directory.partition, directory.path / str(other))
    assert directory.scan(mode="FAILFAST").offsets == list(range(COUNT))


class TestLostSegments:
    def test_deleted_segment_is_an_error(self, directory):
        scan_options = options(directory)
        splits = plan(scan_options)
        directory.file(0).unlink()
        with pytest.raises(ScanFailed, match="failOnDataLoss"):
            offsets_of(splits, scan_options)

    def test_deleted_segment_is_skipped_without_fail_on_data_loss(self, directory):
        scan_options = options(directory, failOnDataLoss="false")
        splits = plan(scan_options)
        directory.file(0).unlink()
        assert offsets_of(splits, scan_options) == list(range(COUNT // 2, COUNT))

    def test_segment_renamed_for_deletion_is_read(self, directory):
        scan_options = options(directory)
        splits = plan(scan_options)
        directory.file(0).rename(f"{directory.file(0)}.deleted")
        assert offsets_of(splits, scan_options) == list(range(COUNT))


def test_replicas_in_several_directories_are_read_once(directory, tmp_path):
    behind = LogDirectory(tmp_path / "behind")
    behind.write(0, batches(0, COUNT // 2))
    scan_options = parse_options({"path": f"{behind.path},{directory.path}", "columns": "offset"})
    assert offsets_of(plan(scan_options), scan_options) == list(range(COUNT))


def test_topics_are_selected_by_name_pattern_and_partition(directory, tmp_path):
    other = directory.path / "other.topic-3"
    other.mkdir()
    (other / "00000000000000000000.log").write_bytes(b"".join(batches(0, 2)))
    for selection, expected in (
        ({"topics": "orders"}, {("orders", 0)}),
        ({"topicsPattern": "o.*"}, {("orders", 0), ("other.topic", 3)}),
        ({"topicsPattern": "other"}, set()),
        ({"assign": '{"other.topic": [3]}'}, {("other.topic", 3)}),
    ):
        splits = plan(options(directory, **selection))
        assert {(split.topic, split.partition) for split in splits} == expected


@pytest.mark.parametrize(
    ("selection", "missing"),
    [
        ({"topics": "oders"}, "oders"),
        ({"topics": "orders,oders,odd"}, "odd, oders"),
        ({"assign": '{"orders": [0, 7]}'}, "orders-7"),
    ],
)
def test_unknown_topic_or_partition_is_reported(directory, selection, missing):
    """As in Spark's Kafka source; a pattern may match nothing."""
    with pytest.raises(ScanFailed) as raised:
        plan(options(directory, **selection))
    assert str(raised.value) == (
        f"{missing}: not in {directory.path}; set failOnDataLoss=false to ignore this"
    )
    scan_options = options(directory, failOnDataLoss="false", **selection)
    expected = list(range(COUNT)) if "orders" in str(selection) else []
    assert offsets_of(plan(scan_options), scan_options) == expected


@pytest.mark.parametrize("what", ["partition", "log directory", "strange name"])
def test_uri_is_read_like_a_path(directory, what):
    path = directory.path if what != "partition" else directory.partition
    if what == "strange name":
        path = path.rename(path.with_name("a%20b c"))
        path = path.with_name("a%2520b%20c")  # encoded for a URI
    scan_options = parse_options(
        {"path": f"file://{path}", "columns": "offset", "maxSplitBytes": "20000"}
    )
    assert offsets_of(plan(scan_options), scan_options) == list(range(COUNT))


def test_fsspec_file_system_is_read(directory):
    import fsspec

    memory = fsspec.filesystem("memory")
    memory.put(str(directory.path), "/logs", recursive=True)
    scan_options = parse_options({"path": "memory://logs", "columns": "offset"})
    assert offsets_of(plan(scan_options), scan_options) == list(range(COUNT))
    memory.rm("/logs", recursive=True)


class TestObjectStore:
    """Through pyarrow's S3 client; the URI has the address of the store."""

    @pytest.fixture
    def store(self, directory, monkeypatch):
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        with object_store(directory.path.parent) as store:
            yield store

    @pytest.mark.parametrize("what", ["log directory", "partition"])
    def test_object_store_is_read_like_a_directory(self, directory, store, what):
        directory.set_high_watermark(COUNT - 1)
        path = directory.path if what == "log directory" else directory.partition
        uri = store.uri(str(path.relative_to(directory.path.parent)))
        scanned = Scanned(uri, maxSplitBytes="20000", mode="FAILFAST", columns="offset,segment")
        assert scanned.offsets == list(range(COUNT - 1))
        first = directory.file(0).relative_to(directory.path.parent)
        assert scanned.rows[0]["segment"] == store.uri(str(first))

    def test_one_client_serves_all_files_of_a_store(self, store):
        systems = {id(arrow_file_system(store.uri(key))[0]) for key in ("a/0", "a/1", "b")}
        assert len(systems) == 1

    def test_unknown_uri_setting_is_reported(self, store):
        with pytest.raises(ScanFailed, match="colour"):
            Scanned(store.uri("logs") + "&colour=blue")


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        ({"path": "/nowhere"}, "no such directory"),
        ({"path": " "}, "at least one"),
        ({"nix": "1"}, "unknown option nix; known options: path,"),
        ({"mode": "x"}, "PERMISSIVE"),
        ({"columns": "offset,nix"}, "columns: unknown column 'nix'; known columns: "),
        ({"startingOffsets": "latest"}, "startingOffsets"),
        ({"endingOffsets": '{"a": {"0": -3}}'}, "endingOffsets"),
        ({"startingOffsets": "earliest", "startingTimestamp": "1"}, "together"),
        ({"topics": "a", "assign": "{}"}, "together"),
        ({"topicsPattern": "("}, "topicsPattern"),
        ({"assign": "[]"}, "assign"),
        ({"maxSplitBytes": "0"}, "maxSplitBytes"),
        ({"includeHeaders": "maybe"}, "includeHeaders"),
        ({"isolationLevel": "x"}, "isolationLevel"),
        ({"path": "nix://host/path"}, "nix"),
    ],
)
def test_invalid_options_are_reported_in_one_line(directory, selection, message):
    with pytest.raises(ScanFailed, match=message) as raised:
        plan(parse_options({"path": str(directory.path), **selection}))
    assert "\n" not in str(raised.value)
