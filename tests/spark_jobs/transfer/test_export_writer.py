"""Exports below Spark: files by topic and date, with all fields, and in the order of offsets."""

import json
from datetime import UTC, datetime

import pytest

from odradek.protocol.records.record import Record
from odradek.spark_jobs.scan.damage import ScanFailed
from odradek.spark_jobs.scan.options import options_of
from odradek.spark_jobs.scan.scanner import read_split
from odradek.spark_jobs.transfer import export_files, manifest
from odradek.spark_jobs.transfer.export_files import NO_DATE, date_of
from odradek.spark_jobs.transfer.export_plan import (
    COLUMNS,
    check_continues,
    offsets_after,
    plan_export,
)
from odradek.spark_jobs.transfer.export_rows import PlacedFile, exported_records
from odradek.spark_jobs.transfer.places import Place
from tests.support.batches import batch_of
from tests.support.exports import exported, rows_in
from tests.support.recorded_segments import (
    SEGMENTS,
    RecordedSegment,
    names_of_recorded_segments,
)
from tests.support.scans import LogDirectory, plain_rows

DAY_MS = 86_400_000
NOON = 1_700_000_000_000


def date(timestamp_ms):
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).date().isoformat()


@pytest.fixture
def directory(tmp_path):
    return LogDirectory(tmp_path / "logs")


@pytest.mark.parametrize(
    "name", [name for name in names_of_recorded_segments() if "magic" not in name]
)
def test_every_field_is_what_plain_python_reads(name, directory, tmp_path):
    recorded = RecordedSegment.load(SEGMENTS, name)
    path = directory.write(0, [recorded.log])
    exported(directory.path, tmp_path / "export", isolationLevel="read_uncommitted")
    expected = list(plain_rows(recorded.log, segment=str(path)))
    found = rows_in(tmp_path / "export")
    assert [{name: row[name] for name in COLUMNS} for row in found] == [
        {name: row[name] for name in COLUMNS} for row in expected
    ]
    assert {row["topic"] for row in found} == {"orders"}
    assert [str(row["date"]) for row in found] == [date(row["timestamp"]) for row in expected]


def scattered(count):
    """Records whose timestamps go to and fro over five days."""
    return [
        Record(number, NOON + number * 7 % 5 * DAY_MS, b"k%d" % number, b"v%d" % number, ())
        for number in range(count)
    ]


def write_scattered(directory, count=60):
    records = scattered(count)
    for start in range(0, count, 20):
        batches = [
            batch_of(*records[at : at + 5], base_offset=at) for at in range(start, start + 20, 5)
        ]
        directory.write(start, batches, indexed=True)
    return records


def placed(target, whole):
    return [PlacedFile(str(target), file) for file in whole.files]


class TestFiles:
    def test_each_has_one_date_and_ascending_offsets(self, directory, tmp_path):
        records = write_scattered(directory)
        whole = exported(directory.path, tmp_path / "export")
        assert len(whole.files) == 5
        for file in whole.files:
            own = [each for each in records if date(each.timestamp) == file.date]
            assert file.path == (f"topic=orders/date={file.date}/00000-{own[0].offset:020}.parquet")
            assert (file.records, file.last_offset) == (len(own), own[-1].offset)
            assert (tmp_path / "export" / file.path).stat().st_size == file.size_bytes

    def test_records_come_back_in_the_order_of_offsets(self, directory, tmp_path):
        records = write_scattered(directory)
        whole = exported(directory.path, tmp_path / "export")
        found = list(exported_records(placed(tmp_path / "export", whole)))
        assert [(each.offset, each.timestamp_ms, each.key, each.value) for each in found] == [
            (each.offset, each.timestamp, each.key, each.value) for each in records
        ]

    def test_wild_timestamps_do_not_keep_all_files_open(self, directory, tmp_path, monkeypatch):
        monkeypatch.setattr(export_files, "OPEN_MAX", 2)
        records = write_scattered(directory)
        whole = exported(directory.path, tmp_path / "export", maxSplitBytes="300")
        assert len(whole.files) > 5
        assert sum(file.records for file in whole.files) == len(records)
        found = list(exported_records(placed(tmp_path / "export", whole)))
        assert [each.offset for each in found] == [each.offset for each in records]

    def test_a_record_without_a_timestamp_that_has_room_has_no_date(self, directory, tmp_path):
        record = Record(0, 2**62, b"k", b"v", ())
        directory.write(0, [batch_of(record)])
        (file,) = exported(directory.path, tmp_path / "export").files
        assert file.date == NO_DATE
        (found,) = exported_records(placed(tmp_path / "export", exported_again(tmp_path)))
        assert (found.timestamp_ms, found.key) == (None, b"k")

    def test_dates(self):
        assert [date_of(day) for day in (-1, 0, 19_675)] == [
            "1969-12-31",
            "1970-01-01",
            "2023-11-14",
        ]
        assert date_of(10**9) == NO_DATE

    def test_damage_is_noted_and_the_rest_is_there(self, directory, tmp_path):
        made = [bytearray(batch_of(b"v" * 40, base_offset=at)) for at in range(4)]
        made[2][-3] ^= 0xFF
        directory.write(0, made)
        whole = exported(directory.path, tmp_path / "export")
        assert [each["offset"] for each in rows_in(tmp_path / "export")] == [0, 1, 3]
        (line,) = whole.damages
        assert f"bytes {2 * len(made[0])} to {3 * len(made[0])}" in line


