"""Topic statistics, compared with sums over the generated batches and records."""

from collections import Counter, defaultdict

import numpy as np
import pytest

from odradek.protocol.records.record import Record
from odradek.spark_jobs.topic_stats import main
from tests.support.batches import batch_of
from tests.support.job_runs import JobRun
from tests.support.legacy_messages import message
from tests.support.made_up_topics import FIRST_MS, PARTITIONS, MadeUpTopics
from tests.support.scans import LogDirectory

BUCKET_MS = 60_000


@pytest.fixture(scope="module")
def topics(tmp_path_factory):
    return MadeUpTopics(tmp_path_factory.mktemp("stats") / "logs", seed=1)


@pytest.fixture(scope="module")
def ran(spark, topics, tmp_path_factory):
    run = JobRun(main, tmp_path_factory.mktemp("ran") / "out", topics.path, "--bucket", "1m")
    assert run.status == 0
    return run


def grouped(items, key):
    groups = defaultdict(list)
    for item in items:
        groups[key(item)].append(item)
    return groups


def test_partitions_have_their_counts_sizes_and_offsets(ran, topics):
    expected = {}
    for partition, batches in grouped(
        topics.batches, lambda batch: (batch.topic, batch.partition)
    ).items():
        records = [record for batch in batches for record in batch.records]
        topic_records = sum(
            len(batch.records) for batch in topics.batches if batch.topic == partition[0]
        )
        times = [batch.records[0].timestamp for batch in batches if batch.records]
        expected[partition] = {
            "topic": partition[0],
            "partition": partition[1],
            "records": len(records),
            "batches": sum(bool(batch.records) for batch in batches),
            "markers": 2,
            "uncountedBatches": 0,
            "diskBytes": sum(batch.size_bytes for batch in batches),
            "firstOffset": 0,
            "lastOffset": len(records) + 1,  # the second marker
            "firstTime": min([*times, FIRST_MS]),
            "lastTime": max(record.timestamp for record in records),
            "recordsShare": pytest.approx(len(records) / topic_records),
        }
    assert ran.by("partitions", "topic", "partition") == expected


def test_topics_are_sums_of_partitions_and_the_largest_comes_first(ran):
    rows = ran.table("topics")
    for row in rows:
        parts = [
            partition for partition in ran.table("partitions") if partition["topic"] == row["topic"]
        ]
        assert row["partitions"] == len(parts) == PARTITIONS[row["topic"]]
        for name in ("records", "batches", "markers", "diskBytes"):
            assert row[name] == sum(partition[name] for partition in parts)
        assert row["diskBytesPerRecord"] == pytest.approx(row["diskBytes"] / row["records"])
    assert [row["diskBytes"] for row in rows] == sorted(
        (row["diskBytes"] for row in rows), reverse=True
    )


def test_batch_sizes_and_counts_are_exact(ran, topics):
    filled = [batch for batch in topics.batches if batch.records]
    for topic, batches in grouped(filled, lambda batch: batch.topic).items():
        counts = [len(batch.records) for batch in batches]
        sizes = [batch.size_bytes for batch in batches]
        assert ran.by("batches", "topic")[topic] == {
            "topic": topic,
            "batches": len(batches),
            "recordsPerBatch": pytest.approx(np.mean(counts)),
            "p50Records": np.percentile(counts, 50),
            "p95Records": pytest.approx(np.percentile(counts, 95)),
            "maxRecords": max(counts),
            "singleRecordShare": pytest.approx(counts.count(1) / len(counts)),
            "batchBytes": pytest.approx(np.mean(sizes)),
            "p50Bytes": np.percentile(sizes, 50),
            "p95Bytes": pytest.approx(np.percentile(sizes, 95)),
            "maxBytes": max(sizes),
        }


def test_codecs_have_their_batches_records_and_bytes(ran, topics):
    filled = [batch for batch in topics.batches if batch.records]
    expected = {
        (topic, codec.name.lower()): (
            len(batches),
            sum(len(batch.records) for batch in batches),
            sum(batch.size_bytes for batch in batches),
        )
        for (topic, codec), batches in grouped(
            filled, lambda batch: (batch.topic, batch.codec)
        ).items()
    }
    rows = ran.by("codecs", "topic", "codec")
    reported = {
        key: (row["batches"], row["records"], row["diskBytes"]) for key, row in rows.items()
    }
    assert reported == expected
    for topic in PARTITIONS:
        shares = [row["diskBytesShare"] for row in rows.values() if row["topic"] == topic]
        assert sum(shares) == pytest.approx(1)


