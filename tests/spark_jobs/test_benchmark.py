"""What benchmarks/spark.py compares: both ways have the same answers.  Nothing is timed."""

import subprocess
import sys
from pathlib import Path

import pytest

from odradek.spark_jobs.scan.scanner import scan

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module", autouse=True)
def importable():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        yield


@pytest.fixture(scope="module")
def written(tmp_path_factory, importable):
    import spark_data

    return spark_data.write(tmp_path_factory.mktemp("data") / "logs", megabytes=1)


def test_the_scanner_reads_what_plain_python_reads(written):
    from straightforward import straightforward

    files = sorted(written.directory.glob("*/*.log"))
    plain = [row for file in files for row in straightforward(file.read_bytes())]
    found = []
    for rows in scan(path=str(written.directory), columns="offset,timestamp,key,value"):
        columns = rows.set_column(1, "timestamp", rows["timestamp"].cast("int64")).to_pydict()
        found += zip(*columns.values(), strict=True)
    assert [(offset, time // 1000, key, value) for offset, time, key, value in found] == plain
    assert len(plain) == written.records > 5_000


def test_both_ways_to_ask_have_the_same_answers(spark, written):
    from spark_queries import QUESTIONS, Asked

    asked = Asked(spark, written)
    for name, question in QUESTIONS.items():
        assert question.odradek(asked) == question.straightforward(asked), name
        assert question.alone(asked) == question.odradek(asked), name


#: A grandchild that works, whose parent is gone by then.
ORPHAN = """
import os, sys, time
if os.fork() == 0:
    while time.process_time() < 0.3: pass
    print("done", flush=True)
"""


def test_the_time_of_orphans_counts():
    """In a process of its own: orphans are taken in for good."""
    program = f"""
import subprocess, sys
sys.path.insert(0, {str(BENCHMARKS)!r})
from process_tree import cpu_seconds, take_in_orphans
take_in_orphans()
begun = cpu_seconds()
subprocess.run([sys.executable, "-c", {ORPHAN!r}], check=True, stdout=subprocess.PIPE)
print(cpu_seconds() - begun)
"""
    ran = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert float(ran.stdout) >= 0.3
