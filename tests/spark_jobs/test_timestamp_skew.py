"""Timestamp skew, against a walk over the records in their order."""

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
    """Of each record: its partition, its record, and by how much it is late."""
    youngest = defaultdict(int)
    found = []
    for each in topics.records:
        place, at = (each.topic, each.partition), each.record.timestamp
        found.append((place, each.record, max(0, youngest[place] - at)))
        youngest[place] = max(youngest[place], at)
    return found


def counts_of(found):
    behind = [late_ms for _, _, late_ms in found if late_ms]
    late = sum(late_ms > LATE_MS for late_ms in behind)
    return {
        "records": len(found),
        "outOfOrder": len(behind),
        "outOfOrderShare": pytest.approx(len(behind) / len(found)),
        "late": late,
        "lateShare": pytest.approx(late / len(found)),
        "p50LateMs": pytest.approx(np.percentile(behind, 50)),
        "p99LateMs": pytest.approx(np.percentile(behind, 99)),
        "maxLateMs": max(behind),
        "future": sum(record.timestamp > NOW_MS for _, record, _ in found),
        "untimed": 0,
    }


def last_times(lateness):
    last = defaultdict(int)
    for place, record, _ in lateness:
        last[place] = max(last[place], record.timestamp)
    return last


def test_partitions_have_what_came_late_in_them(ran, lateness):
    last = last_times(lateness)
    rows = ran.by("partitions", "topic", "partition")
    assert rows.keys() == last.keys()
    for place, row in rows.items():
        found = [each for each in lateness if each[0] == place]
        of_topic = max(time for (topic, _), time in last.items() if topic == place[0])
        assert row == {
            "topic": place[0],
            "partition": place[1],
            **counts_of(found),
            "firstTime": min(record.timestamp for _, record, _ in found),
            "lastTime": last[place],
            "behindTopicMs": of_topic - last[place],
        }


def test_topics_have_the_skew_of_their_partitions(ran, lateness):
    last = last_times(lateness)
    for topic, row in ran.by("topics", "topic").items():
        times = [time for (name, _), time in last.items() if name == topic]
        found = [each for each in lateness if each[0][0] == topic]
        assert row == {"topic": topic, **counts_of(found), "skewMs": max(times) - min(times)}


def test_records_out_of_order_are_classed_by_how_late_they_are(ran, lateness):
    classes = Counter(
        (place[0], next(least for least in CLASSES_MS if late_ms >= least))
        for place, _, late_ms in lateness
        if late_ms
    )
    rows = ran.by("lateness", "topic", "atLeastMs")
    assert {place: row["records"] for place, row in rows.items()} == dict(classes)


def test_late_records_are_told_over_time(ran, lateness):
    records, late, greatest = Counter(), Counter(), Counter()
    for place, record, late_ms in lateness:
        part = (place[0], record.timestamp // BUCKET_MS * BUCKET_MS)
        records[part] += 1
        late[part] += late_ms > LATE_MS
        greatest[part] = max(greatest[part], late_ms)
    rows = ran.by("time", "topic", "start")
    assert rows.keys() == records.keys()
    for part, row in rows.items():
        assert (row["records"], row["late"], row["maxLateMs"]) == (
            records[part],
            late[part],
            greatest[part],
        )


def test_the_latest_records_are_named(ran, lateness):
    rows = ran.table("latest")
    late = sorted((late_ms for _, _, late_ms in lateness if late_ms), reverse=True)
    assert [row["lateMs"] for row in rows] == late[: len(rows)]
    of_offset = {(*place, record.offset): late_ms for place, record, late_ms in lateness}
    for row in rows:
        assert of_offset[row["topic"], row["partition"], row["offset"]] == row["lateMs"]
    assert {row["topic"] for row in rows} <= set(PARTITIONS)


def test_what_has_no_timestamp_is_neither_late_nor_the_beginning_of_time(spark, tmp_path):
    directory = LogDirectory(tmp_path / "logs")
    timed = [message(1, b"v", offset=at, timestamp=FIRST_MS + at * 1000) for at in (0, 1)]
    directory.write(0, [*timed, *(message(0, b"v", offset=at) for at in (2, 3, 4))])
    ran = JobRun(main, tmp_path / "out", directory.path)
    (row,) = ran.table("partitions")
    assert (row["records"], row["untimed"], row["outOfOrder"], row["late"]) == (5, 3, 0, 0)
    assert (row["firstTime"], row["lastTime"]) == (FIRST_MS, FIRST_MS + 1000)
    assert {row["start"] for row in ran.table("time")} == {FIRST_MS, FIRST_MS + 1000}
