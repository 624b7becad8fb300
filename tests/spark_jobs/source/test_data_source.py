"""The source as Spark calls it, in one process: schemas, tasks, rows, and what is refused."""

import pickle
import sys

import pyarrow as pa
import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from odradek.protocol.records.compression import Codec
from odradek.spark_jobs.scan.damage import ScanFailed
from odradek.spark_jobs.source.data_source import OdradekSource
from tests.support.batches import batch_of, with_checksum
from tests.support.scans import LogDirectory, rows_of

SIZE = 40


@pytest.fixture
def directory(tmp_path):
    return LogDirectory(tmp_path / "logs")


def batches(count, *, first=0, **fields):
    return [bytes(batch_of(b"v" * SIZE, base_offset=first + at, **fields)) for at in range(count)]


def reader_of(directory, schema=None, **options):
    source = OdradekSource({"path": str(directory.path), **options})
    return source.reader(schema or source.schema())


def read(directory, schema=None, **options):
    """Every task's rows, each read by a copy, as workers have them."""
    reader = reader_of(directory, schema, **options)
    found = []
    for task in reader.partitions():
        worker, travelled = pickle.loads(pickle.dumps((reader, task)))
        found += [row for batch in worker.read(travelled) for row in rows_of(batch)]
    return found


class TestSchema:
    def test_without_a_word_it_is_that_of_sparks_kafka_source(self):
        assert OdradekSource({"path": "/"}).schema().simpleString() == (
            "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,"
            "timestamp:timestamp,timestampType:int>"
        )

    def test_headers_are_those_of_sparks_kafka_source(self):
        schema = OdradekSource({"path": "/", "columns": "key", "includeHeaders": "true"}).schema()
        assert schema.simpleString() == (
            "struct<key:binary,headers:array<struct<key:string,value:binary>>>"
        )

    def test_the_views_have_their_own(self):
        assert "baseOffset" in OdradekSource({"path": "/", "view": "batches"}).schema().names
        assert OdradekSource({"path": "/", "view": "damage"}).schema().simpleString() == (
            "struct<topic:string,partition:int,file:string,position:bigint,end:bigint,"
            "firstOffset:bigint,reason:string>"
        )

    def test_only_the_columns_of_the_users_schema_are_decoded(self, directory):
        """What stands in the header of a batch is known though its records make no sense."""
        directory.write(0, batches(3))
        schema = StructType([StructField("offset", LongType()), StructField("codec", StringType())])
        assert read(directory, schema) == [{"offset": at, "codec": "none"} for at in range(3)]
        reader = reader_of(directory, schema, includeHeaders="true", columns="key,value")
        (task,) = reader.partitions()
        (rows,) = reader.read(task)
        assert rows.schema == to_arrow_schema(schema, timezone="UTC")

    def test_what_must_not_be_null_in_the_schema_need_not_be_null_in_arrow(self, directory):
        directory.write(0, batches(1))
        schema = StructType([StructField("offset", LongType(), nullable=False)])
        reader = reader_of(directory, schema)
        (rows,) = reader.read(reader.partitions()[0])
        assert rows.schema == pa.schema([pa.field("offset", pa.int64(), nullable=False)])

    @pytest.mark.parametrize(
        ("field", "line"),
        [
            (StructField("key", StringType()), "column key is binary, not string: cast it later"),
            (StructField("price", LongType()), "columns: no column is called 'price'; there are k"),
        ],
    )
    def test_a_schema_of_something_else_is_refused(self, directory, field, line):
        with pytest.raises(ScanFailed, match=line):
            reader_of(directory, StructType([field]))

    def test_so_is_one_of_the_damage_report(self, directory):
        schema = StructType([StructField("key", BinaryType())])
        with pytest.raises(ScanFailed, match="no column is called 'key'; there are topic, part"):
            reader_of(directory, schema, view="damage")


class TestTasks:
    def test_a_large_segment_is_shared_by_several(self, directory):
        made = batches(20)
        directory.write(0, made, indexed=True)
        reader = reader_of(directory, maxSplitBytes=str(5 * len(made[0])), columns="offset")
        tasks = reader.partitions()
        assert len(tasks) >= 3
        found = [row["offset"] for task in tasks for b in reader.read(task) for row in rows_of(b)]
        assert found == list(range(20))

    def test_small_segments_share_one(self, directory):
        for first in range(0, 20, 5):
            directory.write(first, batches(5, first=first))
        (task,) = reader_of(directory).partitions()
        assert len(task.value) == 4
        assert [row["offset"] for row in read(directory)] == list(range(20))

    def test_what_is_not_wanted_has_none(self, directory):
        """Not even opened: a directory stands where the segment should be."""
        for first in range(0, 20, 5):
            directory.write(first, batches(5, first=first))
        directory.file(0).unlink()
        directory.file(0).mkdir()
        offsets = '{"orders": {"0": 15}}'
        (task,) = reader_of(
            directory, startingOffsets=offsets, isolationLevel="read_uncommitted"
        ).partitions()
        assert [split.path for split in task.value] == [str(directory.file(15))]

    def test_nothing_to_read_is_nothing_read(self, directory):
        directory.write(0, batches(1))
        reader = reader_of(directory, topicsPattern="pay.*")
        assert reader.partitions() == []
        assert list(reader.read(InputPartition(None))) == []  # which Spark makes up then


