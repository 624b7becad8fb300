"""Timestamp skew, compared with a loop over the records in order."""

from collections import Counter, defaultdict

import numpy as np
import pytest

from odradek.spark_jobs.timestamp_skew import main
from tests.support.job_runs import JobRun
from tests.support.legacy_messages import message
from tests.support.made_up_topics import FIRST_MS, PARTITIONS, MadeUpTopics
from tests.support.scans import LogDirectory

LATE_MS = 30_000
BUCKET_MS = 300_000
NOW_MS = FIRST_MS + 400_000
CLASSES_MS = (86_400_000, 3_600_000, 600_000, 60_000, 10_000, 1000, 100, 1)


@pytest.fixture(scope="module")
def topics(tmp_path_factory):
    return MadeUpTopics(tmp_path_factory.mktemp("skew") / "logs", seed=3)


@pytest.fixture(scope="module")
def ran(spark, topics, tmp_path_factory):
    arguments = ("--late", "30s", "--bucket", "5m", "--now", NOW_MS)
    run = JobRun(main, tmp_path_factory.mktemp("ran") / "out", topics.path, *arguments)
    assert run.status == 0
    return run


@pytest.fixture(scope="module")
def lateness(topics):
    """The partition, the record and the lateness of each record."""
    max_timestamp = defaultdict(int)
    rows = []
    for created in topics.records:
        partition, timestamp = (created.topic, created.partition), created.record.timestamp
        rows.append((partition, created.record, max(0, max_timestamp[partition] - timestamp)))
        max_timestamp[partition] = max(max_timestamp[partition], timestamp)
    return rows


def counts_of(rows):
    behind = [late_ms for _, _, late_ms in rows if late_ms]
    late = sum(late_ms > LATE_MS for late_ms in behind)
    return {
        "records": len(rows),
        "outOfOrder": len(behind),
        "outOfOrderShare": pytest.approx(len(behind) / len(rows)),
        "late": late,
        "lateShare": pytest.approx(late / len(rows)),
        "p50LateMs": pytest.approx(np.percentile(behind, 50)),
        "p99LateMs": pytest.approx(np.percentile(behind, 99)),
        "maxLateMs": max(behind),
        "future": sum(record.timestamp > NOW_MS for _, record, _ in rows),
        "untimed": 0,
    }


def last_times(lateness):
    last = defaultdict(int)
    for partition, record, _ in lateness:
        last[partition] = max(last[partition], record.timestamp)
    return last


def test_partitions_have_their_late_records(ran, lateness):
    last = last_times(lateness)
    rows = ran.by("partitions", "topic", "partition")
    assert rows.keys() == last.keys()
    for partition, row in rows.items():
        rows_of_partition = [entry for entry in lateness if entry[0] == partition]
        last_of_topic = max(time for (topic, _), time in last.items() if topic == partition[0])
        assert row == {
            "topic": partition[0],
            "partition": partition[1],
            **counts_of(rows_of_partition),
            "firstTime": min(record.timestamp for _, record, _ in rows_of_partition),
            "lastTime": last[partition],
            "behindTopicMs": last_of_topic - last[partition],
        }


def test_topics_have_the_skew_of_their_partitions(ran, lateness):
    last = last_times(lateness)
    for topic, row in ran.by("topics", "topic").items():
        times = [time for (name, _), time in last.items() if name == topic]
        rows_of_topic = [entry for entry in lateness if entry[0][0] == topic]
        assert row == {
            "topic": topic,
            **counts_of(rows_of_topic),
            "skewMs": max(times) - min(times),
        }


def test_out_of_order_records_are_grouped_by_lateness(ran, lateness):
    classes = Counter(
        (partition[0], next(class_ms for class_ms in CLASSES_MS if late_ms >= class_ms))
        for partition, _, late_ms in lateness
        if late_ms
    )
    rows = ran.by("lateness", "topic", "atLeastMs")
    assert {partition: row["records"] for partition, row in rows.items()} == dict(classes)


def test_late_records_are_counted_over_time(ran, lateness):
    records, late, greatest = Counter(), Counter(), Counter()
    for partition, record, late_ms in lateness:
        bucket = (partition[0], record.timestamp // BUCKET_MS * BUCKET_MS)
        records[bucket] += 1
        late[bucket] += late_ms > LATE_MS
        greatest[bucket] = max(greatest[bucket], late_ms)
    rows = ran.by("time", "topic", "start")
    assert rows.keys() == records.keys()
    for bucket, row in rows.items():
        assert (row["records"], row["late"], row["maxLateMs"]) == (
            records[bucket],
            late[bucket],
            greatest[bucket],
        )


def test_latest_records_are_listed(ran, lateness):
    rows = ran.table("latest")
    late = sorted((late_ms for _, _, late_ms in lateness if late_ms), reverse=True)
    assert [row["lateMs"] for row in rows] == late[: len(rows)]
    lateness_by_offset = {
        (*partition, record.offset): late_ms for partition, record, late_ms in lateness
    }
    for row in rows:
        assert lateness_by_offset[row["topic"], row["partition"], row["offset"]] == row["lateMs"]
    assert {row["topic"] for row in rows} <= set(PARTITIONS)


def test_record_without_timestamp_is_neither_late_nor_counted_in_time(spark, tmp_path):
    directory = LogDirectory(tmp_path / "logs")
    timed = [
        message(1, b"v", offset=offset, timestamp=FIRST_MS + offset * 1000) for offset in (0, 1)
    ]
    directory.write(0, [*timed, *(message(0, b"v", offset=offset) for offset in (2, 3, 4))])
    ran = JobRun(main, tmp_path / "out", directory.path)
    (row,) = ran.table("partitions")
    assert (row["records"], row["untimed"], row["outOfOrder"], row["late"]) == (5, 3, 0, 0)
    assert (row["firstTime"], row["lastTime"]) == (FIRST_MS, FIRST_MS + 1000)
    assert {row["start"] for row in ran.table("time")} == {FIRST_MS, FIRST_MS + 1000}
