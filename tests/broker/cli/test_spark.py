"""``odradek spark``: the list of jobs, the zip for workers, and unknown jobs."""

from zipfile import ZipFile

import pytest


@pytest.mark.parametrize("arguments", [[], ["--help"]])
def test_without_a_job_it_lists_the_jobs(offline, arguments):
    result = offline("spark", *arguments)
    assert result.status == 0
    assert result.lines[0] == "usage: odradek spark JOB ..."
    assert "py-files" in result.lines[-1]


def test_unknown_job_is_reported_in_one_line(offline):
    complaint = offline("spark", "make-coffee", "--now").complaint
    assert "unknown job make-coffee; the jobs are" in complaint


def test_py_files_writes_the_zip(offline, tmp_path):
    to = tmp_path / "odradek.zip"
    result = offline("spark", "py-files", to)
    assert (result.status, len(result.lines)) == (0, 1)
    assert "odradek/spark_jobs/source/register.py" in ZipFile(to).namelist()
    assert "give one file" in offline("spark", "py-files").complaint
    assert "No such file" in offline("spark", "py-files", tmp_path / "no" / "such.zip").complaint
