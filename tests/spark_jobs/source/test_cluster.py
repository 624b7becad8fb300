"""Spark clusters with two workers whose Python has no Odradek installed."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import numpy
import pytest

from odradek.protocol.records.record import Record
from odradek.spark_jobs.source.py_files import write_py_files
from tests.support.batches import batch_of
from tests.support.scans import LogDirectory
from tests.support.spark_session import INTERPRETED, SETTINGS, need_java
from tests.support.standalone_cluster import MEMORY, standalone_cluster

ROOT = Path(__file__).parents[3]
JOB = ROOT / "spark_jobs" / "hot_keys.py"
COMMAND = [sys.executable, "-m", "odradek.broker.cli.main", "spark", "hot-keys"]
MASTER = "local-cluster[2,1,1024]"
JOB_OPTIONS = ["--mode", "dropmalformed", "--output", "json"]
TIMEOUT_S = 170
BATCHES, KEYS = 40, 7


@pytest.fixture
def directory(tmp_path):
    directory = LogDirectory(tmp_path / "logs")
    records = [
        Record(offset, 0, b"key %d" % (offset % KEYS), b"v", ()) for offset in range(BATCHES)
    ]
    batches = [bytes(batch_of(record, base_offset=record.offset)) for record in records]
    directory.write(0, batches, indexed=True)
    return directory


@pytest.fixture
def environment(tmp_path):
    """Workers have the packages of this Python, but not Odradek."""
    python = tmp_path / "python"
    # Without the site module, Python does not find an editable install.
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    wheels = Path(numpy.__file__).parents[1]
    return {
        **os.environ,
        "PYTHONPATH": str(wheels),
        "PYSPARK_PYTHON": str(python),
        "PYSPARK_DRIVER_PYTHON": str(python),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_SUBMIT_ARGS": " ".join(map(shlex.quote, [*SPARK_OPTIONS, "pyspark-shell"])),
    }


SPARK_OPTIONS = [
    word
    for setting in {**SETTINGS, **INTERPRETED}.items()
    for word in ("--conf", "=".join(setting))
]


def run(environment, tmp_path, *command):
    need_java()
    return subprocess.run(
        [str(word) for word in command],
        env={**environment, "SPARK_LOCAL_DIRS": str(tmp_path / "local")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )


def check_result(path):
    tables = [json.loads(line) for line in path.read_text().splitlines()]
    (topic,) = [row for row in tables if row["table"] == "topics"]
    assert (topic["topic"], topic["records"], topic["keys"]) == ("orders", BATCHES, KEYS)


@pytest.mark.soak  # six Java processes
def test_submitted_job_runs_with_the_code_in_a_zip(environment, directory, tmp_path):
    """On a standalone cluster: a master and two workers, each with an executor."""
    need_java()
    write_py_files(tmp_path / "odradek.zip")
    submit = Path(sys.executable).with_name("spark-submit")
    settings = [*SPARK_OPTIONS, "--executor-memory", MEMORY]
    to = tmp_path / "keys.json"
    with standalone_cluster(tmp_path, environment, workers=2) as cluster:
        result = run(
            *(environment, tmp_path),
            *(submit, "--master", cluster.url, *settings, "--py-files", tmp_path / "odradek.zip"),
            *(JOB, directory.path, "--max-split-bytes", "500", *JOB_OPTIONS, "--to", to),
        )
        assert result.returncode == 0, result.stderr
        assert cluster.executors() == [1, 1]
    check_result(to)


def test_command_ships_the_code_to_the_workers(environment, directory, tmp_path):
    """Only the driver runs where Odradek is installed."""
    to = tmp_path / "keys.json"
    arguments = [directory.path, *JOB_OPTIONS, "--to", to, "--master", MASTER]
    result = run(environment, tmp_path, *COMMAND, *arguments)
    assert result.returncode == 0, result.stderr
    check_result(to)