class TestDamage:
    @pytest.fixture
    def damaged(self, directory):
        made = batches(4)
        made[1] = made[1][:-3] + b"???"
        directory.write(0, made)
        return directory

    def test_permissive_reads_the_rest_and_the_workers_log_tells(self, damaged, caplog):
        assert [row["offset"] for row in read(damaged)] == [0, 2, 3]
        assert "from offset 1 on: the checksum" in caplog.text

    def test_the_report_has_a_row_for_it(self, damaged):
        size = len(batches(1)[0])
        assert read(damaged, view="damage") == [
            {
                "topic": "orders",
                "partition": 0,
                "file": str(damaged.file(0)),
                "position": size,
                "end": 2 * size,
                "firstOffset": 1,
                "reason": "the checksum is not that of the bytes",
            }
        ]
        assert read(damaged, view="damage", columns="firstOffset") == [{"firstOffset": 1}]

    def test_the_report_looks_into_every_record(self, directory):
        """The checksum is right, and only whoever unpacks it knows."""
        wrong = bytearray(batches(1, first=1, codec=Codec.LZ4)[0])
        del wrong[-1]
        wrong[8:12] = (len(wrong) - 12).to_bytes(4, "big")
        directory.write(0, [*batches(1), with_checksum(wrong), *batches(1, first=2)])
        assert [row["firstOffset"] for row in read(directory, view="damage")] == [1]

    def test_dropmalformed_says_nothing(self, damaged, caplog):
        assert [row["offset"] for row in read(damaged, mode="DROPMALFORMED")] == [0, 2, 3]
        assert caplog.text == ""
        with pytest.raises(ScanFailed, match="view=damage tells of damage"):
            reader_of(damaged, view="damage", mode="dropmalformed")

    def test_failfast_fails(self, damaged):
        with pytest.raises(ScanFailed, match="from offset 1 on: the checksum"):
            read(damaged, mode="FAILFAST")

    def test_a_segment_that_is_gone_by_then_is_told_or_passed_over(self, directory):
        for first in (0, 5):
            directory.write(first, batches(5, first=first))
        reader, lenient = (
            reader_of(directory, failOnDataLoss=word, maxSplitBytes="1")
            for word in ("true", "false")
        )
        tasks = reader.partitions()
        directory.file(0).unlink()
        with pytest.raises(ScanFailed, match=r"log is gone; failOnDataLoss=false goes on"):
            list(reader.read(tasks[0]))
        assert list(lenient.read(tasks[0])) == []


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"path": ""}, "path: name at least one log directory"),
        ({"topik": "orders"}, "no option is called topik; there are path, topics,"),
        ({"startingOffsets": "now"}, 'startingOffsets: not earliest or {"topic"'),
        ({"startingOffsets": "latest"}, "startingOffsets: latest makes sense for a stream only"),
        ({"maxOffsetsPerTrigger": "7"}, "maxOffsetsPerTrigger: only a stream has triggers"),
        ({"maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger: not a number above 0: 0"),
        ({"view": "damage", "columns": "key"}, "columns: no column is called 'key'; there are t"),
        ({"mode": "lenient"}, "mode: PERMISSIVE, DROPMALFORMED, FAILFAST, not lenient"),
    ],
)
def test_options_that_make_no_sense_are_one_line(directory, options, line):
    with pytest.raises(ScanFailed) as failed:
        reader_of(directory, **options)
    assert line in str(failed.value)
    assert "\n" not in str(failed.value)


def test_several_paths_may_be_loaded(directory, tmp_path):
    """As ``load(["a", "b"])`` tells them."""
    other = LogDirectory(tmp_path / "other")
    other.partition.rename(other.path / "payments-0")
    directory.write(0, batches(1))
    (other.path / "payments-0" / directory.file(0).name).write_bytes(batches(1)[0])
    source = OdradekSource({"paths": f'["{directory.path}", "{other.path}"]', "columns": "topic"})
    reader = source.reader(source.schema())
    found = [row for task in reader.partitions() for b in reader.read(task) for row in rows_of(b)]
    assert found == [{"topic": "orders"}, {"topic": "payments"}]


@pytest.mark.parametrize(
    ("codec", "module", "package"),
    [
        (Codec.LZ4, "lz4.frame", "lz4"),
        (Codec.SNAPPY, "snappy", "python-snappy"),
        (Codec.NONE, "pyarrow", "pyarrow"),
    ],
)
def test_a_worker_that_lacks_a_wheel_says_so_in_a_line(
    directory, monkeypatch, codec, module, package
):
    directory.write(0, batches(1, codec=codec))
    reader = reader_of(directory)
    (task,) = reader.partitions()
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ScanFailed, match=f"on .* lacks {package}: every worker's Python needs"):
        list(reader.read(task))


def test_an_integer_column_is_no_long(directory):
    with pytest.raises(ScanFailed, match="column offset is bigint, not int"):
        reader_of(directory, StructType([StructField("offset", IntegerType())]))
