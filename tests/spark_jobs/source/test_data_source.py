"""The data source as Spark calls it, in one process: schemas, tasks, rows and errors."""

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
    return [
        bytes(batch_of(b"v" * SIZE, base_offset=first + number, **fields))
        for number in range(count)
    ]


def reader_of(directory, schema=None, **options):
    source = OdradekSource({"path": str(directory.path), **options})
    return source.reader(schema or source.schema())


def read(directory, schema=None, **options):
    """Return the rows of all tasks, each read by a pickled copy as on a worker."""
    reader = reader_of(directory, schema, **options)
    rows = []
    for task in reader.partitions():
        worker, received = pickle.loads(pickle.dumps((reader, task)))
        rows += [row for batch in worker.read(received) for row in rows_of(batch)]
    return rows


class TestSchema:
    def test_default_schema_is_that_of_sparks_kafka_source(self):
        assert OdradekSource({"path": "/"}).schema().simpleString() == (
            "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,"
            "timestamp:timestamp,timestampType:int>"
        )

    def test_headers_have_the_type_of_sparks_kafka_source(self):
        schema = OdradekSource({"path": "/", "columns": "key", "includeHeaders": "true"}).schema()
        assert schema.simpleString() == (
            "struct<key:binary,headers:array<struct<key:string,value:binary>>>"
        )

    def test_views_have_their_own_schemas(self):
        assert "baseOffset" in OdradekSource({"path": "/", "view": "batches"}).schema().names
        assert OdradekSource({"path": "/", "view": "damage"}).schema().simpleString() == (
            "struct<topic:string,partition:int,file:string,position:bigint,end:bigint,"
            "firstOffset:bigint,reason:string>"
        )

    def test_only_columns_of_the_given_schema_are_decoded(self, directory):
        """Columns of the batch header need no decoding of records."""
        directory.write(0, batches(3))
        schema = StructType([StructField("offset", LongType()), StructField("codec", StringType())])
        assert read(directory, schema) == [
            {"offset": offset, "codec": "none"} for offset in range(3)
        ]
        reader = reader_of(directory, schema, includeHeaders="true", columns="key,value")
        (task,) = reader.partitions()
        (rows,) = reader.read(task)
        assert rows.schema == to_arrow_schema(schema, timezone="UTC")

    def test_non_nullable_field_stays_non_nullable_in_arrow(self, directory):
        directory.write(0, batches(1))
        schema = StructType([StructField("offset", LongType(), nullable=False)])
        reader = reader_of(directory, schema)
        (rows,) = reader.read(reader.partitions()[0])
        assert rows.schema == pa.schema([pa.field("offset", pa.int64(), nullable=False)])

    @pytest.mark.parametrize(
        ("field", "line"),
        [
            (
                StructField("key", StringType()),
                "column key is binary, not string: cast it after loading",
            ),
            (StructField("price", LongType()), "columns: unknown column 'price'; known columns: k"),
        ],
    )
    def test_schema_with_a_wrong_type_or_name_is_rejected(self, directory, field, line):
        with pytest.raises(ScanFailed, match=line):
            reader_of(directory, StructType([field]))

    def test_wrong_schema_for_the_damage_view_is_rejected(self, directory):
        schema = StructType([StructField("key", BinaryType())])
        with pytest.raises(ScanFailed, match="unknown column 'key'; known columns: topic, part"):
            reader_of(directory, schema, view="damage")


class TestTasks:
    def test_large_segment_is_split_into_several_tasks(self, directory):
        encoded = batches(20)
        directory.write(0, encoded, indexed=True)
        reader = reader_of(directory, maxSplitBytes=str(5 * len(encoded[0])), columns="offset")
        tasks = reader.partitions()
        assert len(tasks) >= 3
        offsets = [
            row["offset"] for task in tasks for batch in reader.read(task) for row in rows_of(batch)
        ]
        assert offsets == list(range(20))

    def test_small_segments_share_a_task(self, directory):
        for first in range(0, 20, 5):
            directory.write(first, batches(5, first=first))
        (task,) = reader_of(directory).partitions()
        assert len(task.value) == 4
        assert [row["offset"] for row in read(directory)] == list(range(20))

    def test_skipped_segment_has_no_task(self, directory):
        """The segment is not even opened: a directory is in its place."""
        for first in range(0, 20, 5):
            directory.write(first, batches(5, first=first))
        directory.file(0).unlink()
        directory.file(0).mkdir()
        offsets = '{"orders": {"0": 15}}'
        (task,) = reader_of(
            directory, startingOffsets=offsets, isolationLevel="read_uncommitted"
        ).partitions()
        assert [split.path for split in task.value] == [str(directory.file(15))]

    def test_empty_selection_reads_nothing(self, directory):
        directory.write(0, batches(1))
        reader = reader_of(directory, topicsPattern="pay.*")
        assert reader.partitions() == []
        assert list(reader.read(InputPartition(None))) == []  # Spark adds this partition


