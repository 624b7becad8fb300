"""Every job runs as an installed command with Spark's default settings.

The other tests interpret queries, which is faster for little data. By default Spark compiles them
with other code; each job must give the same results.
"""

import json
import os
import subprocess
import sys
from importlib import import_module

import pytest

from odradek.broker.cli.spark import jobs
from tests.support.broker_process import BrokerProcess
from tests.support.exports import rows_in
from tests.support.internal_topics import (
    CONSUMER_OFFSETS,
    NOW_MS,
    TRANSACTION_STATE,
    InternalLog,
    offset_key,
    offset_value,
    transaction_key,
    transaction_value,
)
from tests.support.made_up_topics import PARTITIONS, MadeUpTopics
from tests.support.scans import Scanned
from tests.support.spark_session import need_java

pytestmark = pytest.mark.soak  # a JVM for each job

#: Options that would otherwise depend on the current time.
ARGUMENTS = {
    "timestamp_skew": ["--now", str(NOW_MS)],
    "consumer_lag": ["--as-of", str(NOW_MS)],
    "transaction_report": ["--as-of", str(NOW_MS)],
}
TRANSFERS = ("export", "restore")
TIMEOUT_S = 170


@pytest.fixture(scope="module")
def topics(tmp_path_factory):
    """Topics, committed offsets and a transactional id."""
    created = MadeUpTopics(tmp_path_factory.mktemp("default") / "logs", seed=4)
    commits = InternalLog(created.path, CONSUMER_OFFSETS)
    for topic, offset in (("orders", 5), ("clicks", 9), ("orders", 17)):
        commits.put(offset_key("billing", topic, 0), offset_value(offset))
    states = InternalLog(created.path, TRANSACTION_STATE)
    states.put(transaction_key("copier"), transaction_value(7, 1, {"orders": [0]}))
    return created


def run(tmp_path, job, *arguments):
    """Run the job as a new command, without the settings of the test session."""
    need_java()
    test_variables = ("PYSPARK_PYTHON", "PYTHONPATH", "PYSPARK_SUBMIT_ARGS")
    environment = {name: value for name, value in os.environ.items() if name not in test_variables}
    folders = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_DIRS": str(tmp_path / "local")}
    command = [sys.executable, "-m", "odradek.broker.cli.main", "spark", job.replace("_", "-")]
    return subprocess.run(
        [*command, *map(str, arguments)],
        env={**environment, **folders},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )


def sorted_lines(path):
    return sorted(path.read_text().splitlines())


@pytest.mark.parametrize("job", [job for job in jobs() if job not in TRANSFERS])
def test_job_gives_the_same_results_compiled_and_interpreted(spark, topics, tmp_path, job):
    arguments = [str(topics.path), *ARGUMENTS.get(job, []), "--output", "json", "--to"]
    interpreted, compiled = tmp_path / "interpreted", tmp_path / "compiled"
    status = import_module(f"odradek.spark_jobs.{job}").main([*arguments, str(interpreted)])
    result = run(tmp_path, job, *arguments, compiled)
    assert result.returncode == status, result.stderr
    assert sorted_lines(compiled) == sorted_lines(interpreted)
    assert {json.loads(line)["table"] for line in sorted_lines(compiled)}


def test_export_is_restored(topics, tmp_path):
    options = [topics.path, "--topics", ",".join(PARTITIONS), "--into", tmp_path / "export"]
    exported = run(tmp_path, "export", *options)
    assert exported.returncode == 0, exported.stderr
    assert rows(rows_in(tmp_path / "export")) == expected_rows(topics)
    with BrokerProcess(tmp_path / "broker", "log.retention.ms=-1").start() as broker:
        target = ["--bootstrap-server", broker.address, "--create", "--replication-factor", "1"]
        restored = run(tmp_path, "restore", tmp_path / "export", *target)
        assert restored.returncode == 0, restored.stderr
        options = {"topics": ",".join(PARTITIONS), "ignoreHighWatermark": "true"}
        assert rows(Scanned(str(broker.data_dir), **options).rows) == expected_rows(topics)


def rows(dictionaries):
    names = ("topic", "partition", "key", "value", "timestamp")
    return [tuple(row[name] for name in names) for row in dictionaries]


def expected_rows(topics):
    return [
        (
            created.topic,
            created.partition,
            created.record.key,
            created.record.value,
            created.record.timestamp,
        )
        for created in topics.records
    ]
