"""Topic statistics, against sums over the facts of which the topics were made."""

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


def grouped(facts, key):
    groups = defaultdict(list)
    for fact in facts:
        groups[key(fact)].append(fact)
    return groups


def test_partitions_have_what_is_stored_in_them(ran, topics):
    expected = {}
    for place, batches in grouped(topics.batches, lambda b: (b.topic, b.partition)).items():
        records = [record for batch in batches for record in batch.records]
        of_topic = sum(len(batch.records) for batch in topics.batches if batch.topic == place[0])
        times = [batch.records[0].timestamp for batch in batches if batch.records]
        expected[place] = {
            "topic": place[0],
            "partition": place[1],
            "records": len(records),
            "batches": sum(bool(batch.records) for batch in batches),
            "markers": 2,
            "uncountedBatches": 0,
            "diskBytes": sum(batch.size_bytes for batch in batches),
            "firstOffset": 0,
            "lastOffset": len(records) + 1,  # that of the second marker
            "firstTime": min([*times, FIRST_MS]),
            "lastTime": max(record.timestamp for record in records),
            "recordsShare": pytest.approx(len(records) / of_topic),
        }
    assert ran.by("partitions", "topic", "partition") == expected


def test_topics_are_the_sums_of_their_partitions_and_the_largest_comes_first(ran):
    rows = ran.table("topics")
    for row in rows:
        parts = [each for each in ran.table("partitions") if each["topic"] == row["topic"]]
        assert row["partitions"] == len(parts) == PARTITIONS[row["topic"]]
        for name in ("records", "batches", "markers", "diskBytes"):
            assert row[name] == sum(each[name] for each in parts)
        assert row["diskBytesPerRecord"] == pytest.approx(row["diskBytes"] / row["records"])
    assert [row["diskBytes"] for row in rows] == sorted(
        (row["diskBytes"] for row in rows), reverse=True
    )


def test_batches_are_as_full_as_they_were_made(ran, topics):
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
        for (topic, codec), batches in grouped(filled, lambda b: (b.topic, b.codec)).items()
    }
    rows = ran.by("codecs", "topic", "codec")
    found = {
        place: (row["batches"], row["records"], row["diskBytes"]) for place, row in rows.items()
    }
    assert found == expected
    for topic in PARTITIONS:
        shares = [row["diskBytesShare"] for row in rows.values() if row["topic"] == topic]
        assert sum(shares) == pytest.approx(1)


def test_rates_count_a_batch_at_its_youngest_record_and_leave_no_gap(ran, topics):
    counts, sizes = Counter(), Counter()
    for batch in topics.batches:
        if batch.records:
            youngest = max(record.timestamp for record in batch.records)
            place = (batch.topic, youngest // BUCKET_MS * BUCKET_MS)
            counts[place] += len(batch.records)
            sizes[place] += batch.size_bytes
    for topic in PARTITIONS:
        starts = [start for name, start in counts if name == topic]
        rows = [row for row in ran.table("rates") if row["topic"] == topic]
        assert [row["start"] for row in rows] == list(
            range(min(starts), max(starts) + 1, BUCKET_MS)
        )
        for row in rows:
            place = (topic, row["start"])
            assert (row["records"], row["diskBytes"]) == (counts[place], sizes[place])
            assert row["recordsPerSecond"] == pytest.approx(counts[place] / 60)
            assert row["perSecondBytes"] == pytest.approx(sizes[place] / 60)


@pytest.mark.parametrize("field", ["key", "value"])
def test_sizes_are_those_of_all_records(ran, topics, field):
    for topic, made in grouped(topics.records, lambda each: each.topic).items():
        cells = [getattr(each.record, field) for each in made]
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


def test_keys_are_as_uneven_as_they_are(ran, topics):
    for topic, made in grouped(topics.records, lambda each: each.topic).items():
        counts = Counter(each.record.key for each in made)
        keyless = counts.pop(None)
        heights = sorted(counts.values(), reverse=True)
        hottest = heights[: -(-len(heights) // 100)]
        assert ran.by("keys", "topic")[topic] == {
            "topic": topic,
            "records": len(made),
            "keyless": keyless,
            "keys": len(heights),
            "recordsPerKey": pytest.approx(sum(heights) / len(heights)),
            "topKeyRecords": heights[0],
            "topKeyShare": pytest.approx(heights[0] / len(made)),
            "topPercentOfKeysShare": pytest.approx(sum(hottest) / len(made)),
        }


def test_headers_alone_tell_no_sizes_and_no_keys(spark, topics, capsys):
    arguments = ["--headers-only", "--mode", "dropmalformed", "--tables", "keys"]
    assert main([str(topics.path), *arguments]) == 1
    told = capsys.readouterr().err
    assert "reading records" not in told
    assert told.endswith("there are topics, partitions, batches, codecs, rates\n")


def test_times_are_those_that_a_consumer_sees(spark, tmp_path):
    """Neither none at all, nor a delete horizon, nor a producer's where the broker's count."""
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