class TestDamage:
    @pytest.fixture
    def damaged(self, directory):
        encoded = batches(4)
        encoded[1] = encoded[1][:-3] + b"???"
        directory.write(0, encoded)
        return directory

    def test_permissive_reads_the_rest_and_logs_the_damage(self, damaged, caplog):
        assert [row["offset"] for row in read(damaged)] == [0, 2, 3]
        assert "from offset 1 on: the checksum" in caplog.text

    def test_damage_view_has_a_row_for_each_range(self, damaged):
        size = len(batches(1)[0])
        assert read(damaged, view="damage") == [
            {
                "topic": "orders",
                "partition": 0,
                "file": str(damaged.file(0)),
                "position": size,
                "end": 2 * size,
                "firstOffset": 1,
                "reason": "the checksum does not match the bytes",
            }
        ]
        assert read(damaged, view="damage", columns="firstOffset") == [{"firstOffset": 1}]

    def test_damage_view_decodes_every_record(self, directory):
        """The checksum is valid; only decompression fails."""
        wrong = bytearray(batches(1, first=1, codec=Codec.LZ4)[0])
        del wrong[-1]
        wrong[8:12] = (len(wrong) - 12).to_bytes(4, "big")
        directory.write(0, [*batches(1), with_checksum(wrong), *batches(1, first=2)])
        assert [row["firstOffset"] for row in read(directory, view="damage")] == [1]

    def test_dropmalformed_logs_nothing(self, damaged, caplog):
        assert [row["offset"] for row in read(damaged, mode="DROPMALFORMED")] == [0, 2, 3]
        assert caplog.text == ""
        with pytest.raises(ScanFailed, match="view=damage: cannot be combined with mode=DROPM"):
            reader_of(damaged, view="damage", mode="dropmalformed")

    def test_failfast_raises(self, damaged):
        with pytest.raises(ScanFailed, match="from offset 1 on: the checksum"):
            read(damaged, mode="FAILFAST")

    def test_segment_deleted_after_planning_is_an_error_or_skipped(self, directory):
        for first in (0, 5):
            directory.write(first, batches(5, first=first))
        reader, lenient = (
            reader_of(directory, failOnDataLoss=value, maxSplitBytes="1")
            for value in ("true", "false")
        )
        tasks = reader.partitions()
        directory.file(0).unlink()
        with pytest.raises(
            ScanFailed, match=r"log no longer exists; set failOnDataLoss=false to skip it"
        ):
            list(reader.read(tasks[0]))
        assert list(lenient.read(tasks[0])) == []


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"path": ""}, "path: name at least one log directory"),
        ({"topik": "orders"}, "unknown option topik; known options: path, topics,"),
        ({"startingOffsets": "now"}, 'startingOffsets: must be earliest or JSON such as {"topic"'),
        ({"startingOffsets": "latest"}, "startingOffsets=latest: only supported for streams"),
        ({"maxOffsetsPerTrigger": "7"}, "maxOffsetsPerTrigger: only supported for streams"),
        ({"maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger=0: must be an integer above 0"),
        ({"view": "damage", "columns": "key"}, "columns: unknown column 'key'; known columns: t"),
        (
            {"mode": "lenient"},
            "mode: must be one of PERMISSIVE, DROPMALFORMED, FAILFAST, not lenient",
        ),
    ],
)
def test_invalid_options_are_reported_in_one_line(directory, options, line):
    with pytest.raises(ScanFailed) as raised:
        reader_of(directory, **options)
    assert line in str(raised.value)
    assert "\n" not in str(raised.value)


def test_several_paths_may_be_loaded(directory, tmp_path):
    """Spark passes ``load(["a", "b"])`` as this option."""
    other = LogDirectory(tmp_path / "other")
    other.partition.rename(other.path / "payments-0")
    directory.write(0, batches(1))
    (other.path / "payments-0" / directory.file(0).name).write_bytes(batches(1)[0])
    source = OdradekSource({"paths": f'["{directory.path}", "{other.path}"]', "columns": "topic"})
    reader = source.reader(source.schema())
    rows = [
        row for task in reader.partitions() for batch in reader.read(task) for row in rows_of(batch)
    ]
    assert rows == [{"topic": "orders"}, {"topic": "payments"}]


@pytest.mark.parametrize(
    ("codec", "module", "package"),
    [
        (Codec.LZ4, "lz4.frame", "lz4"),
        (Codec.SNAPPY, "snappy", "python-snappy"),
        (Codec.NONE, "pyarrow", "pyarrow"),
    ],
)
def test_worker_without_a_package_reports_it_in_one_line(
    directory, monkeypatch, codec, module, package
):
    directory.write(0, batches(1, codec=codec))
    reader = reader_of(directory)
    (task,) = reader.partitions()
    monkeypatch.setitem(sys.modules, module, None)
    line = rf"on .* lacks {package}: install 'odradek\[spark\]' for every worker's Python"
    with pytest.raises(ScanFailed, match=line):
        list(reader.read(task))


def test_integer_for_a_long_column_is_rejected(directory):
    with pytest.raises(ScanFailed, match="column offset is bigint, not int"):
        reader_of(directory, StructType([StructField("offset", IntegerType())]))
