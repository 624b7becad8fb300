"""Tables through Spark itself: rows as the scanner's, damage in each mode, errors in a line."""

import pytest
from pyspark.cloudpickle import register_pickle_by_value
from pyspark.errors import PySparkException
from pyspark.sql.functions import col, count_distinct
from pyspark.sql.functions import sum as total

from odradek.protocol.records.compression import Codec
from odradek.protocol.records.record import Header, Record
from odradek.spark_jobs.source.failures import one_line
from tests.support import filtering_source
from tests.support.batches import batch_of
from tests.support.object_store import object_store
from tests.support.scans import ALL_COLUMNS, LogDirectory
from tests.support.spark_session import rows, table

RECORDS = 50
#: Offsets that are left of damage.
SOUND = [0, 1, 2, 3, *range(5, 10), *range(20, 29), *range(30, 40)]


def records(first, count):
    return [
        Record(
            at,
            1_700_000_000_000 + at,
            None if at % 3 == 0 else b"key %d" % (at % 7),
            None if at % 5 == 0 else b"value %d" % at * 9,
            (Header("n", b"%d" % at), Header("null", None)) if at % 2 else (),
        )
        for at in range(first, first + count)
    ]


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """A segment for each codec."""
    directory = LogDirectory(tmp_path_factory.mktemp("tables") / "logs")
    for at, codec in enumerate(Codec):
        made = [
            batch_of(*records(first, 5), base_offset=first, codec=codec)
            for first in range(RECORDS * at, RECORDS * (at + 1), 5)
        ]
        directory.write(RECORDS * at, made, indexed=True)
    return directory


def test_every_column_is_as_the_scanner_has_it(spark, directory):
    found = rows(table(spark, directory.path, columns=ALL_COLUMNS, maxSplitBytes="1000"))
    assert found == directory.scan(columns=ALL_COLUMNS).rows
    assert len(found) == RECORDS * len(Codec)


def test_a_query_over_columns_that_the_schema_names(spark, directory):
    frame = (
        spark.read.format("odradek").schema("codec string, valueSize int").load(str(directory.path))
    )
    found = frame.groupBy("codec").agg(total("valueSize").alias("bytes")).collect()
    expected = {}
    for row in directory.scan(columns="codec,valueSize").rows:
        expected[row["codec"]] = expected.get(row["codec"], 0) + (row["valueSize"] or 0)
    assert {row.codec: row.bytes for row in found} == expected


def test_batches_add_up_to_the_records(spark, directory):
    frame = table(spark, directory.path, view="batches", columns="count,codec,segment")
    (found,) = frame.agg(
        total("count").alias("count"), count_distinct("codec", "segment").alias("codecs")
    ).collect()
    assert (found["count"], found.codecs) == (RECORDS * len(Codec), len(Codec))


def test_a_range_and_no_partition_at_all(spark, directory):
    told = {"startingOffsets": '{"orders": {"0": 120}}', "endingOffsets": '{"orders": {"0": 130}}'}
    frame = table(spark, directory.path, columns="offset", **told)
    assert [row.offset for row in frame.collect()] == list(range(120, 130))
    assert table(spark, directory.path, topicsPattern="pay.*").count() == 0


def test_an_object_store_is_read_by_the_workers_themselves(spark, directory):
    with object_store(directory.path.parent) as store:
        found = rows(table(spark, store.uri("logs"), columns="offset,codec,segment"))
    expected = directory.scan(columns="offset,codec").rows
    assert [(row["offset"], row["codec"]) for row in found] == [
        (row["offset"], row["codec"]) for row in expected
    ]
    assert found[0]["segment"] == store.uri(f"logs/orders-0/{directory.file(0).name}")


@pytest.fixture(scope="module")
def damaged(tmp_path_factory):
    """A record flipped, a file cut short, and a file gone, which is a gap and no damage."""
    directory = LogDirectory(tmp_path_factory.mktemp("damage") / "logs")
    for first in (0, 10, 20, 30):
        made = [bytes(batch_of(b"v" * 30, base_offset=first + at)) for at in range(10)]
        if first == 0:
            made[4] = made[4][:-3] + b"???"
        if first == 20:
            made[9] = made[9][:40]
        directory.write(first, made)
    directory.file(10).unlink()
    directory.size = len(made[0])
    return directory


class TestDamage:
    @pytest.mark.parametrize("mode", ["PERMISSIVE", "DROPMALFORMED"])
    def test_is_left_out(self, spark, damaged, mode):
        frame = table(spark, damaged.path, columns="offset", mode=mode)
        assert [row.offset for row in frame.collect()] == SOUND

    def test_has_a_report(self, spark, damaged):
        found = rows(table(spark, damaged.path, view="damage"))
        size = damaged.size
        assert [
            (row["file"], row["position"], row["end"], row["firstOffset"], row["reason"])
            for row in found
        ] == [
            (str(damaged.file(0)), 4 * size, 5 * size, 4, "the checksum is not that of the bytes"),
            (str(damaged.file(20)), 9 * size, 9 * size + 40, 29, "a batch is cut short"),
        ]

    def test_fails_at_once(self, spark, damaged):
        with pytest.raises(PySparkException) as failed:
            table(spark, damaged.path, mode="FAILFAST").collect()
        assert one_line(failed.value) == (
            f"{damaged.file(0)}: bytes {4 * damaged.size} to {5 * damaged.size}, from offset 4 on: "
            "the checksum is not that of the bytes"
        )


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"mode": "kind"}, "mode: PERMISSIVE, DROPMALFORMED, FAILFAST, not kind"),
        ({"path": "/nowhere/at/all"}, "/nowhere/at/all: no such directory"),
    ],
)
def test_what_makes_no_sense_is_told_in_a_line(spark, directory, options, line):
    with pytest.raises(PySparkException) as failed:
        spark.read.format("odradek").options(path=str(directory.path)).options(
            **options
        ).load().count()
    assert one_line(failed.value) == line


def test_this_spark_still_leaks_the_filters_of_one_query_into_another(spark):
    """Once this fails, filters may be pushed down to our source, too (issue 9): it stays off."""
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        register_pickle_by_value(filtering_source)  # workers cannot import tests
        spark.dataSource.register(filtering_source.Numbers)
        frame = spark.read.format("numbers").load()
        assert frame.where(col("id") < 10).count() == 10
        assert frame.count() == 10  # of filtering_source.NUMBERS
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_ours_does_not(spark, directory):
    frame = table(spark, directory.path, columns="offset")
    assert frame.where(col("offset") < 10).count() == 10
    assert frame.count() == RECORDS * len(Codec)
