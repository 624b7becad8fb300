"""What is read at all: splits, pruning by offset, time and topic, and indexes that are wrong."""

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
from odradek.spark_jobs.scan.options import options_of
from odradek.spark_jobs.scan.plan import plan
from odradek.spark_jobs.scan.scanner import read_split
from odradek.storage.paths import Content, Purpose, new_directory_name
from tests.support.batches import batch_of
from tests.support.object_store import object_store
from tests.support.scans import LogDirectory, Scanned

COUNT = 400
STEP_MS = 1000


def batches(first, count):
    """Two records each, a second apart."""
    return [
        bytes(
            batch_of(
                Record(at, at * STEP_MS, None, b"v" * 500),
                Record(at + 1, (at + 1) * STEP_MS, None, b"w" * 500),
                base_offset=at,
            )
        )
        for at in range(first, first + count, 2)
    ]


@pytest.fixture
def directory(tmp_path):
    directory = LogDirectory(tmp_path)
    directory.write(0, batches(0, COUNT // 2), indexed=True)
    directory.write(COUNT // 2, batches(COUNT // 2, COUNT // 2), indexed=True)
    return directory


def options(directory, **given):
    return options_of({"path": str(directory.path), "columns": "offset", **given})


def offsets_of(splits, chosen):
    return [
        offset
        for split in splits
        for rows in read_split(split, chosen)
        for offset in rows["offset"].to_pylist()
    ]


def damage_nothing(directory):
    pass


def lose_the_index(directory):
    directory.file(0, Content.OFFSET_INDEX).unlink()


def shift_the_index(directory):
    path = directory.file(0, Content.OFFSET_INDEX)
    content = bytearray(path.read_bytes())
    for at in range(7, len(content), 8):
        content[at] ^= 5
    path.write_bytes(content)


def fill_with_zeros(directory):
    path = directory.file(0, Content.OFFSET_INDEX)
    path.write_bytes(bytes(path.stat().st_size))


INDEXES = [damage_nothing, lose_the_index, shift_the_index, fill_with_zeros]


@pytest.mark.parametrize("spoil", INDEXES)
class TestSplits:
    def test_each_record_is_in_one_split_and_none_is_too_large(self, directory, spoil):
        spoil(directory)
        chosen = options(directory, maxSplitBytes="20000", isolationLevel="read_uncommitted")
        splits = pickle.loads(pickle.dumps(plan(chosen)))
        assert offsets_of(splits, chosen) == list(range(COUNT))
        assert len(splits) > 10
        assert all(split.size_bytes < 20000 + 2200 for split in splits)
        assert all(offsets_of([split], chosen) for split in splits)

    @pytest.mark.parametrize(("start", "end"), [(0, 400), (7, 8), (101, 302), (399, 400), (5, 5)])
    def test_offsets_are_found(self, directory, spoil, start, end):
        spoil(directory)
        chosen = options(
            directory,
            startingOffsets=f'{{"orders": {{"0": {start}}}}}',
            endingOffsets=f'{{"orders": {{"0": {end}}}}}',
        )
        assert offsets_of(plan(chosen), chosen) == list(range(start, end))

    @pytest.mark.parametrize("lost", [False, True])
    def test_times_are_found(self, directory, spoil, lost):
        spoil(directory)
        if lost:
            directory.file(0, Content.TIME_INDEX).unlink()
        chosen = options(directory, startingTimestamp="30500", endingTimestamp="260000")
        assert offsets_of(plan(chosen), chosen) == list(range(31, 260))


def test_a_wrong_time_index_is_found_out(directory):
    path = directory.file(0, Content.TIME_INDEX)
    content = bytearray(path.read_bytes())
    for at in range(8, len(content), 12):
        content[at : at + 4] = (int.from_bytes(content[at : at + 4]) + 60).to_bytes(4)
    path.write_bytes(content)
    chosen = options(directory, startingTimestamp="30500")
    assert offsets_of(plan(chosen), chosen)[0] == 31


def test_a_small_range_of_time_reads_little(directory, monkeypatch):
    """One per cent of the time costs less than three per cent of the bytes, indexes included."""
    large = LogDirectory(directory.path / "large")
    large.write(0, batches(0, 40_000), indexed=False)
    # An index entry every 16 KB, as a log has every 4 KB among batches that are larger.
    large._write_indexes(0)
    for content, size in ((Content.OFFSET_INDEX, 8), (Content.TIME_INDEX, 12)):
        entries = large.file(0, content).read_bytes()
        every = [entries[at : at + size] for at in range(0, len(entries), size * 16)]
        large.file(0, content).write_bytes(b"".join(every))
    read = []

    def counted(descriptor, buffers, position):
        count = preadv(descriptor, buffers, position)
        read.append(count)
        return count

    preadv = os.preadv
    monkeypatch.setattr(file_access.os, "preadv", counted)
    found = large.scan(
        startingTimestamp=str(20_000 * STEP_MS),
        endingTimestamp=str(20_400 * STEP_MS),
        isolationLevel="read_uncommitted",
    )
    assert found.offsets == list(range(20_000, 20_400))
    assert sum(read) < 0.03 * large.file(0).stat().st_size


def test_a_file_that_compaction_replaced_is_read_by_offsets(directory):
    chosen = options(directory, maxSplitBytes="20000")
    splits = plan(chosen)
    kept = [batch for at, batch in enumerate(batches(0, COUNT // 2)) if at % 3]
    directory.write(0, kept)
    expected = [2 * at + k for at in range(COUNT // 4) if at % 3 for k in (0, 1)]
    assert offsets_of(splits, chosen) == expected + list(range(COUNT // 2, COUNT))


def test_a_last_segment_that_grew_before_it_was_compacted_is_read_by_offsets(tmp_path):
    """By its size alone it might be the one that was planned on."""
    directory = LogDirectory(tmp_path)
    directory.write(0, batches(0, COUNT // 2), indexed=True)
    directory.set_high_watermark(COUNT // 2)
    chosen = options(directory, maxSplitBytes="20000", mode="FAILFAST")
    splits = plan(chosen)
    assert len(splits) > 3
    kept = [batch for at, batch in enumerate(batches(0, COUNT // 2)) if at % 3]
    path = directory.write(0, [*kept, *batches(COUNT // 2, COUNT)])
    directory.write(COUNT * 2, batches(COUNT * 2, 2))
    assert path.stat().st_size > splits[0].segment_bytes
    expected = [2 * at + k for at in range(COUNT // 4) if at % 3 for k in (0, 1)]
    assert offsets_of(splits, chosen) == expected


@pytest.mark.parametrize("is_removed", [True, False], ids=["removed", "waits for its removal"])
def test_segments_that_compaction_joined_are_read_once(directory, is_removed):
    chosen = options(directory, mode="FAILFAST")
    splits = plan(chosen)
    directory.write(0, batches(0, COUNT))
    second = directory.file(COUNT // 2)
    second.unlink() if is_removed else second.rename(f"{second}.deleted")
    assert offsets_of(splits, chosen) == list(range(COUNT))


class TestGrowingSegment:
    """Its high watermark is not known, so that all of it is read."""

    def test_what_was_cut_short_when_it_was_planned_is_no_damage_later(self, tmp_path):
        directory = LogDirectory(tmp_path)
        made = batches(0, 8)
        directory.write(0, [*made[:2], made[2][:30]])
        chosen = options(directory, mode="FAILFAST")
        splits = plan(chosen)
        directory.write(0, made)
        assert offsets_of(splits, chosen) == list(range(4))

    def test_one_that_rolls_before_it_is_read_has_what_was_planned(self, directory):
        chosen = options(directory, mode="FAILFAST", maxSplitBytes="20000")
        splits = plan(chosen)
        with directory.file(COUNT // 2).open("ab") as file:
            file.write(b"".join(batches(COUNT, 10)))
        directory.write(COUNT + 10, batches(COUNT + 10, 10), indexed=True)
        assert offsets_of(splits, chosen) == list(range(COUNT))
        assert directory.scan(mode="FAILFAST").offsets == list(range(COUNT + 20))

    def test_where_it_ends_is_settled_before_transactions_are_looked_for(
        self, directory, monkeypatch
    ):
        def transactions(log):
            known = looked_for(log)
            begun = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
            late = batch_of(b"late", base_offset=COUNT, is_transactional=True, **begun)
            with directory.file(COUNT // 2).open("ab") as file:
                file.write(late)
            return known

        looked_for = plans.transactions
        monkeypatch.setattr(plans, "transactions", transactions)
        chosen = options(directory)
        assert offsets_of(plan(chosen), chosen) == list(range(COUNT))


@pytest.mark.parametrize("purpose", [Purpose.DELETE, Purpose.FUTURE, Purpose.STRAY])
def test_directories_that_come_or_go_are_not_read(directory, purpose):
    name = new_directory_name(TopicPartition("orders", 0), purpose)
    shutil.copytree(directory.partition, directory.path / str(name))
    other = new_directory_name(TopicPartition("other", 0), purpose)
    shutil.copytree(directory.partition, directory.path / str(other))
    assert directory.scan(mode="FAILFAST").offsets == list(range(COUNT))


class TestLostSegments:
    def test_a_segment_that_is_gone_is_an_error(self, directory):
        chosen = options(directory)
        splits = plan(chosen)
        directory.file(0).unlink()
        with pytest.raises(ScanFailed, match="failOnDataLoss"):
            offsets_of(splits, chosen)

    def test_unless_that_is_allowed(self, directory):
        chosen = options(directory, failOnDataLoss="false")
        splits = plan(chosen)
        directory.file(0).unlink()
        assert offsets_of(splits, chosen) == list(range(COUNT // 2, COUNT))

    def test_one_that_waits_for_its_removal_is_read(self, directory):
        chosen = options(directory)
        splits = plan(chosen)
        directory.file(0).rename(f"{directory.file(0)}.deleted")
        assert offsets_of(splits, chosen) == list(range(COUNT))


def test_replicas_in_several_directories_are_read_once(directory, tmp_path):
    behind = LogDirectory(tmp_path / "behind")
    behind.write(0, batches(0, COUNT // 2))
    chosen = options_of({"path": f"{behind.path},{directory.path}", "columns": "offset"})
    assert offsets_of(plan(chosen), chosen) == list(range(COUNT))


def test_topics_are_chosen_by_name_pattern_and_partition(directory, tmp_path):
    other = directory.path / "other.topic-3"
    other.mkdir()
    (other / "00000000000000000000.log").write_bytes(b"".join(batches(0, 2)))
    for given, expected in (
        ({"topics": "orders"}, {("orders", 0)}),
        ({"topicsPattern": "o.*"}, {("orders", 0), ("other.topic", 3)}),
        ({"topicsPattern": "other"}, set()),
        ({"assign": '{"other.topic": [3]}'}, {("other.topic", 3)}),
    ):
        splits = plan(options(directory, **given))
        assert {(split.topic, split.partition) for split in splits} == expected


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ({"topics": "oders"}, "oders"),
        ({"topics": "orders,oders,odd"}, "odd, oders"),
        ({"assign": '{"orders": [0, 7]}'}, "orders-7"),
    ],
)
def test_what_is_named_and_not_there_is_told(directory, given, missing):
    """As by Spark's own Kafka source; a pattern names nothing."""
    with pytest.raises(ScanFailed) as failed:
        plan(options(directory, **given))
    assert str(failed.value) == (
        f"{missing}: not in {directory.path}; failOnDataLoss=false goes on without"
    )
    chosen = options(directory, failOnDataLoss="false", **given)
    there = list(range(COUNT)) if "orders" in str(given) else []
    assert offsets_of(plan(chosen), chosen) == there


@pytest.mark.parametrize("what", ["partition", "log directory", "strange name"])
def test_a_uri_is_read_as_a_path_is(directory, what):
    path = directory.path if what != "partition" else directory.partition
    if what == "strange name":
        path = path.rename(path.with_name("a%20b c"))
        path = path.with_name("a%2520b%20c")  # as a URI has it
    chosen = options_of({"path": f"file://{path}", "columns": "offset", "maxSplitBytes": "20000"})
    assert offsets_of(plan(chosen), chosen) == list(range(COUNT))


def test_file_systems_of_fsspec_are_read_too(directory):
    import fsspec

    memory = fsspec.filesystem("memory")
    memory.put(str(directory.path), "/logs", recursive=True)
    chosen = options_of({"path": "memory://logs", "columns": "offset"})
    assert offsets_of(plan(chosen), chosen) == list(range(COUNT))
    memory.rm("/logs", recursive=True)


class TestObjectStore:
    """Through pyarrow's client of S3; where to find the store stands in the URI."""

    @pytest.fixture
    def store(self, directory, monkeypatch):
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        with object_store(directory.path.parent) as store:
            yield store

    @pytest.mark.parametrize("what", ["log directory", "partition"])
    def test_it_is_read_as_a_directory_is(self, directory, store, what):
        directory.set_high_watermark(COUNT - 1)
        path = directory.path if what == "log directory" else directory.partition
        uri = store.uri(str(path.relative_to(directory.path.parent)))
        found = Scanned(uri, maxSplitBytes="20000", mode="FAILFAST", columns="offset,segment")
        assert found.offsets == list(range(COUNT - 1))
        first = directory.file(0).relative_to(directory.path.parent)
        assert found.rows[0]["segment"] == store.uri(str(first))

    def test_one_client_serves_all_of_its_files(self, store):
        systems = {id(arrow_file_system(store.uri(key))[0]) for key in ("a/0", "a/1", "b")}
        assert len(systems) == 1

    def test_settings_that_it_does_not_know_are_told(self, store):
        with pytest.raises(ScanFailed, match="colour"):
            Scanned(store.uri("logs") + "&colour=blue")


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"path": "/nowhere"}, "no such directory"),
        ({"path": " "}, "at least one"),
        ({"nix": "1"}, "no option is called nix"),
        ({"mode": "x"}, "PERMISSIVE"),
        ({"columns": "offset,nix"}, "no column is called 'nix'"),
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
def test_options_that_make_no_sense_are_told_in_one_line(directory, given, complaint):
    with pytest.raises(ScanFailed, match=complaint) as told:
        plan(options_of({"path": str(directory.path), **given}))
    assert "\n" not in str(told.value)
