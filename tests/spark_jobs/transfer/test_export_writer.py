"""Export files: by topic and date, with all fields, in the order of offsets."""

import json
from datetime import UTC, datetime

import pytest

from odradek.protocol.records.record import Record
from odradek.spark_jobs.scan.damage import ScanFailed
from odradek.spark_jobs.scan.options import parse_options
from odradek.spark_jobs.scan.scanner import read_split
from odradek.spark_jobs.transfer import export_writer, manifest
from odradek.spark_jobs.transfer.export_directory import ExportDirectory
from odradek.spark_jobs.transfer.export_plan import (
    EXPORT_COLUMNS,
    check_continuity,
    plan_export,
    starting_offsets_after,
)
from odradek.spark_jobs.transfer.export_reader import ExportFileRef, read_exported_records
from odradek.spark_jobs.transfer.export_writer import NO_DATE, format_date
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
def test_every_field_equals_the_plain_python_decoding(name, directory, tmp_path):
    recorded = RecordedSegment.load(SEGMENTS, name)
    path = directory.write(0, [recorded.log])
    exported(directory.path, tmp_path / "export", isolationLevel="read_uncommitted")
    expected = list(plain_rows(recorded.log, segment=str(path)))
    rows = rows_in(tmp_path / "export")
    assert [{name: row[name] for name in EXPORT_COLUMNS} for row in rows] == [
        {name: row[name] for name in EXPORT_COLUMNS} for row in expected
    ]
    assert {row["topic"] for row in rows} == {"orders"}
    assert [str(row["date"]) for row in rows] == [date(row["timestamp"]) for row in expected]


def scattered_records(count):
    """Return records whose timestamps jump within five days."""
    return [
        Record(number, NOON + number * 7 % 5 * DAY_MS, b"k%d" % number, b"v%d" % number, ())
        for number in range(count)
    ]


def write_scattered(directory, count=60):
    records = scattered_records(count)
    for start in range(0, count, 20):
        batches = [
            batch_of(*records[offset : offset + 5], base_offset=offset)
            for offset in range(start, start + 20, 5)
        ]
        directory.write(start, batches, indexed=True)
    return records


def file_references(target, complete):
    return [ExportFileRef(str(target), file) for file in complete.files]


class TestFiles:
    def test_each_file_has_one_date_and_ascending_offsets(self, directory, tmp_path):
        records = write_scattered(directory)
        complete = exported(directory.path, tmp_path / "export")
        assert len(complete.files) == 5
        for file in complete.files:
            matching = [record for record in records if date(record.timestamp) == file.date]
            assert file.path == (
                f"topic=orders/date={file.date}/00000-{matching[0].offset:020}.parquet"
            )
            assert (file.records, file.last_offset) == (len(matching), matching[-1].offset)
            assert (tmp_path / "export" / file.path).stat().st_size == file.size_bytes

    def test_records_are_read_in_the_order_of_offsets(self, directory, tmp_path):
        records = write_scattered(directory)
        complete = exported(directory.path, tmp_path / "export")
        read_back = list(read_exported_records(file_references(tmp_path / "export", complete)))
        assert [
            (record.offset, record.timestamp_ms, record.key, record.value) for record in read_back
        ] == [(record.offset, record.timestamp, record.key, record.value) for record in records]

    def test_number_of_open_files_is_limited(self, directory, tmp_path, monkeypatch):
        monkeypatch.setattr(export_writer, "OPEN_FILES_MAX", 2)
        records = write_scattered(directory)
        complete = exported(directory.path, tmp_path / "export", maxSplitBytes="300")
        assert len(complete.files) > 5
        assert sum(file.records for file in complete.files) == len(records)
        read_back = list(read_exported_records(file_references(tmp_path / "export", complete)))
        assert [record.offset for record in read_back] == [record.offset for record in records]

    def test_record_with_a_timestamp_out_of_range_has_no_date(self, directory, tmp_path):
        record = Record(0, 2**62, b"k", b"v", ())
        directory.write(0, [batch_of(record)])
        (file,) = exported(directory.path, tmp_path / "export").files
        assert file.date == NO_DATE
        (read_back,) = read_exported_records(
            file_references(tmp_path / "export", read_export_manifest(tmp_path))
        )
        assert (read_back.timestamp_ms, read_back.key) == (None, b"k")

    def test_days_are_formatted_as_dates(self):
        assert [format_date(day) for day in (-1, 0, 19_675)] == [
            "1969-12-31",
            "1970-01-01",
            "2023-11-14",
        ]
        assert format_date(10**9) == NO_DATE

    def test_damage_is_listed_and_the_rest_is_exported(self, directory, tmp_path):
        batches = [bytearray(batch_of(b"v" * 40, base_offset=offset)) for offset in range(4)]
        batches[2][-3] ^= 0xFF
        directory.write(0, batches)
        complete = exported(directory.path, tmp_path / "export")
        assert [row["offset"] for row in rows_in(tmp_path / "export")] == [0, 1, 3]
        (line,) = complete.damages
        assert f"bytes {2 * len(batches[0])} to {3 * len(batches[0])}" in line


