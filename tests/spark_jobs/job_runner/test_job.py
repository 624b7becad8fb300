"""A job from its arguments to its exit code."""

import json
import subprocess
import sys

import pyarrow as pa
import pytest

from odradek.spark_jobs import compaction_report, hot_keys, timestamp_skew, topic_stats
from odradek.spark_jobs.job_runner.job import Job, add_no_arguments
from odradek.spark_jobs.job_runner.result import Result, Table
from tests.support.batches import batch_of
from tests.support.scans import TOPIC, LogDirectory

JOBS = [topic_stats, hot_keys, compaction_report, timestamp_skew]
COUNT = 5


@pytest.fixture
def directory(tmp_path):
    directory = LogDirectory(tmp_path / "logs")
    directory.write(0, [batch_of(b"%d" % offset, base_offset=offset) for offset in range(COUNT)])
    return directory


@pytest.fixture
def damaged(directory):
    """One byte of the third batch is flipped."""
    path = directory.file(0)
    content = bytearray(path.read_bytes())
    content[len(content) // COUNT * 3 - 1] ^= 1
    path.write_bytes(content)
    return directory


def count(call):
    return Result([Table("count", "Count", call.read(columns="partition").groupBy().count())])


COUNTING = Job("count", "How many records there are.", add_no_arguments, count)


def lines(capsys):
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_scan_flags_select_the_records(spark, directory, capsys):
    arguments = [str(directory.path), "--output", "json"]
    offsets = ["--starting-offsets", json.dumps({TOPIC: {"0": 3}})]
    assert COUNTING.main([*arguments, *offsets]) == 0
    assert COUNTING.main([*arguments, "--topics-pattern", "none"]) == 0
    assert lines(capsys) == [{"table": "count", "count": 2}, {"table": "count", "count": 0}]


def test_progress_is_written_to_standard_error(spark, directory, capsys):
    def run(call):
        call.report_progress("halfway")
        return Result([Table("one", "One", pa.table({"n": [1]}))])

    Job("try", "Try.", add_no_arguments, run).main([str(directory.path)])
    assert "odradek try: " in (stderr := capsys.readouterr().err)
    assert "s: halfway\n" in stderr


def test_damage_is_an_additional_table_and_exits_with_1(spark, damaged, capsys):
    assert COUNTING.main([str(damaged.path), "--output", "json"]) == 1
    counted, damage = lines(capsys)
    assert counted == {"table": "count", "count": COUNT - 1}
    assert damage["table"] == "damage"
    assert (damage["file"], damage["firstOffset"]) == (str(damaged.file(0)), 2)


def test_damage_is_reported_even_if_its_table_is_not_selected(spark, damaged, capsys):
    assert COUNTING.main([str(damaged.path), "--output", "json", "--tables", "count"]) == 1
    printed = capsys.readouterr()
    assert json.loads(printed.out) == {"table": "count", "count": COUNT - 1}
    assert "s: skipped 1 damaged range(s): list them with --tables damage\n" in printed.err


def test_dropmalformed_does_not_report_damage(spark, damaged, capsys):
    arguments = [str(damaged.path), "--mode", "dropmalformed", "--output", "json"]
    assert COUNTING.main(arguments) == 0
    assert lines(capsys) == [{"table": "count", "count": COUNT - 1}]


def test_failfast_reports_damage_in_one_line(spark, damaged, capsys):
    assert COUNTING.main([str(damaged.path), "--mode", "failfast"]) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith(f"odradek count: {damaged.file(0)}: bytes ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["/nowhere"], "/nowhere: no such directory"),
        (["/", "--topics", "a", "--assign", "{}"], "topics and assign cannot be given together"),
        (["/", "--starting-offsets", "x"], "startingOffsets: must be earliest or "),
    ],
)
def test_invalid_argument_is_reported_in_one_line(spark, capsys, arguments, message):
    assert COUNTING.main(arguments) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith(f"odradek count: {message}")


def test_exit_code_of_a_job_is_that_of_its_result(spark, directory):
    job = Job("try", "Try.", add_no_arguments, lambda call: Result([], exit_status=3))
    assert job.main([str(directory.path)]) == 3


def test_cached_tables_are_released_after_the_job(spark, directory):
    def run(call):
        cached.append(call.cache(call.read(columns="partition")))
        (row,) = call.sql(
            "select count(*) as {what} from {rows}", rows=cached[0], what="n"
        ).collect()
        assert row["n"] == COUNT
        assert cached[0].storageLevel.useMemory
        return Result([])

    cached = []
    assert Job("try", "Try.", add_no_arguments, run).main([str(directory.path)]) == 0
    assert not cached[0].storageLevel.useMemory
    assert spark.catalog.listTables() == []


@pytest.mark.parametrize("job", JOBS, ids=lambda module: module.__name__.rpartition(".")[2])
def test_help_has_examples_and_flags(job, capsys):
    with pytest.raises(SystemExit) as exited:
        job.main(["--help"])
    assert exited.value.code == 0
    printed = capsys.readouterr().out
    assert f"odradek spark {job.JOB.name}" in printed
    assert "Examples:" in printed
    for flag in ("--topics-pattern", "--output", "--to", "--master", "--isolation-level"):
        assert flag in printed


def test_missing_spark_is_reported_and_help_still_works():
    program = (
        "import sys; sys.modules['pyspark'] = None; "
        "from odradek.spark_jobs.hot_keys import main; sys.exit(main(sys.argv[1:]))"
    )

    def run(*arguments):
        command = [sys.executable, "-c", program, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    assert run("--help").returncode == 0
    failed = run("/logs")
    assert failed.returncode == 1
    assert failed.stderr == ("odradek hot-keys: Spark is missing: pip install 'odradek[spark]'\n")