def test_rates_count_a_batch_at_its_max_timestamp_and_have_no_gap(ran, topics):
    counts, sizes = Counter(), Counter()
    for batch in topics.batches:
        if batch.records:
            max_timestamp = max(record.timestamp for record in batch.records)
            bucket = (batch.topic, max_timestamp // BUCKET_MS * BUCKET_MS)
            counts[bucket] += len(batch.records)
            sizes[bucket] += batch.size_bytes
    for topic in PARTITIONS:
        starts = [start for name, start in counts if name == topic]
        rows = [row for row in ran.table("rates") if row["topic"] == topic]
        assert [row["start"] for row in rows] == list(
            range(min(starts), max(starts) + 1, BUCKET_MS)
        )
        for row in rows:
            bucket = (topic, row["start"])
            assert (row["records"], row["diskBytes"]) == (counts[bucket], sizes[bucket])
            assert row["recordsPerSecond"] == pytest.approx(counts[bucket] / 60)
            assert row["perSecondBytes"] == pytest.approx(sizes[bucket] / 60)


@pytest.mark.parametrize("field", ["key", "value"])
def test_key_and_value_sizes_are_those_of_all_records(ran, topics, field):
    for topic, created in grouped(topics.records, lambda item: item.topic).items():
        cells = [getattr(item.record, field) for item in created]
        sizes = [len(cell) for cell in cells if cell is not None]
        assert ran.by("sizes", "topic", "field")[topic, field] == {
            "topic": topic,
            "field": field,
            "records": len(sizes),
            "nulls": cells.count(None),
            "bytes": sum(sizes),
            "meanBytes": pytest.approx(np.mean(sizes)),
            "minBytes": min(sizes),
            "p50Bytes": np.percentile(sizes, 50),
            "p90Bytes": pytest.approx(np.percentile(sizes, 90)),
            "p99Bytes": pytest.approx(np.percentile(sizes, 99)),
            "maxBytes": max(sizes),
        }


def test_key_distribution_is_exact(ran, topics):
    for topic, created in grouped(topics.records, lambda item: item.topic).items():
        counts = Counter(item.record.key for item in created)
        keyless = counts.pop(None)
        key_counts = sorted(counts.values(), reverse=True)
        hottest = key_counts[: -(-len(key_counts) // 100)]
        assert ran.by("keys", "topic")[topic] == {
            "topic": topic,
            "records": len(created),
            "keyless": keyless,
            "keys": len(key_counts),
            "recordsPerKey": pytest.approx(sum(key_counts) / len(key_counts)),
            "topKeyRecords": key_counts[0],
            "topKeyShare": pytest.approx(key_counts[0] / len(created)),
            "topPercentOfKeysShare": pytest.approx(sum(hottest) / len(created)),
        }


def test_headers_only_gives_no_sizes_and_no_keys(spark, topics, capsys):
    arguments = ["--headers-only", "--mode", "dropmalformed", "--tables", "keys"]
    assert main([str(topics.path), *arguments]) == 1
    stderr = capsys.readouterr().err
    assert "reading records" not in stderr
    assert stderr.endswith("the tables are topics, partitions, batches, codecs, rates\n")


def test_times_are_those_that_a_consumer_sees(spark, tmp_path):
    """Missing timestamps, delete horizons, and CreateTime under LogAppendTime do not count."""
    directory = LogDirectory(tmp_path / "logs")
    created, hour_ms = Record(1, FIRST_MS - 9000, b"k", None), 3_600_000
    appended = batch_of(created, base_offset=1, append_time_ms=FIRST_MS)
    compacted = Record(2, FIRST_MS + 1000, b"k", None)
    horizon = batch_of(compacted, base_offset=2, delete_horizon_ms=FIRST_MS - hour_ms)
    directory.write(0, [message(0, b"v"), appended, horizon])
    ran = JobRun(main, tmp_path / "out", directory.path, "--headers-only", "--bucket", "1s")
    (row,) = ran.table("partitions")
    assert (row["firstTime"], row["lastTime"], row["records"]) == (FIRST_MS, FIRST_MS + 1000, 3)
    assert [(row["start"], row["records"]) for row in ran.table("rates")] == [
        (FIRST_MS, 1),
        (FIRST_MS + 1000, 1),
    ]