def read_export_manifest(tmp_path):
    return manifest.read_manifest(str(tmp_path / "export"))


class TestCompleteness:
    def begin(self, target, *, overwrite=False):
        manifest.begin_export(ExportDirectory(str(target)), overwrite=overwrite)

    def test_interrupted_export_is_not_readable(self, directory, tmp_path):
        target = tmp_path / "export"
        write_scattered(directory)
        options = parse_options(
            {
                "path": str(directory.path),
                "columns": ",".join(EXPORT_COLUMNS),
                "maxSplitBytes": "500",
            }
        )
        first, *others = plan_export(options).tasks
        self.begin(target)
        export_writer.write_task(first, options, str(target))
        assert others != []
        assert rows_in(target) != []
        with pytest.raises(ScanFailed, match="no complete export: an export was interrupted"):
            manifest.read_manifest(str(target))
        assert exported(directory.path, target).records == len(rows_in(target)) == 60

    def test_next_attempt_removes_the_files_of_the_previous_one(self, directory, tmp_path):
        target = tmp_path / "export"
        self.begin(target)
        stray = target / "topic=orders" / "date=2020-01-01" / "stray.parquet"
        stray.parent.mkdir(parents=True)
        stray.write_bytes(b"torn")
        directory.write(0, [batch_of(b"v")])
        exported(directory.path, target)
        assert not stray.exists()
        assert len(rows_in(target)) == 1
        assert not (target / manifest.UNFINISHED_FILE).exists()

    def test_retried_task_leaves_no_files_of_the_first_attempt(
        self, directory, tmp_path, monkeypatch
    ):
        """Compaction removed the first record between the attempts, so the file names differ."""

        def fail_after_first_rows(split, options, report):
            for rows in read_split(split, options, report):
                yield rows
                raise OSError("the worker is gone")

        target = tmp_path / "export"
        records = write_scattered(directory, 20)
        scan_options = parse_options(
            {"path": str(directory.path), "columns": ",".join(EXPORT_COLUMNS)}
        )
        planned = plan_export(scan_options)
        (task,) = planned.tasks
        export_directory = ExportDirectory(str(target))
        self.begin(target)
        with monkeypatch.context() as patch:
            patch.setattr(export_writer, "read_split", fail_after_first_rows)
            with pytest.raises(OSError, match="the worker is gone"):
                export_writer.write_task(task, scan_options, str(target))
        assert rows_in(target) == []  # incomplete files have a temporary name
        stray = export_writer.write_task(task, scan_options, str(target))
        directory.write(
            0,
            [batch_of(*records[offset : offset + 5], base_offset=offset) for offset in (5, 10, 15)],
        )
        result = export_writer.write_task(task, scan_options, str(target))
        assert {file.path for file in stray.files} - {file.path for file in result.files}
        manifest.finish_export(
            export_directory, export_writer.build_manifest(planned, [result], {}, created_ms=0)
        )
        assert [row["offset"] for row in rows_in(target)] == list(range(5, 20))
        remaining = {str(path.relative_to(target)) for path in target.rglob("*") if path.is_file()}
        assert remaining == {manifest.MANIFEST_FILE, *(file.path for file in result.files)}

    def test_complete_export_is_replaced_only_with_overwrite(self, directory, tmp_path):
        target = tmp_path / "export"
        directory.write(0, [batch_of(b"v")])
        exported(directory.path, target)
        with pytest.raises(ScanFailed, match="already contains a complete export: use --overwrite"):
            self.begin(target)
        assert len(manifest.read_manifest(str(target)).files) == 1
        self.begin(target, overwrite=True)
        assert [path.name for path in target.iterdir()] == [manifest.UNFINISHED_FILE]

    def test_directory_that_is_not_an_export_is_left_alone(self, tmp_path):
        (tmp_path / "mine.txt").write_text("mine")
        with pytest.raises(ScanFailed, match="is not empty, and its content is not an export"):
            self.begin(tmp_path)
        with pytest.raises(ScanFailed, match="the directory contains other files"):
            manifest.read_manifest(str(tmp_path))
        assert (tmp_path / "mine.txt").read_text() == "mine"

    def test_missing_or_truncated_file_makes_the_export_incomplete(self, directory, tmp_path):
        target = tmp_path / "export"
        directory.write(0, [batch_of(b"v")])
        (file,) = exported(directory.path, target).files
        content = (target / file.path).read_bytes()
        (target / file.path).write_bytes(content[:-1])
        with pytest.raises(ScanFailed, match=f"{len(content) - 1} bytes, not {len(content)}"):
            manifest.read_manifest(str(target))
        (target / file.path).unlink()
        with pytest.raises(ScanFailed, match="missing"):
            manifest.read_manifest(str(target))

    def test_damaged_file_is_reported(self, directory, tmp_path):
        target = tmp_path / "export"
        directory.write(0, [batch_of(b"v" * 1000)])
        (file,) = exported(directory.path, target).files
        path = target / file.path
        path.write_bytes(b"\0" * path.stat().st_size)
        with pytest.raises(ScanFailed, match=file.path):
            list(
                read_exported_records(file_references(target, manifest.read_manifest(str(target))))
            )


