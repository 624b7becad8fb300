"""``odradek spark JOB`` runs each job by its name on the existing session."""

import json

import pytest

from odradek.broker.cli.main import main
from odradek.broker.cli.spark import jobs
from tests.support.batches import batch_of
from tests.support.scans import LogDirectory
from tests.support.spark_session import compiled


def test_job_runs_by_name(spark, tmp_path):
    """With compiled queries, the default; test_default_settings.py covers all jobs."""
    directory = LogDirectory(tmp_path / "logs")
    directory.write(0, [batch_of(b"v", b"w", base_offset=0)])
    to = tmp_path / "found.json"
    arguments = ["hot-keys", str(directory.path), "--output", "json", "--to", str(to)]
    with compiled(spark):
        assert main(["spark", *arguments]) == 0
    (row,) = map(json.loads, to.read_text().splitlines())
    assert (row["topic"], row["records"], row["keyless"]) == ("orders", 2, 2)


@pytest.mark.parametrize("job", jobs())
def test_every_job_has_help(job, capsys):
    with pytest.raises(SystemExit) as exited:
        main(["spark", job.replace("_", "-"), "--help"])
    assert exited.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: odradek spark {job.replace('_', '-')} ")
