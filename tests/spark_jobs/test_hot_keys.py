"""Hot keys, compared with counts over the generated records."""

from collections import Counter

import pytest

from odradek.spark_jobs.hot_keys import main
from tests.support.job_runs import JobRun
from tests.support.made_up_topics import PARTITIONS, MadeUpTopics

TOP = 4


@pytest.fixture(scope="module")
def topics(tmp_path_factory):
    return MadeUpTopics(tmp_path_factory.mktemp("keys") / "logs", seed=2)


def weight_of(record, by):
    return 1 if by == "records" else len(record.key or b"") + len(record.value or b"")


@pytest.mark.parametrize("by", ["records", "bytes"])
def test_hottest_keys_of_each_topic_come_first(spark, topics, tmp_path, by):
    job_run = JobRun(main, tmp_path / "out", topics.path, "--by", by, "--top", TOP)
    assert job_run.status == 0
    for topic in PARTITIONS:
        weights, counts = Counter(), Counter()
        for created in topics.records:
            if created.topic == topic:
                weights[created.record.key] += weight_of(created.record, by)
                counts[created.record.key] += 1
        total = weights.total()
        ranked = sorted((-weight, key) for key, weight in weights.items() if key is not None)
        rows = [row for row in job_run.table("keys") if row["topic"] == topic]
        assert [(row["rank"], row["key"], row["records"], row[by]) for row in rows] == [
            (rank, key.decode(), counts[key], -weight)
            for rank, (weight, key) in enumerate(ranked[:TOP], start=1)
        ]
        assert [row["share"] for row in rows] == pytest.approx(
            [-weight / total for weight, _ in ranked[:TOP]]
        )
        keyless = counts.pop(None)
        assert job_run.by("topics", "topic")[topic] == {
            "topic": topic,
            "records": counts.total() + keyless,
            "keys": len(counts),
            "keyless": keyless,
            "recordsPerKey": pytest.approx(counts.total() / len(counts)),
        }