def test_directory_may_be_a_uri(directory, tmp_path):
    records = write_scattered(directory)
    target = f"file://{tmp_path}/export"
    complete = exported(directory.path, target)
    assert manifest.read_manifest(target) == complete
    assert len(rows_in(tmp_path / "export")) == len(records)
    read_back = list(read_exported_records(file_references(target, complete)))
    assert [record.offset for record in read_back] == [record.offset for record in records]
    manifest.begin_export(ExportDirectory(target), overwrite=True)
    assert [path.name for path in (tmp_path / "export").iterdir()] == [manifest.UNFINISHED_FILE]


class TestIncrementalExport:
    def test_export_starts_where_the_previous_one_ended(self, directory, tmp_path):
        batches = [batch_of(b"%d" % offset, base_offset=offset) for offset in range(8)]
        directory.write(0, batches)
        directory.set_high_watermark(5)
        first = exported(directory.path, tmp_path / "1")
        assert [
            (partition.start_offset, partition.end_offset) for partition in first.partitions
        ] == [(0, 5)]
        directory.set_high_watermark(8)
        offsets = starting_offsets_after(first)
        assert json.loads(offsets) == {"orders": {"0": 5}}
        second = exported(directory.path, tmp_path / "2", startingOffsets=offsets)
        assert [row["offset"] for row in rows_in(tmp_path / "2")] == [5, 6, 7]
        assert [
            (partition.start_offset, partition.end_offset) for partition in second.partitions
        ] == [(5, 8)]
        third = exported(
            directory.path, tmp_path / "3", startingOffsets=starting_offsets_after(second)
        )
        assert (third.files, third.records) == ((), 0)
        assert third.partitions[0].end_offset == 8

    def planned(self, directory, previous):
        options = {"path": str(directory.path), "startingOffsets": starting_offsets_after(previous)}
        return plan_export(parse_options({**options, "columns": ",".join(EXPORT_COLUMNS)}))

    def test_topic_that_ends_before_the_previous_export_is_rejected(self, directory, tmp_path):
        directory.write(0, [batch_of(b"%d" % offset, base_offset=offset) for offset in range(4)])
        previous = exported(directory.path, tmp_path / "1")
        directory.write(0, [batch_of(b"new")])
        with pytest.raises(ScanFailed, match="orders-0 ends before offset 4"):
            check_continuity(self.planned(directory, previous), previous)

    def test_records_deleted_between_two_exports_are_reported(self, directory, tmp_path):
        directory.write(0, [batch_of(b"0")])
        previous = exported(directory.path, tmp_path / "1")
        directory.file(0).unlink()
        directory.write(7, [batch_of(b"7", base_offset=7)])
        assert check_continuity(self.planned(directory, previous), previous) == [
            "orders-0: offsets 1 to 6 have been deleted"
        ]


def test_partition_count_is_that_of_the_directories(directory, tmp_path):
    directory.write(0, [batch_of(b"v")])
    (directory.path / "orders-6").mkdir()
    (directory.path / "others-2").mkdir()
    complete = exported(directory.path, tmp_path / "export", assign='{"orders": [0]}')
    assert complete.partition_counts == {"orders": 7}
    assert [(partition.topic, partition.partition) for partition in complete.partitions] == [
        ("orders", 0)
    ]
