"""A cluster of two workers whose Python has no Odradek but what ``--py-files`` brings."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy
import pytest

from odradek.protocol.records.compression import Codec
from odradek.spark_jobs.source.py_files import write_py_files
from tests.support.batches import batch_of
from tests.support.scans import LogDirectory
from tests.support.spark_session import SETTINGS, need_java

ROOT = Path(__file__).parents[3]
PROGRAM = ROOT / "tests" / "support" / "cluster_program.py"
MASTER = "local-cluster[2,1,1024]"
TIMEOUT_S = 120
BATCHES = 40


@pytest.fixture
def directory(tmp_path):
    """Two topics, of which one needs a codec."""
    directory = LogDirectory(tmp_path / "logs")
    made = [bytes(batch_of(b"v", base_offset=at)) for at in range(BATCHES)]
    directory.write(0, made, indexed=True)
    packed = directory.path / "packed-0"
    packed.mkdir()
    batch = batch_of(b"v" * 100, base_offset=0, codec=Codec.SNAPPY)
    (packed / directory.file(0).name).write_bytes(batch)
    return directory


@pytest.fixture
def environment(tmp_path):
    """Workers see the wheels of this Python, but neither Odradek nor snappy."""
    lacking = tmp_path / "lacking"
    lacking.mkdir()
    (lacking / "snappy.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'snappy'\", name='snappy')\n"
    )
    python = tmp_path / "python"
    # Without site, nothing tells it where an editable install is.
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    wheels = Path(numpy.__file__).parents[1]
    return {
        **os.environ,
        "PYTHONPATH": f"{lacking}:{wheels}",
        "PYSPARK_PYTHON": str(python),
        "PYSPARK_DRIVER_PYTHON": str(python),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def submitted(environment, directory, *options):
    """What the program prints, line by line."""
    settings = {**SETTINGS, "spark.local.dir": str(directory.path.parent / "local")}
    told = [word for item in settings.items() for word in ("--conf", "=".join(item))]
    submit = Path(sys.executable).with_name("spark-submit")
    command = [submit, "--master", MASTER, *told, *options, PROGRAM, directory.path]
    ran = subprocess.run(
        [str(word) for word in command],
        env=environment,
        cwd=directory.path.parent,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert ran.returncode == 0, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]


def test_workers_have_all_code_from_the_zip_and_say_which_wheel_they_lack(
    environment, directory, tmp_path
):
    need_java()
    archive = tmp_path / "odradek.zip"
    write_py_files(archive)
    told, failed = submitted(environment, directory, "--py-files", archive)
    assert told["offsets"] == list(range(BATCHES))
    assert all("odradek.zip" in path for path in told["modules"])
    assert len(told["executors"]) == 2
    assert "lacks python-snappy: every worker's Python needs what" in failed["line"]
