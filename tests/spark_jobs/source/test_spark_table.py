"""Batch reads in Spark: the scanner's rows, damage in each mode, one-line errors."""

import pytest
from pyspark.cloudpickle import register_pickle_by_value
from pyspark.errors import PySparkException
from pyspark.sql.functions import col, count_distinct
from pyspark.sql.functions import sum as total

from odradek.protocol.records.compression import Codec
from odradek.protocol.records.record import Header, Record
from odradek.spark_jobs.source.error_messages import summarize_error
from tests.support import filtering_source
from tests.support.batches import batch_of
from tests.support.object_store import object_store
from tests.support.scans import ALL_COLUMNS, LogDirectory
from tests.support.spark_session import rows, table

RECORDS = 50
#: The offsets outside the damaged ranges.
UNDAMAGED = [0, 1, 2, 3, *range(5, 10), *range(20, 29), *range(30, 40)]


def records(first, count):
    return [
        Record(
            offset,
            1_700_000_000_000 + offset,
            None if offset % 3 == 0 else b"key %d" % (offset % 7),
            None if offset % 5 == 0 else b"value %d" % offset * 9,
            (Header("n", b"%d" % offset), Header("null", None)) if offset % 2 else (),
        )
        for offset in range(first, first + count)
    ]


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """One segment per codec."""
    directory = LogDirectory(tmp_path_factory.mktemp("tables") / "logs")
    for number, codec in enumerate(Codec):
        batches = [
            batch_of(*records(first, 5), base_offset=first, codec=codec)
            for first in range(RECORDS * number, RECORDS * (number + 1), 5)
        ]
        directory.write(RECORDS * number, batches, indexed=True)
    return directory


def test_every_column_equals_the_scanners(spark, directory):
    read_rows = rows(table(spark, directory.path, columns=ALL_COLUMNS, maxSplitBytes="1000"))
    assert read_rows == directory.scan(columns=ALL_COLUMNS).rows
    assert len(read_rows) == RECORDS * len(Codec)


def test_query_over_the_columns_of_a_given_schema(spark, directory):
    frame = (
        spark.read.format("odradek").schema("codec string, valueSize int").load(str(directory.path))
    )
    totals = frame.groupBy("codec").agg(total("valueSize").alias("bytes")).collect()
    expected = {}
    for row in directory.scan(columns="codec,valueSize").rows:
        expected[row["codec"]] = expected.get(row["codec"], 0) + (row["valueSize"] or 0)
    assert {row.codec: row.bytes for row in totals} == expected


def test_batch_counts_add_up_to_the_records(spark, directory):
    frame = table(spark, directory.path, view="batches", columns="count,codec,segment")
    (totals,) = frame.agg(
        total("count").alias("count"), count_distinct("codec", "segment").alias("codecs")
    ).collect()
    assert (totals["count"], totals.codecs) == (RECORDS * len(Codec), len(Codec))


def test_offset_range_and_empty_selection(spark, directory):
    options = {
        "startingOffsets": '{"orders": {"0": 120}}',
        "endingOffsets": '{"orders": {"0": 130}}',
    }
    frame = table(spark, directory.path, columns="offset", **options)
    assert [row.offset for row in frame.collect()] == list(range(120, 130))
    assert table(spark, directory.path, topicsPattern="pay.*").count() == 0


def test_workers_read_an_object_store_directly(spark, directory):
    with object_store(directory.path.parent) as store:
        read_rows = rows(table(spark, store.uri("logs"), columns="offset,codec,segment"))
    expected = directory.scan(columns="offset,codec").rows
    assert [(row["offset"], row["codec"]) for row in read_rows] == [
        (row["offset"], row["codec"]) for row in expected
    ]
    assert read_rows[0]["segment"] == store.uri(f"logs/orders-0/{directory.file(0).name}")


@pytest.fixture(scope="module")
def damaged(tmp_path_factory):
    """A flipped byte, a truncated file, and a missing file, which is a gap and not damage."""
    directory = LogDirectory(tmp_path_factory.mktemp("damage") / "logs")
    for first in (0, 10, 20, 30):
        batches = [bytes(batch_of(b"v" * 30, base_offset=first + number)) for number in range(10)]
        if first == 0:
            batches[4] = batches[4][:-3] + b"???"
        if first == 20:
            batches[9] = batches[9][:40]
        directory.write(first, batches)
    directory.file(10).unlink()
    directory.size = len(batches[0])
    return directory


class TestDamage:
    @pytest.mark.parametrize("mode", ["PERMISSIVE", "DROPMALFORMED"])
    def test_damage_is_skipped(self, spark, damaged, mode):
        frame = table(spark, damaged.path, columns="offset", mode=mode)
        assert [row.offset for row in frame.collect()] == UNDAMAGED

    def test_damage_view_lists_the_ranges(self, spark, damaged):
        damage_rows = rows(table(spark, damaged.path, view="damage"))
        size = damaged.size
        assert [
            (row["file"], row["position"], row["end"], row["firstOffset"], row["reason"])
            for row in damage_rows
        ] == [
            (str(damaged.file(0)), 4 * size, 5 * size, 4, "the checksum does not match the bytes"),
            (str(damaged.file(20)), 9 * size, 9 * size + 40, 29, "a batch is truncated"),
        ]

    def test_failfast_raises(self, spark, damaged):
        with pytest.raises(PySparkException) as raised:
            table(spark, damaged.path, mode="FAILFAST").collect()
        assert summarize_error(raised.value) == (
            f"{damaged.file(0)}: bytes {4 * damaged.size} to {5 * damaged.size}, from offset 4 on: "
            "the checksum does not match the bytes"
        )


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"mode": "kind"}, "mode: must be one of PERMISSIVE, DROPMALFORMED, FAILFAST, not kind"),
        ({"path": "/nowhere/at/all"}, "/nowhere/at/all: no such directory"),
    ],
)
def test_invalid_option_is_reported_in_one_line(spark, directory, options, line):
    with pytest.raises(PySparkException) as raised:
        spark.read.format("odradek").options(path=str(directory.path)).options(
            **options
        ).load().count()
    assert summarize_error(raised.value) == line


def test_spark_still_leaks_pushed_filters_into_other_queries(spark):
    """Filter pushdown stays off in our source until this test fails (issue 9)."""
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        register_pickle_by_value(filtering_source)  # workers cannot import tests
        spark.dataSource.register(filtering_source.Numbers)
        frame = spark.read.format("numbers").load()
        assert frame.where(col("id") < 10).count() == 10
        assert frame.count() == 10  # should be filtering_source.NUMBERS
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_our_source_does_not_leak_filters(spark, directory):
    frame = table(spark, directory.path, columns="offset")
    assert frame.where(col("offset") < 10).count() == 10
    assert frame.count() == RECORDS * len(Codec)
