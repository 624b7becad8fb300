"""Jobs written for ``odradek.spark_jobs.running``, now ``job_runner``, still run."""

import json

from odradek.spark_jobs.running.durations import bucket_ms, duration_ms
from odradek.spark_jobs.running.flags import SELECTION, milliseconds
from odradek.spark_jobs.running.job import DONE, Call, Job, JobFailed, no_arguments
from odradek.spark_jobs.running.result import Chart, Result, Shape, Table
from odradek.spark_jobs.running.selection import chosen_partitions
from tests.support.batches import batch_of
from tests.support.scans import TOPIC, LogDirectory


def test_job_with_former_names_runs_and_releases_its_tables(spark, tmp_path, capsys):
    def run(call: Call) -> Result:
        call.progress("counting")
        cached.append(call.keep(call.read(columns="topic")))
        counts = call.sql("select topic, count(*) as n from {rows} group by topic", rows=cached[0])
        assert call.damage() == []
        chart = Chart("Records", Shape.BARS, "topic", "n", only=("topic", TOPIC))
        return Result([Table("counts", "Counts", counts, [chart])], exit_status=DONE)

    cached = []
    directory = LogDirectory(tmp_path / "logs")
    directory.write(0, [batch_of(b"%d" % offset, base_offset=offset) for offset in range(3)])
    job = Job("count", "Count records.", no_arguments, run, tells_damage=False)
    arguments = [str(directory.path), "--output"]
    assert job.main([*arguments, "json"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out) == {"table": "counts", "topic": TOPIC, "n": 3}
    assert "s: counting\n" in printed.err
    assert not cached[0].storageLevel.useMemory
    assert spark.catalog.listTables() == []
    assert job.main([*arguments, "html", "--to", str(tmp_path / "page.html")]) == 0
    assert (tmp_path / "page.html").read_text().count("<figure>") == 1


def test_job_with_former_names_rejects_unsupported_flags(spark, tmp_path, capsys):
    def run(call: Call) -> Result:
        chosen_partitions(call, "whole partitions only")
        raise JobFailed("not reached")

    directory = LogDirectory(tmp_path / "logs")
    directory.write(0, [batch_of(b"0", base_offset=0)])
    arguments = [str(directory.path), "--starting-timestamp", "1970-01-02"]
    assert Job("check", "Check.", no_arguments, run).main(arguments) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == "odradek check: --starting-timestamp: whole partitions only"


def test_functions_with_former_names_return_the_same_values():
    assert (duration_ms("5m"), bucket_ms(60_000), milliseconds("1970-01-02")) == (
        300_000,
        1000,
        "86400000",
    )
    assert SELECTION[0].option == "topics"