def exported_again(tmp_path):
    return manifest.read(str(tmp_path / "export"))


class TestWholeness:
    def begin(self, target, *, overwrite=False):
        manifest.begin(Place(str(target)), overwrite=overwrite)

    def test_an_export_that_was_broken_off_is_none(self, directory, tmp_path):
        target = tmp_path / "export"
        write_scattered(directory)
        chosen = options_of(
            {"path": str(directory.path), "columns": ",".join(COLUMNS), "maxSplitBytes": "500"}
        )
        first, *others = plan_export(chosen).pieces
        self.begin(target)
        export_files.write_piece(first, chosen, str(target))
        assert others != []
        assert rows_in(target) != []
        with pytest.raises(ScanFailed, match="no export: an export was broken off"):
            manifest.read(str(target))
        assert exported(directory.path, target).records == len(rows_in(target)) == 60

    def test_the_next_attempt_leaves_nothing_of_the_one_before(self, directory, tmp_path):
        target = tmp_path / "export"
        self.begin(target)
        stray = target / "topic=orders" / "date=2020-01-01" / "stray.parquet"
        stray.parent.mkdir(parents=True)
        stray.write_bytes(b"torn")
        directory.write(0, [batch_of(b"v")])
        exported(directory.path, target)
        assert not stray.exists()
        assert len(rows_in(target)) == 1
        assert not (target / manifest.UNFINISHED).exists()

    def test_nothing_is_left_of_a_task_that_was_tried_again(self, directory, tmp_path, monkeypatch):
        """Compaction took a first record away in between: the files have other names then."""

        def torn(split, options, report):
            for rows in read_split(split, options, report):
                yield rows
                raise OSError("the worker is gone")

        target = tmp_path / "export"
        records = write_scattered(directory, 20)
        chosen = options_of({"path": str(directory.path), "columns": ",".join(COLUMNS)})
        planned = plan_export(chosen)
        (piece,) = planned.pieces
        place = Place(str(target))
        self.begin(target)
        with monkeypatch.context() as patch:
            patch.setattr(export_files, "read_split", torn)
            with pytest.raises(OSError, match="the worker is gone"):
                export_files.write_piece(piece, chosen, str(target))
        assert rows_in(target) == []  # what is not whole has no name that anybody reads
        stray = export_files.write_piece(piece, chosen, str(target))
        directory.write(0, [batch_of(*records[at : at + 5], base_offset=at) for at in (5, 10, 15)])
        written = export_files.write_piece(piece, chosen, str(target))
        assert {file.path for file in stray.files} - {file.path for file in written.files}
        manifest.finish(place, export_files.manifest_of(planned, [written], {}, created_ms=0))
        assert [row["offset"] for row in rows_in(target)] == list(range(5, 20))
        left = {str(path.relative_to(target)) for path in target.rglob("*") if path.is_file()}
        assert left == {manifest.MANIFEST, *(file.path for file in written.files)}

    def test_a_whole_export_is_replaced_only_if_that_is_said(self, directory, tmp_path):
        target = tmp_path / "export"
        directory.write(0, [batch_of(b"v")])
        exported(directory.path, target)
        with pytest.raises(ScanFailed, match="--overwrite"):
            self.begin(target)
        assert len(manifest.read(str(target)).files) == 1
        self.begin(target, overwrite=True)
        assert [path.name for path in target.iterdir()] == [manifest.UNFINISHED]

    def test_what_is_no_export_is_left_alone(self, tmp_path):
        (tmp_path / "mine.txt").write_text("mine")
        with pytest.raises(ScanFailed, match="no export"):
            self.begin(tmp_path)
        with pytest.raises(ScanFailed, match="there is something else"):
            manifest.read(str(tmp_path))
        assert (tmp_path / "mine.txt").read_text() == "mine"

    def test_a_file_that_is_missing_or_cut_makes_it_no_whole_export(self, directory, tmp_path):
        target = tmp_path / "export"
        directory.write(0, [batch_of(b"v")])
        (file,) = exported(directory.path, target).files
        content = (target / file.path).read_bytes()
        (target / file.path).write_bytes(content[:-1])
        with pytest.raises(ScanFailed, match=f"{len(content) - 1} bytes, not {len(content)}"):
            manifest.read(str(target))
        (target / file.path).unlink()
        with pytest.raises(ScanFailed, match="missing"):
            manifest.read(str(target))

    def test_a_file_whose_content_is_damaged_is_told(self, directory, tmp_path):
        target = tmp_path / "export"
        directory.write(0, [batch_of(b"v" * 1000)])
        (file,) = exported(directory.path, target).files
        path = target / file.path
        path.write_bytes(b"\0" * path.stat().st_size)
        with pytest.raises(ScanFailed, match=file.path):
            list(exported_records(placed(target, manifest.read(str(target)))))


