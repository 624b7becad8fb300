"""The compaction report agrees with our own cleaner and with sums in Python."""

from random import Random

import pytest

from odradek.spark_jobs.compaction_report import main
from tests.support.compaction import append_pairs, compact, sealed, stored_records
from tests.support.job_runs import JobRun
from tests.support.logs import end_transaction, opened

TOPIC = "events"  # the topic of tests/support/logs.py


def payload(pairs):
    return sum(len(key or b"") + len(value or b"") for key, value in pairs)


@pytest.fixture
def log(tmp_path):
    log = opened(tmp_path / f"{TOPIC}-0", segment_bytes=4000, cleanup_policy=("compact",))
    yield log
    log.close(now_ms=0)


def fill(log, *, batches=60, seed=5):
    """Append few keys, tombstones, and some committed and aborted transactions."""
    random = Random(seed)
    sequences = {1: 0, 2: 0}
    for number in range(batches):
        pairs = [
            (
                b"k%d" % int(random.expovariate(0.05)),
                bytes(random.randint(0, 200)) if random.random() < 0.9 else None,
            )
            for _ in range(random.randint(1, 6))
        ]
        if number % 5:
            append_pairs(log, *pairs)
            continue
        producer_id = random.choice([1, 2])
        append_pairs(
            log,
            *pairs,
            is_transactional=True,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=sequences[producer_id],
        )
        sequences[producer_id] += len(pairs)
        end_transaction(log, producer_id=producer_id, commit=random.random() < 0.5)


def overall(tmp_path, *arguments):
    partition = tmp_path / f"{TOPIC}-0"
    job_run = JobRun(main, tmp_path / "out", partition, *arguments, "--tables", "overall")
    assert job_run.status == 0
    (row,) = job_run.table("overall")
    return row


def test_superseded_records_are_those_that_the_cleaner_removes(spark, log, tmp_path):
    fill(log)
    sealed(log)
    before = len(stored_records(log))
    disk_bytes = sum(segment.size_bytes for segment in log.segments)
    report = overall(tmp_path, "--without-active-segment")
    compact(log)
    after = stored_records(log)
    removed = report["superseded"] + report["keyless"] + report["aborted"]
    assert report["aborted"] > 0
    assert report["superseded"] > before / 3
    assert (report["records"], removed) == (before, before - len(after))
    assert report["tombstones"] == sum(record.value is None for record in after)
    remaining = payload((record.key, record.value) for record in after)
    assert report["bytes"] - report["supersededBytes"] - report["keylessBytes"] == remaining
    saved = disk_bytes - sum(segment.size_bytes for segment in log.segments)
    assert report["savedDiskBytes"] == pytest.approx(saved, rel=0.15)


def test_active_segment_is_counted_unless_excluded(spark, log, tmp_path):
    append_pairs(log, (b"a", b"1"), (b"b", b"2"))
    append_pairs(log, (b"a", b"3"))
    sealed(log)
    append_pairs(log, (b"a", b"44"), (b"b", None))
    log.flush(now_ms=0)
    with_active, without_active = overall(tmp_path), overall(tmp_path, "--without-active-segment")
    names = ("records", "superseded", "tombstones", "bytes", "supersededBytes", "tombstoneBytes")
    assert [with_active[name] for name in names] == [5, 3, 1, 10, 6, 1]
    assert [without_active[name] for name in names] == [3, 1, 0, 6, 2, 0]


def test_records_without_a_key_count_and_partitions_are_separate(spark, tmp_path):
    for partition in range(2):
        log = opened(tmp_path / "logs" / f"{TOPIC}-{partition}")
        append_pairs(log, (b"a", b"12"), (None, b"345"), (b"a", b"6"))
        if partition:
            append_pairs(log, (b"a", None))
        log.close(now_ms=0)
    job_run = JobRun(main, tmp_path / "out", tmp_path / "logs")
    names = ("records", "superseded", "keyless", "tombstones", "supersededBytes", "keylessBytes")
    rows = job_run.by("partitions", "topic", "partition")
    assert [rows[TOPIC, 0][name] for name in names] == [3, 1, 1, 0, 3, 3]
    assert [rows[TOPIC, 1][name] for name in names] == [4, 2, 1, 1, 5, 3]
    (topic,) = job_run.table("topics")
    assert [topic[name] for name in names] == [7, 3, 2, 1, 8, 6]


def test_ending_offsets_are_obeyed(spark, log, tmp_path):
    for value in (b"1", b"2", b"3"):
        append_pairs(log, (b"a", value))
    log.flush(now_ms=0)
    ends = f'{{"{TOPIC}": {{"0": 2}}}}'
    assert overall(tmp_path, "--ending-offsets", ends)["superseded"] == 1
