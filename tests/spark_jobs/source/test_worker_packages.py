"""A worker without a package reports it in one line."""

import sys

import pytest

from odradek.protocol.records.compression import Codec
from odradek.spark_jobs import hot_keys, integrity_audit
from odradek.spark_jobs.source.register import register
from tests.support.batches import batch_of
from tests.support.scans import LogDirectory

WITHOUT_SNAPPY = "raise ModuleNotFoundError(\"No module named 'snappy'\", name='snappy')\n"


@pytest.fixture(scope="module")
def without_snappy(spark, tmp_path_factory):
    """Workers started from now on lack snappy; the driver has it."""
    folder = tmp_path_factory.mktemp("lacking")
    lacking = folder / "lacking"
    lacking.mkdir()
    (lacking / "snappy.py").write_text(WITHOUT_SNAPPY)
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{lacking}:$PYTHONPATH" exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spark.sparkContext, "pythonExec", str(python))
        yield
    register(spark)  # the source remembers which Python it was registered with


@pytest.mark.usefixtures("without_snappy")
@pytest.mark.parametrize("job", [hot_keys, integrity_audit])
def test_worker_reports_the_missing_package(tmp_path, capsys, job):
    """With the data source, and with a function of the job."""
    directory = LogDirectory(tmp_path / "logs")
    directory.write(0, [batch_of(b"v" * 100, base_offset=0, codec=Codec.SNAPPY)])
    assert job.main([str(directory.path)]) == 1
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith(f"odradek {job.JOB.name}: {sys.executable} on ")
    assert line.endswith("lacks python-snappy: install 'odradek[spark]' for every worker's Python")