def test_a_directory_may_be_named_by_a_uri(directory, tmp_path):
    records = write_scattered(directory)
    target = f"file://{tmp_path}/export"
    whole = exported(directory.path, target)
    assert manifest.read(target) == whole
    assert len(rows_in(tmp_path / "export")) == len(records)
    found = list(exported_records(placed(target, whole)))
    assert [each.offset for each in found] == [each.offset for each in records]
    manifest.begin(Place(target), overwrite=True)
    assert [path.name for path in (tmp_path / "export").iterdir()] == [manifest.UNFINISHED]


class TestSinceAnother:
    def test_an_export_begins_where_another_has_ended(self, directory, tmp_path):
        batches = [batch_of(b"%d" % at, base_offset=at) for at in range(8)]
        directory.write(0, batches)
        directory.set_high_watermark(5)
        first = exported(directory.path, tmp_path / "1")
        assert [(each.start_offset, each.end_offset) for each in first.partitions] == [(0, 5)]
        directory.set_high_watermark(8)
        offsets = offsets_after(first)
        assert json.loads(offsets) == {"orders": {"0": 5}}
        second = exported(directory.path, tmp_path / "2", startingOffsets=offsets)
        assert [row["offset"] for row in rows_in(tmp_path / "2")] == [5, 6, 7]
        assert [(each.start_offset, each.end_offset) for each in second.partitions] == [(5, 8)]
        third = exported(directory.path, tmp_path / "3", startingOffsets=offsets_after(second))
        assert (third.files, third.records) == ((), 0)
        assert third.partitions[0].end_offset == 8

    def planned(self, directory, older):
        given = {"path": str(directory.path), "startingOffsets": offsets_after(older)}
        return plan_export(options_of({**given, "columns": ",".join(COLUMNS)}))

    def test_a_topic_that_ends_earlier_is_another(self, directory, tmp_path):
        directory.write(0, [batch_of(b"%d" % at, base_offset=at) for at in range(4)])
        older = exported(directory.path, tmp_path / "1")
        directory.write(0, [batch_of(b"new")])
        with pytest.raises(ScanFailed, match="orders-0 ends before 4"):
            check_continues(self.planned(directory, older), older)

    def test_what_was_deleted_between_two_exports_is_told(self, directory, tmp_path):
        directory.write(0, [batch_of(b"0")])
        older = exported(directory.path, tmp_path / "1")
        directory.file(0).unlink()
        directory.write(7, [batch_of(b"7", base_offset=7)])
        assert check_continues(self.planned(directory, older), older) == [
            "orders-0: offsets 1 to 6 have been deleted"
        ]


def test_the_count_of_partitions_is_that_of_the_directories(directory, tmp_path):
    directory.write(0, [batch_of(b"v")])
    (directory.path / "orders-6").mkdir()
    (directory.path / "others-2").mkdir()
    whole = exported(directory.path, tmp_path / "export", assign='{"orders": [0]}')
    assert whole.partition_counts == {"orders": 7}
    assert [(each.topic, each.partition) for each in whole.partitions] == [("orders", 0)]
