"""``odradek spark``: which jobs there are, the zip for workers, and what has to be installed."""

from zipfile import ZipFile

import pytest


@pytest.mark.parametrize("arguments", [[], ["--help"]])
def test_alone_it_lists_the_jobs(offline, arguments):
    ran = offline("spark", *arguments)
    assert ran.status == 0
    assert ran.lines[0] == "usage: odradek spark JOB ..."
    assert "py-files" in ran.lines[-1]


def test_no_such_job_is_one_line(offline):
    complaint = offline("spark", "make-coffee", "--now").complaint
    assert "no job is called make-coffee; there are" in complaint


def test_the_zip_is_written_by_one_command(offline, tmp_path):
    to = tmp_path / "odradek.zip"
    ran = offline("spark", "py-files", to)
    assert (ran.status, len(ran.lines)) == (0, 1)
    assert "odradek/spark_jobs/source/register.py" in ZipFile(to).namelist()
    assert "name the file" in offline("spark", "py-files").complaint
    assert "No such file" in offline("spark", "py-files", tmp_path / "no" / "such.zip").complaint
