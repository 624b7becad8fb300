"""Both sides of benchmarks/spark.py give the same results. Nothing is timed."""

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

    return spark_data.write_logs(tmp_path_factory.mktemp("data") / "logs", megabytes=1)


def test_scanner_reads_the_same_as_plain_python(written):
    from straightforward_decoder import decode_segment

    files = sorted(written.directory.glob("*/*.log"))
    plain = [row for file in files for row in decode_segment(file.read_bytes())]
    scanned = []
    for rows in scan(path=str(written.directory), columns="offset,timestamp,key,value"):
        columns = rows.set_column(1, "timestamp", rows["timestamp"].cast("int64")).to_pydict()
        scanned += zip(*columns.values(), strict=True)
    assert [(offset, time // 1000, key, value) for offset, time, key, value in scanned] == plain
    assert len(plain) == written.records > 5_000


def test_all_query_implementations_give_the_same_results(spark, written):
    from spark_queries import QUERIES, QueryContext

    context = QueryContext(spark, written)
    for name, query in QUERIES.items():
        assert query.odradek(context) == query.straightforward(context), name
        assert query.scanner_only(context) == query.odradek(context), name


#: A grandchild that uses CPU time after its parent has exited.
ORPHAN = """
import os, sys, time
if os.fork() == 0:
    while time.process_time() < 0.3: pass
    print("done", flush=True)
"""


def test_cpu_time_of_orphans_is_counted():
    """Runs in a new process, since a subreaper adopts orphans permanently."""
    program = f"""
import subprocess, sys
sys.path.insert(0, {str(BENCHMARKS)!r})
from process_tree import cpu_seconds, become_subreaper
become_subreaper()
begun = cpu_seconds()
subprocess.run([sys.executable, "-c", {ORPHAN!r}], check=True, stdout=subprocess.PIPE)
print(cpu_seconds() - begun)
"""
    result = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert float(result.stdout) >= 0.3
